"""A draft fits its target or is refused with the reason; a cache is known to be one that can be rolled back or not."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import synthetic
from gguf import GGUFValueType as Kind

from localspec import llama
from localspec.errors import PairError
from localspec.gguf import Header, read_header
from localspec.pair import check_pair, require_pair, rollback


@pytest.fixture
def target(tmp_path: Path) -> Header:
    return read_header(synthetic.tiny_llama(tmp_path / "target.gguf", n_vocab=400, n_layer=4))


def draft(tmp_path: Path, **options: object) -> Header:
    path = synthetic.tiny_llama(tmp_path / "draft.gguf", **{"n_vocab": 400, **options})  # type: ignore[arg-type]
    return read_header(path)


def test_a_smaller_model_with_the_same_tokens_fits(target: Header, tmp_path: Path) -> None:
    report = check_pair(target, draft(tmp_path))
    assert report.ok
    assert report.reasons == ()
    assert report.vocab_difference == 0


def test_a_model_may_draft_for_itself_with_a_warning(target: Header) -> None:
    report = check_pair(target, target)
    assert report.ok
    assert report.warnings == (
        "The draft is as large as the target, so speculation cannot be faster than the target alone.",
    )


def test_a_requantized_copy_fits_with_a_warning(smollm2: Path, smollm2_q2k: Path) -> None:
    report = check_pair(read_header(smollm2), read_header(smollm2_q2k))
    assert report.ok
    assert "89 % of the target's" in report.warnings[0]


def test_a_larger_draft_is_refused(target: Header, tmp_path: Path) -> None:
    report = check_pair(target, draft(tmp_path, n_layer=40))
    assert "parameters and the target only" in report.reasons[0]


def test_the_size_of_a_split_model_is_not_guessed_from_its_first_file(target: Header, tmp_path: Path) -> None:
    whole = read_header(synthetic.tiny_llama(tmp_path / "m.gguf", n_vocab=400, n_layer=40, tensors_in_shard=300))
    first_only = Header(**{**whole.__dict__, "shards": (), "tensors": whole.tensors[:1]})
    assert check_pair(first_only, target).ok
    assert check_pair(whole, target).ok


@pytest.mark.parametrize(("n_vocab", "ok"), [(528, True), (272, True), (529, False), (271, False)])
def test_vocabularies_may_differ_in_size_by_128(target: Header, tmp_path: Path, n_vocab: int, ok: bool) -> None:
    report = check_pair(target, draft(tmp_path, n_vocab=n_vocab))
    assert report.ok == ok
    assert report.vocab_difference == abs(n_vocab - 400)
    assert ok or "more than 128 apart" in report.reasons[0]


@pytest.mark.parametrize(("token", "ok"), [(4, True), (5, False), (399, False)])
def test_token_texts_must_agree_from_id_5_on(target: Header, tmp_path: Path, token: int, ok: bool) -> None:
    tokens = synthetic.token_texts(400)
    tokens[token] = "another"
    report = check_pair(target, draft(tmp_path, tokens=tokens))
    assert report.ok == ok
    assert ok or f"Token {token} is" in report.reasons[0]


def test_another_tokenizer_family_is_refused(target: Header, tmp_path: Path) -> None:
    report = check_pair(target, draft(tmp_path, tokenizer="llama"))
    assert report.reasons == ("The target's tokenizer is 'gpt2' and the draft's is 'llama'.",)


def test_other_splitting_rules_are_named_where_the_tokens_differ(target: Header, tmp_path: Path) -> None:
    tokens = [*synthetic.token_texts(399), "another"]
    report = check_pair(target, draft(tmp_path, pre="qwen2", tokens=tokens))
    assert "rules of 'smollm' and the draft by those of 'qwen2', and token 399" in report.reasons[0]


def test_other_splitting_rules_for_the_same_tokens_are_only_a_warning(target: Header, tmp_path: Path) -> None:
    report = check_pair(target, draft(tmp_path, pre="qwen2"))
    assert report.ok
    assert any("may lower acceptance" in warning for warning in report.warnings)


def test_names_for_the_same_splitting_rules_are_alike(tmp_path: Path) -> None:
    ours = read_header(synthetic.tiny_llama(tmp_path / "a.gguf", n_layer=4, pre="deepseek-r1-qwen"))
    theirs = read_header(synthetic.tiny_llama(tmp_path / "b.gguf", pre="qwen2"))
    assert check_pair(ours, theirs).warnings == ()


def test_a_bos_that_only_one_of_them_adds_is_refused(target: Header, tmp_path: Path) -> None:
    report = check_pair(target, draft(tmp_path, add_bos=True))
    assert report.reasons == ("The draft adds a BOS token to every text and the target does not.",)


def test_a_bos_that_is_added_must_be_the_same(tmp_path: Path) -> None:
    ours = read_header(synthetic.tiny_llama(tmp_path / "a.gguf", n_layer=4, add_bos=True))
    theirs = read_header(synthetic.tiny_llama(tmp_path / "b.gguf", add_bos=True, bos=2))
    assert check_pair(ours, theirs).reasons == ("The BOS token is 1 in the target and 2 in the draft.",)


def test_a_pre_tokenizer_that_adds_a_bos_by_itself_counts(tmp_path: Path) -> None:
    ours = read_header(synthetic.tiny_llama(tmp_path / "a.gguf", n_layer=4, pre="llama-bpe", add_bos=None))
    theirs = read_header(synthetic.tiny_llama(tmp_path / "b.gguf", pre="llama-bpe", add_bos=False))
    assert "target adds a BOS token" in check_pair(ours, theirs).reasons[0]


def test_another_end_of_text_is_only_a_warning(target: Header, tmp_path: Path) -> None:
    report = check_pair(target, draft(tmp_path, eos=0))
    assert report.ok
    assert any("EOS token is 2 in the target and 0 in the draft" in warning for warning in report.warnings)


def test_a_refusal_is_one_sentence_with_the_files_and_a_draft_that_fits(target: Header, tmp_path: Path) -> None:
    with pytest.raises(PairError) as caught:
        require_pair(target, draft(tmp_path, n_vocab=1000, n_layer=90), suggestion="small-one")
    message = str(caught.value)
    assert message.startswith("draft.gguf cannot draft for target.gguf: the target knows 400 tokens")
    assert message.endswith("; use small-one as the draft instead.")
    assert message.count(". ") == 0


def test_the_wrong_draft_is_refused_before_its_weights_are_read(smollm2: Path, target: Header) -> None:
    with pytest.raises(PairError, match="cannot draft for target"):
        require_pair(target, read_header(smollm2))


@pytest.mark.parametrize(
    ("arch", "kind"),
    [
        ("bert", "an embedding model (bert)"),
        ("t5", "an encoder-decoder model (t5)"),
        ("dream", "a diffusion model (dream)"),
        ("eagle3", "a draft head that only runs inside its target (eagle3)"),
    ],
)
def test_what_cannot_write_text_is_refused_by_name(target: Header, tmp_path: Path, arch: str, kind: str) -> None:
    tensors = synthetic.llama_tensors(64, 1, 32, 64, 32)
    other = read_header(synthetic.write(tmp_path / "other.gguf", arch, tensors))
    assert rollback(other).kind == "none"
    assert rollback(other).reason == f"other.gguf is {kind}, which cannot write text."
    assert check_pair(target, other).reasons[0] == check_pair(other, target).reasons[0] == rollback(other).reason


@pytest.mark.parametrize(
    ("key", "value", "kind"), [("llama.pooling_type", 3, Kind.UINT32), ("llama.attention.causal", False, Kind.BOOL)]
)
def test_an_embedding_model_made_from_a_language_model_is_refused(
    tmp_path: Path, key: str, value: object, kind: Kind
) -> None:
    path = synthetic.tiny_llama(tmp_path / "m.gguf", change=lambda w: synthetic.set_key(w, key, value, kind))
    assert not rollback(read_header(path)).supported


def test_plain_attention_rolls_back_freely(target: Header) -> None:
    back = rollback(target)
    assert (back.kind, back.supported, back.swa_full, back.needs_rs_seq) == ("plain", True, False, False)


def test_a_sliding_window_needs_the_whole_cache(tmp_path: Path) -> None:
    header = read_header(synthetic.tiny_gemma3(tmp_path / "gemma.gguf", window=16))
    assert header.sliding_window == 16
    back = rollback(header)
    assert (back.kind, back.supported, back.swa_full) == ("swa", True, True)


def test_a_window_that_llama_cpp_ignores_is_no_window(tmp_path: Path) -> None:
    def change(writer: gguf.GGUFWriter) -> None:
        writer.add_sliding_window(128)

    header = read_header(synthetic.tiny_llama(tmp_path / "m.gguf", change=change))
    assert header.sliding_window is None
    assert rollback(header).kind == "plain"


def test_a_recurrent_model_without_snapshots_is_refused_by_name(tmp_path: Path) -> None:
    header = read_header(synthetic.tiny_mamba(tmp_path / "mamba.gguf"))
    back = rollback(header)
    assert (back.kind, back.supported) == ("recurrent", False)
    assert back.reason == "mamba.gguf is a recurrent model (mamba) whose state llama.cpp cannot roll back."
    assert check_pair(header, header).reasons == (back.reason,)


def test_a_hybrid_model_with_snapshots_needs_them(tmp_path: Path) -> None:
    back = rollback(read_header(synthetic.tiny_lfm2(tmp_path / "lfm2.gguf")))
    assert (back.kind, back.supported, back.needs_rs_seq) == ("hybrid", True, True)


def test_a_hybrid_model_cannot_be_a_draft(tmp_path: Path) -> None:
    header = read_header(synthetic.tiny_lfm2(tmp_path / "lfm2.gguf"))
    plain = read_header(synthetic.tiny_llama(tmp_path / "plain.gguf"))
    assert check_pair(header, plain).ok
    assert check_pair(header, header).reasons == (
        "lfm2.gguf is a hybrid model (lfm2) whose state cannot take back drafted tokens.",
    )


def test_a_hybrid_model_without_snapshots_is_refused(tmp_path: Path) -> None:
    tensors = synthetic.llama_tensors(64, 1, 32, 64, 32)
    back = rollback(read_header(synthetic.write(tmp_path / "jamba.gguf", "jamba", tensors)))
    assert (back.kind, back.supported) == ("hybrid", False)


def test_the_lists_of_architectures_are_those_of_this_llama_cpp(tmp_path: Path) -> None:
    models = {
        "plain": synthetic.tiny_llama(tmp_path / "llama.gguf"),
        "swa": synthetic.tiny_gemma3(tmp_path / "gemma.gguf"),
        "recurrent": synthetic.tiny_mamba(tmp_path / "mamba.gguf"),
        "hybrid": synthetic.tiny_lfm2(tmp_path / "lfm2.gguf"),
    }
    for kind, path in models.items():
        back = rollback(read_header(path))
        with llama.opened(path, None, llama.ContextOptions(n_ctx=256, n_rs_seq=4)) as context:
            assert back.kind == kind
            assert context.model.is_recurrent == (kind == "recurrent")
            assert context.model.is_hybrid == (kind == "hybrid")
            assert (context.n_rs_seq > 0) == back.needs_rs_seq


@pytest.mark.parametrize("kind", ["swa", "hybrid"])
@pytest.mark.parametrize("removed", [1, 2, 4])
def test_a_rollback_as_described_leaves_no_trace(tmp_path: Path, kind: str, removed: int) -> None:
    make = {"swa": synthetic.tiny_gemma3, "hybrid": synthetic.tiny_lfm2}[kind]
    path = make(tmp_path / "m.gguf")
    back = rollback(read_header(path))
    tokens = [int(token) for token in np.random.default_rng(removed).integers(3, 60, 60)]
    options = llama.ContextOptions(n_ctx=256, swa_full=back.swa_full, n_rs_seq=4 if back.needs_rs_seq else 0)
    with llama.opened(path, None, options) as context:
        context.decode(tokens[:50], 1)
        context.decode(tokens[50:55], 1)
        assert context.rewind(55 - removed) == 55 - removed
        after = context.decode(tokens[55:57], 1).copy()
        context.rewind(0)
        context.decode(tokens[:50], 1)
        context.decode(tokens[50 : 55 - removed], 1)
        assert np.abs(after - context.decode(tokens[55:57], 1)).max() < 1e-5
