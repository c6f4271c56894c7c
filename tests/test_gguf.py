"""A GGUF header is read as it is written, or refused in one sentence that names the file."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import gguf
import mutations
import pytest
import synthetic
from gguf import GGUFValueType as Kind

from localspec.errors import GGUFError
from localspec.gguf import MAX_HEADER, read_header, read_header_from


class Remote:
    """A file behind range requests, which counts them."""

    def __init__(self, data: bytes, *, knows_size: bool = True) -> None:
        self.data = data
        self.size = len(data) if knows_size else None
        self.requests: list[tuple[int, int]] = []

    def read(self, offset: int, length: int) -> bytes:
        self.requests.append((offset, length))
        return self.data[offset : offset + length]


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return synthetic.tiny_llama(tmp_path / "tiny.gguf")


def refusal(path: Path) -> str:
    with pytest.raises(GGUFError) as caught:
        read_header(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    assert message.endswith(".")
    return message


def put(path: Path, what: str, value: int) -> Path:
    """Overwrite one number of the header."""
    data = path.read_bytes()
    field = next(field for field in mutations.Walk(data).fields if field.what == what)
    raw = value.to_bytes(field.size, "little")
    path.write_bytes(data[: field.offset] + raw + data[field.offset + field.size :])
    return path


def test_a_real_header_says_what_the_model_is(smollm2: Path) -> None:
    header = read_header(smollm2)
    assert (header.architecture, header.file_type) == ("llama", "Q4_1")
    assert (header.n_layer, header.n_embd, header.n_head, header.n_head_kv, header.head_dim_k) == (30, 576, 9, 3, 64)
    assert (header.n_ctx_train, header.n_vocab, header.bos, header.eos) == (8192, 49152, 1, 2)
    assert (header.n_params, header.file_size) == (134_515_008, 98_362_432)
    assert header.tokens is not None
    assert header.tokens[1] == "<|im_start|>"


def test_every_value_and_tensor_is_as_the_reference_reader_has_it(smollm2: Path) -> None:
    header, reference = read_header(smollm2), gguf.GGUFReader(smollm2)
    fields = {name: field for name, field in reference.fields.items() if not name.startswith("GGUF.")}
    assert list(fields) == list(header.metadata)
    for name, field in fields.items():
        ours = header.metadata[name]
        assert field.contents() == (ours if isinstance(ours, str | int | float) else list(ours)), name  # type: ignore[call-overload]
    assert [(tensor.name, list(tensor.shape), tensor.type, tensor.n_bytes) for tensor in header.tensors] == [
        (tensor.name, tensor.shape.tolist(), int(tensor.tensor_type), tensor.n_bytes) for tensor in reference.tensors
    ]
    assert [header.data_offset + tensor.offset for tensor in header.tensors] == [
        tensor.data_offset for tensor in reference.tensors
    ]


def test_every_quantization_has_the_size_that_the_reference_gives_it() -> None:
    from localspec.header import TENSOR_TYPES

    for kind, sizes in gguf.GGML_QUANT_SIZES.items():
        if kind.name == "Q8_1":
            continue  # never in a file; the package still has the size it had in 2023
        assert TENSOR_TYPES[int(kind)] == (kind.name, *sizes)


def test_version_2_is_read_like_version_3(tiny: Path) -> None:
    names = [tensor.name for tensor in read_header(tiny).tensors]
    header = read_header(put(tiny, "version", 2))
    assert header.version == 2
    assert [tensor.name for tensor in header.tensors] == names


def test_strings_of_an_array_are_decoded_one_at_a_time(tiny: Path) -> None:
    tokens = read_header(tiny).tokens
    assert tokens is not None
    assert list(tokens) == synthetic.token_texts(64)
    assert tokens[-1] == tokens[63]
    assert tokens[1:3] == ["<|im_start|>", "<|im_end|>"]
    assert tokens.raw(1) == b"<|im_start|>"
    with pytest.raises(IndexError):
        tokens[64]


def test_values_that_the_file_does_not_state_have_defaults(tmp_path: Path) -> None:
    def change(writer: gguf.GGUFWriter) -> None:
        synthetic.set_key(writer, "general.file_type", None)
        synthetic.set_key(writer, "llama.attention.head_count_kv", None)

    header = read_header(synthetic.tiny_llama(tmp_path / "few-keys.gguf", dtype="Q8_0", change=change))
    assert header.file_type == "Q8_0"
    assert header.heads_kv == (2,)
    assert header.sliding_window is None
    assert header.chat_template is None


def test_a_remote_header_costs_few_requests(smollm2: Path) -> None:
    remote = Remote(smollm2.read_bytes())
    header = read_header_from(remote, "hub file")
    assert header.n_params == read_header(smollm2).n_params
    assert len(remote.requests) == 1
    assert sum(length for _, length in remote.requests) <= 4 * 1024 * 1024


def test_a_larger_remote_header_is_read_in_ranges_that_double(tmp_path: Path) -> None:
    def change(writer: gguf.GGUFWriter) -> None:
        writer.add_string("filler", "x" * 9_000_000)

    path = synthetic.tiny_llama(tmp_path / "large-header.gguf", change=change)
    remote = Remote(path.read_bytes(), knows_size=False)
    assert read_header_from(remote).file_size is None
    offsets = [offset for offset, _ in remote.requests]
    assert offsets == sorted(set(offsets))
    assert len(offsets) <= 3


def test_a_remote_file_that_ends_inside_its_header_is_cut_off(tiny: Path) -> None:
    with pytest.raises(GGUFError, match="hub file is cut off: it ends after 500 bytes"):
        read_header_from(Remote(tiny.read_bytes()[:500], knows_size=False), "hub file")


def test_what_is_no_readable_file_is_refused(tmp_path: Path) -> None:
    assert "does not exist" in refusal(tmp_path / "missing.gguf")
    assert "is a directory" in refusal(tmp_path)
    (tmp_path / "empty.gguf").touch()
    assert "is not a GGUF file" in refusal(tmp_path / "empty.gguf")
    (tmp_path / "text.gguf").write_text("<html>Not found</html>" * 100)
    assert "is not a GGUF file: it starts with b'<htm'" in refusal(tmp_path / "text.gguf")


@pytest.mark.parametrize(("version", "words"), [(1, "GGUF version 1"), (4, "version 4"), (0, "version 0")])
def test_other_versions_are_refused(tiny: Path, version: int, words: str) -> None:
    assert words in refusal(put(tiny, "version", version))


def test_a_big_endian_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "big.gguf"
    path.write_bytes(b"GGUF" + struct.pack(">IQQ", 3, 1, 1) + bytes(100))
    assert "big-endian" in refusal(path)


def test_a_cut_off_file_says_how_many_bytes_are_missing(tiny: Path) -> None:
    size = tiny.stat().st_size
    tiny.write_bytes(tiny.read_bytes()[:-1000])
    assert f"1000 of its {size} bytes are missing" in refusal(tiny)


def test_padding_after_the_last_tensor_may_be_absent(tmp_path: Path) -> None:
    path = synthetic.tiny_llama(tmp_path / "odd.gguf", n_ff=36)
    header = read_header(path)
    last = header.tensors[-1]
    path.write_bytes(path.read_bytes()[: header.data_offset + last.offset + last.n_bytes])
    assert read_header(path).tensors[-1] == last


@pytest.mark.parametrize(
    "what", ["tensor count", "key count", "key length", "elements of tokenizer.ggml.tokens", "tensor name length"]
)
@pytest.mark.parametrize("value", [1 << 31, 1 << 40, (1 << 63) - 1, (1 << 64) - 1])
def test_a_hostile_count_is_refused_without_memory_for_it(tiny: Path, what: str, value: int) -> None:
    put(tiny, what, value)
    tracemalloc.start()
    message = refusal(tiny)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "cut off or damaged" in message
    assert peak < 4_000_000


def test_a_header_without_end_is_refused() -> None:
    class Endless:
        size = None

        def read(self, offset: int, length: int) -> bytes:
            start = b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, MAX_HEADER - 10)
            return (start + bytes(length))[:length] if offset == 0 else bytes(length)

    with pytest.raises(GGUFError, match="larger than 256 MiB"):
        read_header_from(Endless())


def test_a_key_or_tensor_that_occurs_twice_is_refused(tiny: Path) -> None:
    data = tiny.read_bytes()
    tiny.write_bytes(data.replace(b"tokenizer.ggml.bos_token_id", b"tokenizer.ggml.eos_token_id"))
    assert "'tokenizer.ggml.eos_token_id' occurs twice" in refusal(tiny)
    tiny.write_bytes(data.replace(b"blk.0.attn_k.weight", b"blk.0.attn_q.weight"))
    assert "'blk.0.attn_q.weight' occurs twice" in refusal(tiny)


@pytest.mark.parametrize(
    ("what", "value", "words"),
    [
        ("dimensions of token_embd.weight", 5, "has 5 dimensions"),
        ("shape of token_embd.weight", 0, "impossible shape"),
        ("shape of token_embd.weight", 1 << 63, "impossible shape"),
        ("tensor type of token_embd.weight", 4, "unknown or withdrawn type 4"),
        ("tensor type of token_embd.weight", 99, "unknown or withdrawn type 99"),
        ("tensor type of token_embd.weight", 12, "not a multiple of the 256"),
        ("offset of token_embd.weight", 7, "starts at byte 7 of the data instead of 0"),
        ("offset of output_norm.weight", 0, "starts at byte 0 of the data instead of"),
        ("type of general.name", 13, "unknown type 13"),
        ("element type of tokenizer.ggml.tokens", 9, "array of arrays"),
        ("element type of tokenizer.ggml.tokens", 77, "array of the unknown type 77"),
    ],
)
def test_an_impossible_description_is_refused(tiny: Path, what: str, value: int, words: str) -> None:
    assert words in refusal(put(tiny, what, value))


@pytest.mark.parametrize(("value", "kind"), [(0, Kind.UINT32), (48, Kind.UINT32), (32, Kind.UINT64)])
def test_an_alignment_must_be_a_power_of_two_in_32_bits(tmp_path: Path, value: int, kind: Kind) -> None:
    path = synthetic.tiny_llama(
        tmp_path / "a.gguf", change=lambda writer: synthetic.set_key(writer, "general.alignment", value, kind)
    )
    assert "'general.alignment'" in refusal(path)


def test_another_alignment_is_honoured(tmp_path: Path) -> None:
    path = synthetic.tiny_llama(tmp_path / "a.gguf", change=lambda writer: writer.add_custom_alignment(256))
    header = read_header(path)
    assert header.data_offset % 256 == 0
    assert all(tensor.offset % 256 == 0 for tensor in header.tensors)


def test_keys_and_tensor_names_must_be_utf8(tiny: Path) -> None:
    data = tiny.read_bytes()
    tiny.write_bytes(data.replace(b"general.name", b"general.nam\xff"))
    assert "not valid UTF-8" in refusal(tiny)
    tiny.write_bytes(data.replace(b"token_embd.weight", b"token_embd.weigh\xff"))
    assert "not valid UTF-8" in refusal(tiny)


def test_control_characters_of_a_file_never_reach_the_terminal(tiny: Path) -> None:
    data = tiny.read_bytes().replace(b"general.name", b"gen\x1b[2J\nname")
    at = data.index(b"\nname") + len("\nname")
    tiny.write_bytes(data[:at] + bytes([13]) + data[at + 1 :])
    assert "'gen\\x1b[2J\\nname' has the unknown type 13" in refusal(tiny)


Edit = tuple[str, object, Kind]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (("general.architecture", None, Kind.STRING), "does not state 'general.architecture'"),
        (("general.architecture", "clip", Kind.STRING), "a multimodal projector"),
        (("general.type", "adapter", Kind.STRING), "a LoRA adapter"),
        (("llama.block_count", None, Kind.UINT32), "does not state 'llama.block_count'"),
        (("llama.block_count", 0, Kind.UINT32), "outside 1 to 512"),
        (("llama.block_count", 513, Kind.UINT32), "outside 1 to 512"),
        (("llama.block_count", "one", Kind.STRING), "not a 32-bit unsigned number"),
        (("llama.context_length", 0, Kind.UINT32), "outside 1 to"),
        (("llama.embedding_length", 0, Kind.UINT32), "outside 1 to"),
        (("llama.embedding_length", 33, Kind.UINT32), "cannot be divided among 2 attention heads"),
        (("llama.attention.head_count", 0, Kind.UINT32), "is missing or 0"),
        (("llama.attention.head_count", None, Kind.UINT32), "is missing or 0"),
        (("llama.attention.head_count_kv", 3, Kind.UINT32), "2 attention heads cannot share 3"),
        (("llama.attention.head_count_kv", 2, Kind.INT32), "not a 32-bit number"),
        (("llama.attention.layer_norm_rms_epsilon", -1.0, Kind.FLOAT32), "not a small positive number"),
        (("llama.attention.layer_norm_rms_epsilon", float("nan"), Kind.FLOAT32), "not a small positive number"),
        (("llama.rope.scaling.type", "sideways", Kind.STRING), "'sideways'"),
        (("llama.expert_count", 4, Kind.UINT32), "uses 0 of 4 experts"),
        (("llama.expert_used_count", 4, Kind.UINT32), "uses 4 of 0 experts"),
        (("llama.attention.key_length", 1 << 20, Kind.UINT32), "outside 1 to 65536"),
        (("llama.nextn_predict_layers", 2, Kind.UINT32), "outside 0 to 1"),
        (("tokenizer.ggml.model", None, Kind.STRING), "holds no tokenizer"),
        (("tokenizer.ggml.model", "none", Kind.STRING), "holds no tokenizer"),
        (("tokenizer.ggml.model", "other", Kind.STRING), "tokenizer 'other' is not known"),
        (("tokenizer.ggml.tokens", None, Kind.ARRAY), "no token list"),
        (("tokenizer.ggml.tokens", ["a", "b", "a"], Kind.ARRAY), "the same token twice"),
        (("tokenizer.ggml.token_type", [1, 1], Kind.ARRAY), "does not give a number to each of 64 tokens"),
        (("tokenizer.ggml.merges", None, Kind.ARRAY), "has no merges"),
        (("tokenizer.ggml.bos_token_id", 1, Kind.UINT64), "'tokenizer.ggml.bos_token_id' has the wrong type"),
    ],
)
def test_values_that_make_no_model_are_refused(tmp_path: Path, edit: Edit, words: str) -> None:
    path = synthetic.tiny_llama(tmp_path / "m.gguf", change=lambda writer: synthetic.set_key(writer, *edit))
    assert words in refusal(path)


def test_a_value_for_each_layer_must_cover_all_layers(tmp_path: Path) -> None:
    def change(heads: list[int]) -> Callable[[gguf.GGUFWriter], None]:
        return lambda writer: synthetic.set_key(writer, "llama.attention.head_count_kv", heads, Kind.ARRAY)

    good = synthetic.tiny_llama(tmp_path / "good.gguf", n_layer=3, change=change([2, 1, 2]))
    assert read_header(good).heads_kv == (2, 1, 2)
    bad = synthetic.tiny_llama(tmp_path / "bad.gguf", n_layer=3, change=change([2, 1]))
    assert "has 2 values for 3 layers" in refusal(bad)


def test_a_file_without_weights_is_refused(tmp_path: Path) -> None:
    assert "holds no weights" in refusal(synthetic.write(tmp_path / "vocab.gguf", "llama", {}))


def test_several_empty_tokens_are_accepted_as_llama_cpp_does(tmp_path: Path) -> None:
    tokens = synthetic.token_texts(64)
    tokens[40] = tokens[50] = ""
    path = synthetic.tiny_llama(tmp_path / "m.gguf", tokens=tokens)
    assert read_header(path).n_vocab == 64


def test_a_split_model_is_read_as_a_whole(tmp_path: Path) -> None:
    whole = read_header(synthetic.tiny_llama(tmp_path / "whole.gguf", n_layer=2))
    first = synthetic.tiny_llama(tmp_path / "split.gguf", n_layer=2, tensors_in_shard=7)
    header = read_header(first)
    assert (header.n_params, header.weight_bytes) == (whole.n_params, whole.weight_bytes)
    assert header.split_count == len(header.shards) == 3
    assert header.file_size == sum(path.stat().st_size for path in header.shards)


def test_a_split_model_needs_all_its_parts_in_their_places(tmp_path: Path) -> None:
    first, second, third = read_header(synthetic.tiny_llama(tmp_path / "m.gguf", n_layer=2, tensors_in_shard=7)).shards
    assert f"name {first.name} instead" in refusal(second)
    lonely = tmp_path / "renamed.gguf"
    lonely.write_bytes(first.read_bytes())
    assert "its name must end in -00001-of-00003.gguf" in refusal(lonely)
    kept = third.read_bytes()
    third.write_bytes(second.read_bytes())
    with pytest.raises(GGUFError, match="does not say that it is part 3 of 3"):
        read_header(first)
    third.write_bytes(kept[:-100])
    with pytest.raises(GGUFError, match=r"00003-of-00003\.gguf is cut off"):
        read_header(first)
    third.unlink()
    assert "m-00003-of-00003.gguf is missing" in refusal(first)
