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
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from localspec import header_check, shards
from localspec.errors import GGUFError
from localspec.header import (
    ARRAY,
    ARRAY_OF,
    BOOL,
    STRING,
    TENSOR_TYPES,
    UINT32,
    Header,
    StringArray,
    TensorInfo,
    quoted,
)

__all__ = ["Header", "RangeReader", "StringArray", "TensorInfo", "read_header", "read_header_from"]

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


class RangeReader(Protocol):
    """A file of which any part can be read: on disk, or behind HTTP range requests."""

    @property
    def size(self) -> int | None:
        """Bytes in the whole file; None where it is not known."""

    def read(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``; fewer only at the end of the file."""


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
        if self.size is not None and n_bytes > self.left:
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
    kind = cursor.number("I", f"the type of {quoted(key)}")
    if kind == STRING:
        return cursor.string(f"{quoted(key)}").decode("utf-8", "replace"), kind
    if kind in SCALARS:
        code, size = SCALARS[kind]
        return struct.unpack("<" + code, cursor.take(size, f"{quoted(key)}"))[0], kind
    if kind != ARRAY:
        raise GGUFError(f"{cursor.source} is damaged: {quoted(key)} has the unknown type {kind}.")
    kind = cursor.number("I", f"the type of {quoted(key)}")
    if kind == STRING:
        n = cursor.count(8, f"strings in {quoted(key)}")
        return cursor.strings(n, f"{quoted(key)}"), ARRAY_OF + kind
    if kind not in SCALARS:
        what = "an array of arrays" if kind == ARRAY else f"an array of the unknown type {kind}"
        raise GGUFError(f"{cursor.source} is damaged: {quoted(key)} is {what}.")
    code, size = SCALARS[kind]
    n = cursor.count(size, f"values in {quoted(key)}")
    # A bool array is kept as bytes: any value but 0 is true, as in llama.cpp.
    numbers: array[int] | array[float] = array("B" if kind == BOOL else code)
    numbers.frombytes(cursor.take(n * size, f"{quoted(key)}"))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers, ARRAY_OF + kind


def _tensor(cursor: _Cursor, index: int) -> TensorInfo:
    name = cursor.key(f"the name of tensor {index}")
    if len(name.encode()) >= MAX_NAME:
        raise GGUFError(f"{cursor.source} is damaged: the name of tensor {index} is {MAX_NAME} bytes or longer.")
    n_dims = cursor.number("I", f"tensor {quoted(name)}")
    if n_dims > MAX_DIMS:
        raise GGUFError(
            f"{cursor.source} is damaged: tensor {quoted(name)} has {n_dims} dimensions, at most 4 are possible."
        )
    shape = struct.unpack(f"<{n_dims}Q", cursor.take(8 * n_dims, f"tensor {quoted(name)}"))
    kind = cursor.number("i", f"tensor {quoted(name)}")
    offset = cursor.number("Q", f"tensor {quoted(name)}")
    if 0 in shape or math.prod(shape) >= 1 << 62:
        raise GGUFError(f"{cursor.source} is damaged: tensor {quoted(name)} has the impossible shape {list(shape)}.")
    if kind not in TENSOR_TYPES:
        raise GGUFError(
            f"{cursor.source} holds tensor {quoted(name)} in the unknown or withdrawn type {kind}, "
            "so get a newer file of this model."
        )
    type_name, block, block_bytes = TENSOR_TYPES[kind]
    row = shape[0] if shape else 1
    if row % block:
        raise GGUFError(
            f"{cursor.source} is damaged: rows of tensor {quoted(name)} hold {row} values, not a multiple of "
            f"the {block} that {type_name} packs together."
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
                f"{header.source} is damaged: tensor {quoted(tensor.name)} starts at byte {tensor.offset} of the data "
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
    cursor = _Cursor(reader, source)
    version = _version(cursor)
    n_tensors = cursor.count(24, "tensors")
    n_keys = cursor.count(13, "metadata keys")
    metadata: dict[str, object] = {}
    types: dict[str, int] = {}
    for index in range(n_keys):
        key = cursor.key(f"metadata key {index}")
        if not key or key in metadata:
            what = f"metadata key {quoted(key)} occurs twice" if key else f"metadata key {index} is empty"
            raise GGUFError(f"{source} is damaged: {what}.")
        metadata[key], types[key] = _value(cursor, key)
    alignment = _alignment(metadata, types, source)
    tensors: dict[str, TensorInfo] = {}
    for index in range(n_tensors):
        tensor = _tensor(cursor, index)
        if tensor.name in tensors:
            raise GGUFError(f"{source} is damaged: tensor {quoted(tensor.name)} occurs twice.")
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
