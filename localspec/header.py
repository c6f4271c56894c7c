"""What a GGUF says about itself: metadata by key, tensors by name, and the values that localspec asks for by name."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import overload

from localspec import architecture

# GGUF value types by number.
UINT16, UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 2, 4, 5, 6, 7, 8, 9
# Added to the type of the elements where the value is an array.
ARRAY_OF = 256

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


def quoted(text: str, most: int = 60) -> str:
    """Text from a file, fit for a message: in quotes, on one line, of bounded length, without control characters."""
    return repr(text if len(text) <= most else text[: most - 3] + "...")


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
    """GGUF value type of each key; an array has ``ARRAY_OF`` added to the type of its elements."""
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
        n_layer = self.n_layer
        if isinstance(value, array) and value.typecode not in "fd":
            return (*(int(item) for item in value[:n_layer]), *(default,) * (n_layer - len(value)))
        return (int(value) if isinstance(value, int) else default,) * n_layer

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
