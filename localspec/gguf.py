"""GGUF headers, read in pure Python from a file or from any source of byte ranges.

Reads versions 2 and 3, little endian. Everything that llama.cpp's own reader refuses is refused here, and so is what
makes its loader abort: a count or length is believed only while the file is large enough to hold it, and no memory is
set aside for it before then. What the values mean for a model is checked in ``header_check``.

The layout, in order: magic, version u32, tensor count u64, key count u64, keys with typed values, tensor descriptions
(name, dimensions, type, offset), padding to ``general.alignment``, tensor data.
"""

from __future__ import annotations

import math
import os
import struct
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol, overload

from localspec import architecture
from localspec.errors import GGUFError

MAGIC = b"GGUF"
FIRST_READ = 4 * 1024 * 1024
MAX_HEADER = 256 * 1024 * 1024
MAX_NAME = 64
MAX_DIMS = 4
DATA_ALIGNMENT = 32

# Scalar value types by number: array typecode and size in bytes.
SCALARS = {
    0: ("B", 1), 1: ("b", 1), 2: ("H", 2), 3: ("h", 2), 4: ("I", 4), 5: ("i", 4),
    6: ("f", 4), 7: ("?", 1), 10: ("Q", 8), 11: ("q", 8), 12: ("d", 8),
}  # fmt: skip
UINT16, UINT32, BOOL, STRING, ARRAY = 2, 4, 7, 8, 9

# Tensor types by number: name, elements in a block, bytes of a block.
TENSOR_TYPES = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17), 40: ("NVFP4", 64, 36), 41: ("Q1_0", 128, 18), 42: ("Q2_0", 64, 18),
}  # fmt: skip

FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S", 12: "Q3_K_M",
    13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS",
    21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S",
    29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4", 39: "NVFP4",
    40: "Q1_0", 41: "Q2_0",
}  # fmt: skip


class RangeReader(Protocol):
    """A file of which any part can be read: on disk, or behind HTTP range requests."""

    @property
    def size(self) -> int | None:
        """Bytes in the whole file; None where it is not known."""

    def read(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``; fewer only at the end of the file."""


class StringArray(Sequence[str]):
    """The strings of one GGUF array, decoded one at a time: a vocabulary has 152 000 of them and few are looked at.

    ``blob`` is the array as the file holds it (a u64 length before each string), ``starts`` the offset of each string
    in it, and one entry more so that ``starts[i + 1] - 8`` is where string i ends.
    """

    def __init__(self, blob: bytes, starts: array[int]) -> None:
        self.blob = blob
        self._starts = starts

    def __len__(self) -> int:
        return len(self._starts) - 1

    def raw(self, index: int) -> bytes:
        """The bytes of one string."""
        return self.blob[self._starts[index] : self._starts[index + 1] - 8]

    def raws(self) -> Iterator[bytes]:
        """The bytes of every string, in order."""
        blob, starts = self.blob, self._starts
        return (blob[starts[i] : starts[i + 1] - 8] for i in range(len(starts) - 1))

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self.raw(index % len(self)).decode("utf-8", "replace")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StringArray) and self.blob == other.blob

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor: ``shape`` innermost dimension first, ``offset`` in bytes from the start of the tensor data."""

    name: str
    shape: tuple[int, ...]
    type: int
    offset: int
    n_bytes: int

    @property
    def n_elements(self) -> int:
        return math.prod(self.shape)

    @property
    def type_name(self) -> str:
        return TENSOR_TYPES[self.type][0]


@dataclass(frozen=True, eq=False)
class Header:
    """What a GGUF says about itself. Values that the file does not state are None, or 0 for counts."""

    version: int
    metadata: Mapping[str, object]
    tensors: tuple[TensorInfo, ...]
    data_offset: int
    file_size: int | None
    """Bytes; of all shards together where a model is split over several files."""
    source: str = "this GGUF"
    """What errors call the file."""
    types: Mapping[str, int] = field(default_factory=dict, repr=False)
    """GGUF value type of each key; an array has 256 added to the type of its elements."""
    shards: tuple[Path, ...] = ()
    """All files of a model that is split over several, in order; empty for a model in one file."""

    def integer(self, key: str) -> int | None:
        """An integer under ``key``, or under ``{architecture}.`` plus key when it starts with a dot."""
        value = self.metadata.get(self._full(key))
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def text(self, key: str) -> str | None:
        value = self.metadata.get(self._full(key))
        return value if isinstance(value, str) else None

    def flag(self, key: str) -> bool | None:
        value = self.metadata.get(self._full(key))
        return value if isinstance(value, bool) else None

    def per_layer(self, key: str, default: int = 0) -> tuple[int, ...]:
        """One integer for each layer, from a scalar that holds for all or from an array; ``default`` where absent."""
        value = self.metadata.get(self._full(key), default)
        if isinstance(value, array):
            return tuple(int(item) for item in value)
        return (int(value) if isinstance(value, int) else default,) * self.n_layer

    def _full(self, key: str) -> str:
        return self.architecture + key if key.startswith(".") else key

    @property
    def architecture(self) -> str:
        """llama.cpp's name for the architecture, for example ``qwen2``."""
        value = self.metadata.get("general.architecture")
        return value if isinstance(value, str) else ""

    @property
    def name(self) -> str | None:
        return self.text("general.name")

    @property
    def file_type(self) -> str | None:
        """The quantization, for example ``Q4_K_M``; guessed from the largest share of bytes where it is not stated."""
        stated = FILE_TYPES.get(self.integer("general.file_type") or 0)
        if "general.file_type" in self.metadata and stated is not None:
            return stated
        shares: dict[str, int] = {}
        for tensor in self.tensors:
            shares[tensor.type_name] = shares.get(tensor.type_name, 0) + tensor.n_bytes
        return max(shares, key=lambda kind: shares[kind]) if shares else None

    @property
    def n_ctx_train(self) -> int:
        return self.integer(".context_length") or 0

    @property
    def n_layer(self) -> int:
        """Blocks in all, next-token-prediction blocks included."""
        return self.integer(".block_count") or 0

    @property
    def n_embd(self) -> int:
        return self.integer(".embedding_length") or 0

    @property
    def n_head(self) -> int:
        """Attention heads; the most in any layer where layers differ."""
        return max(self.per_layer(".attention.head_count"), default=0)

    @cached_property
    def heads_kv(self) -> tuple[int, ...]:
        """Key/value heads of each layer."""
        if self._full(".attention.head_count_kv") in self.metadata:
            return self.per_layer(".attention.head_count_kv")
        return self.per_layer(".attention.head_count")

    @property
    def n_head_kv(self) -> int:
        return max(self.heads_kv, default=0)

    @property
    def head_dim_k(self) -> int:
        return self.integer(".attention.key_length") or (self.n_embd // self.n_head if self.n_head else 0)

    @property
    def head_dim_v(self) -> int:
        return self.integer(".attention.value_length") or (self.n_embd // self.n_head if self.n_head else 0)

    @property
    def sliding_window(self) -> int | None:
        """Tokens that windowed layers look back, where llama.cpp really uses a window; None for full attention."""
        return architecture.sliding_window(self)

    @property
    def is_recurrent(self) -> bool:
        return self.architecture in architecture.RECURRENT

    @property
    def is_hybrid(self) -> bool:
        return self.architecture in architecture.HYBRID

    @property
    def tokenizer(self) -> str | None:
        """llama.cpp's tokenizer family: ``gpt2`` (byte-pair), ``llama`` (SentencePiece) and others."""
        return self.text("tokenizer.ggml.model")

    @property
    def pre_tokenizer(self) -> str | None:
        return self.text("tokenizer.ggml.pre")

    @property
    def tokens(self) -> StringArray | None:
        """Token texts, by id."""
        value = self.metadata.get("tokenizer.ggml.tokens")
        return value if isinstance(value, StringArray) else None

    @property
    def token_types(self) -> Sequence[int] | None:
        """llama.cpp's token types, by id: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte."""
        value = self.metadata.get("tokenizer.ggml.token_type")
        return value if isinstance(value, array) else None

    @property
    def n_vocab(self) -> int:
        return len(self.tokens) if self.tokens is not None else self.integer(".vocab_size") or 0

    def special(self, role: str) -> int | None:
        """Id of a special token by role: ``bos``, ``eos``, ``eot``, ``eom``, ``unknown``, ``padding`` and others."""
        return self.integer(f"tokenizer.ggml.{role}_token_id")

    @property
    def bos(self) -> int | None:
        return self.special("bos")

    @property
    def eos(self) -> int | None:
        return self.special("eos")

    @property
    def chat_template(self) -> str | None:
        return self.text("tokenizer.chat_template")

    @property
    def split_count(self) -> int:
        """Files that the model is split over; 1 for a model in one file."""
        return self.integer("split.count") or 1

    @cached_property
    def n_params(self) -> int:
        """Elements in all tensors."""
        return sum(tensor.n_elements for tensor in self.tensors)

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of all tensors, without padding."""
        return sum(tensor.n_bytes for tensor in self.tensors)


class _File:
    """A file on disk as a RangeReader."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self.size = os.fstat(self._file.fileno()).st_size

    def read(self, offset: int, length: int) -> bytes:
        self._file.seek(offset)
        return self._file.read(length)

    def close(self) -> None:
        self._file.close()


class _Cursor:
    """Walks over a reader from the start; fetches ranges that double, so that a remote header costs few requests."""

    def __init__(self, reader: RangeReader, source: str) -> None:
        self.source = source
        self.size = reader.size
        self.buffer = bytearray()
        self.position = 0
        self._reader = reader

    @property
    def left(self) -> int:
        """The most bytes that can still follow."""
        return (MAX_HEADER if self.size is None else self.size) - self.position

    def need(self, n_bytes: int, what: str) -> None:
        """Make sure that ``n_bytes`` more are in the buffer."""
        end = self.position + n_bytes
        if end <= len(self.buffer):
            return
        if n_bytes > self.left:
            raise GGUFError(
                f"{self.source} is cut off or damaged: {what} needs {n_bytes} bytes and {self.left} are left, "
                "so download it again."
            )
        if end > MAX_HEADER:
            raise GGUFError(f"{self.source} is damaged: its header is larger than {MAX_HEADER >> 20} MiB.")
        while len(self.buffer) < end:
            wanted = max(end, 2 * len(self.buffer), FIRST_READ)
            if self.size is not None:
                wanted = min(wanted, self.size)
            chunk = self._reader.read(len(self.buffer), wanted - len(self.buffer))
            if not chunk:
                raise GGUFError(
                    f"{self.source} is cut off: it ends after {len(self.buffer)} bytes, inside {what}, "
                    "so download it again."
                )
            self.buffer += chunk

    def take(self, n_bytes: int, what: str) -> bytes:
        self.need(n_bytes, what)
        start, self.position = self.position, self.position + n_bytes
        return bytes(self.buffer[start : self.position])

    def number(self, code: str, what: str) -> int:
        value: int = struct.unpack("<" + code, self.take(struct.calcsize("<" + code), what))[0]
        return value

    def count(self, bytes_each: int, what: str) -> int:
        """A u64 number of things that take at least ``bytes_each`` bytes each, so the file bounds it."""
        n = self.number("Q", f"the number of {what}")
        if n * bytes_each > self.left:
            raise GGUFError(
                f"{self.source} is cut off or damaged: it announces {n} {what}, but only {max(self.left, 0)} bytes "
                "are left, so download it again."
            )
        return n

    def string(self, what: str) -> bytes:
        return self.take(self.number("Q", f"the length of {what}"), what)

    def key(self, what: str) -> str:
        raw = self.string(what)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            raise GGUFError(f"{self.source} is damaged: {what} is not valid UTF-8.") from None

    def strings(self, n: int, what: str) -> StringArray:
        # The hot loop of the module: a vocabulary and its merges are 300 000 strings.
        start = position = self.position
        buffer, unpack = self.buffer, struct.Struct("<Q").unpack_from
        have, starts = len(buffer), array("Q")
        for _ in range(n):
            if position + 8 > have:
                self.position = position
                self.need(8, what)
                have = len(buffer)
            end = position + 8 + unpack(buffer, position)[0]
            if end > have:
                self.position = position
                self.need(end - position, what)
                have = len(buffer)
            starts.append(position + 8 - start)
            position = end
        starts.append(position + 8 - start)
        self.position = position
        return StringArray(bytes(buffer[start:position]), starts)


def _value(cursor: _Cursor, key: str) -> tuple[object, int]:
    """The value that follows a key, and its type as in ``Header.types``."""
    kind = cursor.number("I", f"the type of '{key}'")
    if kind == STRING:
        return cursor.string(f"'{key}'").decode("utf-8", "replace"), kind
    if kind in SCALARS:
        code, size = SCALARS[kind]
        return struct.unpack("<" + code, cursor.take(size, f"'{key}'"))[0], kind
    if kind != ARRAY:
        raise GGUFError(f"{cursor.source} is damaged: '{key}' has the unknown type {kind}.")
    kind = cursor.number("I", f"the type of '{key}'")
    if kind == STRING:
        n = cursor.count(8, f"strings in '{key}'")
        return cursor.strings(n, f"'{key}'"), 256 + kind
    if kind not in SCALARS:
        what = "an array of arrays" if kind == ARRAY else f"an array of the unknown type {kind}"
        raise GGUFError(f"{cursor.source} is damaged: '{key}' is {what}.")
    code, size = SCALARS[kind]
    n = cursor.count(size, f"values in '{key}'")
    # A bool array is kept as bytes: any value but 0 is true, as in llama.cpp.
    numbers: array[int] | array[float] = array("B" if kind == BOOL else code)
    numbers.frombytes(cursor.take(n * size, f"'{key}'"))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers, 256 + kind


def _tensor(cursor: _Cursor, index: int) -> TensorInfo:
    name = cursor.key(f"the name of tensor {index}")
    if len(name.encode()) >= MAX_NAME:
        raise GGUFError(f"{cursor.source} is damaged: the name of tensor {index} is {MAX_NAME} bytes or longer.")
    n_dims = cursor.number("I", f"tensor '{name}'")
    if n_dims > MAX_DIMS:
        raise GGUFError(f"{cursor.source} is damaged: tensor '{name}' has {n_dims} dimensions, at most 4 are possible.")
    shape = struct.unpack(f"<{n_dims}Q", cursor.take(8 * n_dims, f"tensor '{name}'"))
    kind = cursor.number("i", f"tensor '{name}'")
    offset = cursor.number("Q", f"tensor '{name}'")
    if 0 in shape or math.prod(shape) >= 1 << 62:
        raise GGUFError(f"{cursor.source} is damaged: tensor '{name}' has the impossible shape {list(shape)}.")
    if kind not in TENSOR_TYPES:
        raise GGUFError(
            f"{cursor.source} holds tensor '{name}' in the unknown or withdrawn type {kind}, "
            "so get a newer file of this model."
        )
    type_name, block, block_bytes = TENSOR_TYPES[kind]
    row = shape[0] if shape else 1
    if row % block:
        raise GGUFError(
            f"{cursor.source} is damaged: rows of tensor '{name}' hold {row} values, not a multiple of the {block} "
            f"that {type_name} packs together."
        )
    return TensorInfo(name, shape, kind, offset, math.prod(shape) // block * block_bytes)


def _version(cursor: _Cursor) -> int:
    source = cursor.source
    if cursor.left < 24:
        raise GGUFError(f"{source} is not a GGUF file: it is only {cursor.left} bytes long.")
    if (magic := cursor.take(4, "the magic")) != MAGIC:
        raise GGUFError(f"{source} is not a GGUF file: it starts with {magic!r} instead of b'GGUF'.")
    raw = cursor.take(4, "the version")
    version = int.from_bytes(raw, "little")
    if version not in (2, 3):
        if int.from_bytes(raw, "big") in (1, 2, 3):
            raise GGUFError(f"{source} is a big-endian GGUF, so get the little-endian file of this model.")
        raise GGUFError(f"{source} is GGUF version {version}; versions 2 and 3 can be read.")
    return version


def _check_layout(header: Header, alignment: int) -> None:
    """Tensors must follow each other without gap or overlap, as llama.cpp demands, and lie within the file."""
    expected = end = 0
    for tensor in header.tensors:
        if tensor.offset != expected:
            raise GGUFError(
                f"{header.source} is damaged: tensor '{tensor.name}' starts at byte {tensor.offset} of the data "
                f"instead of {expected}."
            )
        end = header.data_offset + tensor.offset + tensor.n_bytes
        expected += -(-tensor.n_bytes // alignment) * alignment
    if header.tensors and header.data_offset % DATA_ALIGNMENT:
        raise GGUFError(
            f"{header.source} is damaged: its tensor data starts at byte {header.data_offset}, "
            f"not at a multiple of {DATA_ALIGNMENT}."
        )
    if header.file_size is not None and end > header.file_size:
        missing = end - header.file_size
        raise GGUFError(f"{header.source} is cut off: {missing} of its {end} bytes are missing, so download it again.")


def _alignment(metadata: Mapping[str, object], types: Mapping[str, int], source: str) -> int:
    value = metadata.get("general.alignment", DATA_ALIGNMENT)
    stated = "general.alignment" in metadata
    if (stated and types["general.alignment"] != UINT32) or not isinstance(value, int) or value.bit_count() != 1:
        raise GGUFError(f"{source} is damaged: 'general.alignment' is {value!r}, not a power of two.")
    return value


def read_header_from(reader: RangeReader, source: str = "this GGUF") -> Header:
    """Read and check one header; of a model split over several files only that of the given one.

    ``source`` is what errors call the file. Raises GGUFError, and whatever ``reader`` raises.
    """
    from localspec import header_check

    cursor = _Cursor(reader, source)
    version = _version(cursor)
    n_tensors = cursor.count(24, "tensors")
    n_keys = cursor.count(13, "metadata keys")
    metadata: dict[str, object] = {}
    types: dict[str, int] = {}
    for index in range(n_keys):
        key = cursor.key(f"metadata key {index}")
        if not key or key in metadata:
            what = f"metadata key '{key}' occurs twice" if key else f"metadata key {index} is empty"
            raise GGUFError(f"{source} is damaged: {what}.")
        metadata[key], types[key] = _value(cursor, key)
    alignment = _alignment(metadata, types, source)
    tensors: dict[str, TensorInfo] = {}
    for index in range(n_tensors):
        tensor = _tensor(cursor, index)
        if tensor.name in tensors:
            raise GGUFError(f"{source} is damaged: tensor '{tensor.name}' occurs twice.")
        tensors[tensor.name] = tensor
    data_offset = -(-cursor.position // alignment) * alignment
    header = Header(version, metadata, tuple(tensors.values()), data_offset, reader.size, source, types)
    _check_layout(header, alignment)
    header_check.check(header)
    return header


def read_header(path: Path) -> Header:
    """Read and check the header of a GGUF on disk, and of every other shard where the model is split.

    Raises GGUFError in one sentence: no such file, not a GGUF, cut off (with the bytes that are missing), damaged.
    """
    from localspec import shards

    header = _read_file(path)
    return shards.join(header, path, _read_file) if header.split_count > 1 else header


def _read_file(path: Path) -> Header:
    if path.is_dir():
        raise GGUFError(f"{path} is a directory, so name a .gguf file in it.")
    try:
        file = _File(path)
    except FileNotFoundError:
        raise GGUFError(f"{path} does not exist.") from None
    except OSError as error:
        raise GGUFError(f"{path} cannot be read: {error.strerror}.") from None
    try:
        return read_header_from(file, str(path))
    except OSError as error:
        raise GGUFError(f"{path} cannot be read: {error.strerror}.") from None
    finally:
        file.close()
