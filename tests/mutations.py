"""Broken copies of a GGUF: each length, count, type and value of its header made wrong, or damage at random."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass

SCALAR_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9
WRONG = (0, 1, 2, 5, 31, 33, 255, 1 << 15, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 63) - 1, 1 << 63)


@dataclass(frozen=True)
class Field:
    """Where a number of the header lies."""

    what: str
    offset: int
    size: int


@dataclass(frozen=True)
class Mutation:
    what: str
    data: bytes


class Walk:
    """The fields of a sound GGUF, in order."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 8
        self.fields = [Field("version", 4, 4)]
        n_tensors = self.number("tensor count", 8)
        n_keys = self.number("key count", 8)
        for _ in range(n_keys):
            key = self.string("key length").decode()
            self.value(key, self.number(f"type of {key}", 4))
        for _ in range(n_tensors):
            name = self.string("tensor name length").decode()
            for _ in range(self.number(f"dimensions of {name}", 4)):
                self.number(f"shape of {name}", 8)
            self.number(f"tensor type of {name}", 4)
            self.number(f"offset of {name}", 8)
        self.header_end = self.at

    def number(self, what: str, size: int) -> int:
        self.fields.append(Field(what, self.at, size))
        self.at += size
        return int.from_bytes(self.data[self.at - size : self.at], "little")

    def string(self, what: str) -> bytes:
        length = self.number(what, 8)
        self.at += length
        return self.data[self.at - length : self.at]

    def value(self, key: str, kind: int) -> None:
        if kind == STRING:
            self.string(f"length of {key}")
        elif kind == ARRAY:
            kind = self.number(f"element type of {key}", 4)
            n = self.number(f"elements of {key}", 8)
            if kind == STRING:
                for _ in range(n):
                    self.string(f"length in {key}")
            else:
                self.at += n * SCALAR_BYTES[kind]
        else:
            self.number(f"value of {key}", SCALAR_BYTES[kind])


def _put(data: bytes, field: Field, value: int) -> bytes:
    raw = (value % (1 << (8 * field.size))).to_bytes(field.size, "little")
    return data[: field.offset] + raw + data[field.offset + field.size :]


def wrong_numbers(data: bytes, rng: random.Random, n: int) -> Iterator[Mutation]:
    """One number of the header replaced, each field at least once where ``n`` allows."""
    fields = Walk(data).fields
    rng.shuffle(fields)
    for i in range(n):
        field = fields[i % len(fields)]
        old = int.from_bytes(data[field.offset : field.offset + field.size], "little")
        value = rng.choice([*WRONG, old + 1, old - 1, old * 2, old // 2, rng.getrandbits(8 * field.size)])
        yield Mutation(f"{field.what}: {old} becomes {value}", _put(data, field, value))


def flipped_bytes(data: bytes, rng: random.Random, n: int, end: int) -> Iterator[Mutation]:
    """One to eight bytes below ``end`` replaced at random."""
    for _ in range(n):
        copy = bytearray(data)
        places = [rng.randrange(end) for _ in range(rng.randint(1, 8))]
        for place in places:
            copy[place] = rng.randrange(256)
        yield Mutation(f"bytes {places} replaced", bytes(copy))


def cut_off(data: bytes, rng: random.Random, n: int) -> Iterator[Mutation]:
    """The file ends early: inside a field, or anywhere."""
    fields = Walk(data).fields
    for i in range(n):
        end = rng.randrange(len(data)) if i % 2 else rng.choice(fields).offset + rng.randint(0, 4)
        yield Mutation(f"cut off after {end} bytes", data[:end])


def moved(data: bytes, rng: random.Random, n: int, end: int) -> Iterator[Mutation]:
    """Bytes inserted, removed or repeated, so that everything behind them is in the wrong place."""
    for i in range(n):
        at, length = rng.randrange(end), rng.choice((1, 2, 4, 8, 24, 32, 64))
        middle = (b"", rng.randbytes(length), data[at : at + length] * 2)[i % 3]
        after = data[at:] if i % 3 == 1 else data[at + length :]
        yield Mutation(f"{len(middle)} bytes for {length} at {at}", data[:at] + middle + after)


def bad_weights(data: bytes, rng: random.Random, n: int) -> Iterator[Mutation]:
    """Tensor data that is noise, infinite or not a number."""
    start = -(-Walk(data).header_end // 32) * 32
    size = len(data) - start
    for i in range(n):
        pattern = (None, b"\xff\xff\xff\xff", struct.pack("<f", float("inf")), struct.pack("<f", 3e38))[i % 4]
        noise = rng.randbytes(size) if pattern is None else (pattern * size)[:size]
        yield Mutation(f"weights replaced, pattern {pattern!r}", data[:start] + noise)
