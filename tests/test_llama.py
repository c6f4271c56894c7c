"""The binding: models load, decode and roll back as promised, and a failure says why in one sentence."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest

from localspec import llama
from localspec.errors import ModelError
from localspec.llama import Context, ContextOptions, Model
from tests import synthetic

Build = Callable[[Path], Path]
SMALL = ContextOptions(n_ctx=256, n_batch=256, n_ubatch=256)
PROMPT = [5, 9, 13, 17, 21, 25, 29, 33, 37, 41]


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return synthetic.tiny_llama(tmp_path / "tiny.gguf")


def assert_one_sentence(error: BaseException) -> None:
    text = str(error)
    assert text.endswith(".")
    assert "\n" not in text
    assert ". " not in text


def fresh_logits(path: Path, tokens: list[int], options: ContextOptions = SMALL) -> llama.Logits:
    """The row after the last token, in a context that has never held anything else."""
    with llama.opened(path, context=options) as context:
        row: llama.Logits = context.decode(tokens, 1)[-1].copy()
        return row


def assert_same_logits(row: llama.Logits, expected: llama.Logits) -> None:
    np.testing.assert_allclose(row, expected, rtol=0, atol=0.02)
    assert expected.std() > 0.1  # a model whose rows are all alike would pass anything


def missing(folder: Path) -> Path:
    return folder / "missing.gguf"


def not_a_gguf(folder: Path) -> Path:
    path = folder / "notes.gguf"
    path.write_text("These are notes.\n" * 100)
    return path


def cut_off(folder: Path) -> Path:
    path = synthetic.tiny_llama(folder / "cut.gguf")
    path.write_bytes(path.read_bytes()[:-1000])
    return path


def of_tomorrow(folder: Path) -> Path:
    return synthetic.write(folder / "tomorrow.gguf", "llama99", {"token_embd.weight": (64, 32)})


def without_a_tensor(folder: Path) -> Path:
    return synthetic.write(folder / "part.gguf", "llama", {"token_embd.weight": (64, 32)})


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (missing, "There is no file"),
        (not_a_gguf, "is not a GGUF file"),
        (cut_off, "is cut off or damaged"),
        (of_tomorrow, "has the architecture 'llama99', which this llama.cpp does not support"),
        (without_a_tensor, "could not be loaded: .* tensor 'output_norm.weight' not found"),
    ],
)
def test_a_failed_load_says_why_in_one_sentence_and_prints_nothing(
    build: Build, reason: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = build(tmp_path)
    with pytest.raises(ModelError, match=reason) as caught:
        Model(path)
    assert_one_sentence(caught.value)
    assert path.name in str(caught.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux enforces a limit on address space")
def test_a_context_too_large_for_the_memory_is_refused(tiny: Path) -> None:
    # In a process with little memory, so that the machine does not have to run out of it.
    program = f"""
import resource
from pathlib import Path
from localspec import llama
model = llama.Model(Path({str(tiny)!r}))
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, resource.RLIM_INFINITY))
llama.Context(model, llama.ContextOptions(n_ctx=1 << 28))
"""
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    *_, last = child.stderr.strip().splitlines()
    assert last == (
        "localspec.errors.ModelError: There is not enough memory for a context of 268435456 tokens of tiny.gguf; "
        "lower `--ctx-size`."
    )


def test_loading_and_decoding_print_nothing(tiny: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fresh_logits(tiny, PROMPT)
    assert capfd.readouterr() == ("", "")


def test_progress_rises_from_0_to_1(smollm2: Path) -> None:
    fractions: list[float] = []
    with Model(smollm2, progress=fractions.append):
        assert fractions == sorted(fractions)
        assert 0.0 <= fractions[0] < 0.1
        assert fractions[-1] == 1.0
        assert len(fractions) > 10


def test_an_exception_from_the_progress_callback_stops_the_load_and_comes_out(smollm2: Path) -> None:
    calls: list[float] = []

    def cancel(fraction: float) -> None:
        calls.append(fraction)
        if len(calls) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Model(smollm2, progress=cancel)
    assert len(calls) == 3
    with Model(smollm2) as model:  # and nothing is left that stops the next one
        assert model.n_params > 100_000_000


def load_pair(target: Path, draft: Path) -> None:
    with llama.opened(target, context=SMALL) as first, llama.opened(draft, context=SMALL) as second:
        first.decode(PROMPT, 1)
        second.decode(PROMPT, 1)


def grown_bytes(times: int, load: Callable[[], None]) -> int:
    process = psutil.Process()
    before = process.memory_info().rss
    for _ in range(times):
        load()
    return int(process.memory_info().rss - before)


def test_loading_and_closing_a_pair_fifty_times_does_not_grow_memory(tmp_path: Path) -> None:
    # Each model has 1 MB of weights, so that one lost in fifty loads would show.
    target = synthetic.tiny_llama(tmp_path / "target.gguf", n_embd=128, n_ff=256, n_layer=2)
    draft = synthetic.tiny_llama(tmp_path / "draft.gguf", n_embd=128, n_ff=256)
    grown_bytes(10, lambda: load_pair(target, draft))
    assert grown_bytes(50, lambda: load_pair(target, draft)) < 4 << 20


def test_loading_and_closing_a_real_model_does_not_grow_memory(smollm2: Path) -> None:
    grown_bytes(3, lambda: load_pair(smollm2, smollm2))
    assert grown_bytes(7, lambda: load_pair(smollm2, smollm2)) < 16 << 20


def test_failed_loads_do_not_grow_memory(tmp_path: Path) -> None:
    path = without_a_tensor(tmp_path)

    def load() -> None:
        with pytest.raises(ModelError):
            Model(path)

    grown_bytes(10, load)
    assert grown_bytes(50, load) < 4 << 20


def test_closing_twice_is_harmless(tiny: Path) -> None:
    model = Model(tiny)
    context = Context(model, SMALL)
    for _ in range(2):
        context.close()
        model.close()


def test_a_model_knows_its_size_and_metadata(tiny: Path) -> None:
    with Model(tiny) as model:
        assert model.n_ctx_train == 256
        assert model.size_bytes == 4 * model.n_params
        assert "llama" in model.description
        assert model.metadata("general.architecture") == "llama"
        assert model.metadata("general.nothing") is None
        assert model.chat_template is None
        assert model.buffer_bytes > 0


def test_metadata_of_any_length_comes_out_whole(tmp_path: Path) -> None:
    long = "0123456789" * 100
    path = synthetic.tiny_llama(tmp_path / "long.gguf", change=lambda writer: writer.add_description(long))
    with Model(path) as model:
        assert model.metadata("general.description") == long


def test_a_context_counts_the_memory_of_its_cache(tiny: Path) -> None:
    with Model(tiny) as model, Context(model, SMALL) as small, Context(model, ContextOptions(n_ctx=16384)) as large:
        # 1 layer, K and V, 32 values of 2 bytes for each token
        assert large.buffer_bytes - small.buffer_bytes > (16384 - 256) * 2 * 32 * 2 * 0.99


def test_logits_are_rows_in_place_one_for_each_of_the_last_tokens(tiny: Path) -> None:
    with llama.opened(tiny, context=SMALL) as context:
        rows = context.decode(PROMPT, 3)
        assert rows.shape == (3, 64)
        assert rows.dtype == np.float32
        assert not rows.flags.owndata
        assert context.n_past == len(PROMPT)
        for i, row in enumerate(rows.copy()):
            assert_same_logits(row, fresh_logits(tiny, PROMPT[: len(PROMPT) - 2 + i]))


def test_no_rows_are_computed_when_none_are_asked_for(tiny: Path) -> None:
    with llama.opened(tiny, context=SMALL) as context:
        assert context.decode(PROMPT[:-1], 0).shape == (0, 64)
        assert_same_logits(context.decode(PROMPT[-1:], 1)[-1], fresh_logits(tiny, PROMPT))


def test_a_batch_that_the_context_was_not_made_for_is_a_defect_of_the_caller(tiny: Path) -> None:
    with llama.opened(tiny, context=ContextOptions(n_ctx=256, n_batch=8, n_ubatch=8)) as context:
        for tokens, rows in (([], 0), ([5] * 9, 1), ([5], 2)):
            with pytest.raises(ValueError):
                context.decode(tokens, rows)
        assert context.n_past == 0


def test_decoding_beyond_the_context_is_refused_and_leaves_the_cache_usable(tiny: Path) -> None:
    with llama.opened(tiny, context=SMALL) as context:
        tokens = [3 + i % 60 for i in range(context.n_ctx - 2)]
        context.decode(tokens, 1)
        with pytest.raises(
            ModelError, match=r"The context of 256 tokens is full \(254 used, 3 more needed\)"
        ) as caught:
            context.decode([5, 6, 7], 1)
        assert_one_sentence(caught.value)
        assert context.n_past == 254
        assert_same_logits(context.decode([5, 6], 1)[-1], fresh_logits(tiny, [*tokens, 5, 6]))


@pytest.mark.parametrize("build", [synthetic.tiny_llama, synthetic.tiny_gemma3])
def test_after_a_rewind_logits_are_those_of_never_having_gone_there(build: Build, tmp_path: Path) -> None:
    path = build(tmp_path / "model.gguf")
    prompt = PROMPT * 4  # longer than the sliding window of 16
    with llama.opened(path, context=SMALL) as context:
        context.decode(prompt, 0)
        context.decode([50, 51, 52, 53] * 8, 1)
        assert context.rewind(len(prompt) - 3) == len(prompt) - 3
        assert_same_logits(context.decode([44, 45], 1)[-1], fresh_logits(path, [*prompt[:-3], 44, 45]))


def test_a_rewind_to_what_is_not_there_yet_changes_nothing(tiny: Path) -> None:
    with llama.opened(tiny, context=SMALL) as context:
        context.decode(PROMPT, 0)
        assert context.rewind(20) == context.n_past == len(PROMPT)


@pytest.mark.parametrize("n", [0, 1, 9])
def test_a_recurrent_state_that_cannot_go_back_is_cleared(n: int, tmp_path: Path) -> None:
    path = synthetic.tiny_mamba(tmp_path / "mamba.gguf")
    with llama.opened(path, context=SMALL) as context:
        context.decode(PROMPT, 1)
        assert context.rewind(n) == 0
        assert context.n_past == 0
        assert_same_logits(context.decode(PROMPT[:4], 1)[-1], fresh_logits(path, PROMPT[:4]))


@pytest.mark.parametrize("dropped", [1, 2, 3, 4, 5, 7, 8])
def test_a_hybrid_goes_back_within_its_last_decode_and_its_snapshots_and_is_cleared_beyond(
    dropped: int, tmp_path: Path
) -> None:
    path = synthetic.tiny_lfm2(tmp_path / "lfm2.gguf")
    options = ContextOptions(n_ctx=256, n_batch=256, n_ubatch=256, n_rs_seq=4)
    last = [50, 51, 52, 53, 54, 55, 56]
    held = [*PROMPT, *last]
    with llama.opened(path, context=options) as context:
        context.decode(PROMPT, 0)
        context.decode(last, 1)
        kept = context.rewind(len(held) - dropped)
        assert kept == (len(held) - dropped if dropped <= 4 else 0)
        assert context.n_past == kept
        after = [*held[:kept], 44, 45]
        assert_same_logits(context.decode(after[kept:], 1)[-1], fresh_logits(path, after, options))


@pytest.mark.parametrize("last", [[50], [50, 51]])
def test_a_hybrid_cannot_forget_a_whole_decode(last: list[int], tmp_path: Path) -> None:
    path = synthetic.tiny_lfm2(tmp_path / "lfm2.gguf")
    with llama.opened(path, context=ContextOptions(n_ctx=256, n_rs_seq=4)) as context:
        context.decode(PROMPT, 0)
        context.decode(last, 1)
        assert context.rewind(len(PROMPT)) == 0


def test_a_hybrid_goes_back_only_once_between_two_decodes(tmp_path: Path) -> None:
    path = synthetic.tiny_lfm2(tmp_path / "lfm2.gguf")
    with llama.opened(path, context=ContextOptions(n_ctx=256, n_rs_seq=4)) as context:
        context.decode(PROMPT, 0)
        assert context.rewind(len(PROMPT) - 1) == len(PROMPT) - 1
        assert context.rewind(len(PROMPT) - 2) == 0


def test_a_hybrid_whose_prompt_came_in_small_batches_still_goes_back_right(tmp_path: Path) -> None:
    # 9 tokens in micro-batches of 8: the snapshots must be those of the last tokens, not of the last micro-batch.
    path = synthetic.tiny_lfm2(tmp_path / "lfm2.gguf")
    options = ContextOptions(n_ctx=256, n_batch=32, n_ubatch=8, n_rs_seq=3)
    with llama.opened(path, context=options) as context:
        context.decode(PROMPT[:9], 0)
        assert context.rewind(6) == 6
        assert_same_logits(context.decode([44], 1)[-1], fresh_logits(path, [*PROMPT[:6], 44], options))


def test_pieces_of_a_text_put_together_are_its_bytes(smollm2: Path) -> None:
    text = "Grüße 🦙👩‍🚀, 日本語\n\tend"
    with Model(smollm2) as model:
        pieces = [model.vocab.piece(token) for token in model.vocab.tokenize(text)]
        assert b"".join(pieces) == text.encode()
        assert len(model.vocab.piece(model.vocab.tokenize("🦙")[0])) < 4  # one character over several tokens


def test_control_tokens_are_hidden_unless_asked_for(smollm2: Path) -> None:
    with Model(smollm2) as model:
        (token,) = model.vocab.tokenize("<|im_end|>")
        assert model.vocab.piece(token) == b""
        assert model.vocab.piece(token, special=True) == b"<|im_end|>"
        assert len(model.vocab.tokenize("<|im_end|>", parse_special=False)) > 1


def test_every_token_that_ends_a_reply_is_known(smollm2: Path) -> None:
    with Model(smollm2) as model:
        assert {model.vocab.piece(token, special=True) for token in model.vocab.eog} >= {
            b"<|endoftext|>",
            b"<|im_end|>",
        }
        assert all(model.vocab.is_eog(token) for token in model.vocab.eog)
        assert not model.vocab.is_eog(model.vocab.bos)


def test_no_text_makes_no_tokens_and_half_a_character_is_no_crash(smollm2: Path) -> None:
    with Model(smollm2) as model:
        assert model.vocab.tokenize("") == []
        assert model.vocab.tokenize("\ud83e a\0b")


def test_bos_is_added_where_the_model_wants_it(tmp_path: Path) -> None:
    with Model(synthetic.tiny_llama(tmp_path / "bos.gguf", add_bos=True)) as model:
        assert model.vocab.tokenize("AB")[0] == model.vocab.bos == 1
        assert 1 not in model.vocab.tokenize("AB", add_special=False)


def test_requantizing_writes_a_whole_file_that_loads(tiny: Path) -> None:
    copy = tiny.with_name("copy.gguf")
    llama.quantize(tiny, copy, "Q8_0")
    assert sorted(path.name for path in tiny.parent.iterdir()) == ["copy.gguf", "tiny.gguf"]
    with Model(copy) as model:
        assert "Q8_0" in model.description


def test_layers_are_left_out_when_asked(tmp_path: Path) -> None:
    source = synthetic.tiny_llama(tmp_path / "three.gguf", n_layer=3)
    llama.quantize(source, tmp_path / "two.gguf", "Q8_0", prune_layers=(1,))
    with Model(tmp_path / "two.gguf") as model:
        assert model.metadata("llama.block_count") == "2"


def test_an_unknown_quantization_is_refused_by_name(tiny: Path) -> None:
    with pytest.raises(ModelError, match="no quantization called 'Q9_9'") as caught:
        llama.quantize(tiny, tiny.with_name("copy.gguf"), "Q9_9")
    assert_one_sentence(caught.value)
    assert not tiny.with_name("copy.gguf").exists()


def test_a_failed_requantizing_leaves_what_was_there(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "copy.gguf"
    copy.write_text("kept")
    with pytest.raises(ModelError, match=r"broken\.gguf could not be written as Q8_0: ") as caught:
        llama.quantize(not_a_gguf(tmp_path).rename(tmp_path / "broken.gguf"), copy, "Q8_0")
    assert_one_sentence(caught.value)
    assert copy.read_text() == "kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.gguf", "copy.gguf"]
    assert capfd.readouterr() == ("", "")


def test_the_build_and_its_devices_are_named() -> None:
    assert llama.build_info().keys() == {"llama_cpp_python", "llama_cpp", "system", "gpu_offload"}
    assert all(llama.build_info().values())
    cpus = [device for device in llama.devices() if device.kind == "cpu"]
    assert len(cpus) == 1
    assert 0 < cpus[0].free_bytes <= cpus[0].total_bytes
