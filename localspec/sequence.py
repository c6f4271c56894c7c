"""A KV cache that knows which tokens it holds.

Target and draft each have one. Both decode only what is missing from it, so no token is evaluated twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.float32]


class LanguageModel(Protocol):
    """What decoding needs of a model: ``localspec.llama.Context``, or a table of logits in a test."""

    n_ctx: int
    """Tokens that fit into the cache."""
    n_batch: int
    """The most tokens of one pass."""
    n_vocab: int

    def decode(self, tokens: Sequence[int], n_rows: int = 1) -> Logits:
        """Append ``tokens`` to the cache; float32 ``[n_rows, n_vocab]``, valid until the next call."""

    def rewind(self, n: int) -> int:
        """Keep the first ``n`` tokens. Returns ``n``, or 0 when the cache could only be cleared."""


class Vocabulary(Protocol):
    """What decoding needs of a vocabulary: ``localspec.llama.Vocab``, or a small one in a test."""

    @property
    def eog(self) -> frozenset[int]:
        """Every token that ends a generation."""

    def is_eog(self, token: int) -> bool: ...

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """Bytes of one token, which may be a part of a UTF-8 character."""


class CachedSequence:
    """The tokens in a model's KV cache, in order."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.tokens: list[int] = []

    def keep_prefix(self, tokens: Sequence[int]) -> int:
        """Drop whatever the cache does not share with the start of ``tokens``. Returns the number of tokens kept."""
        n = 0
        for held, wanted in zip(self.tokens, tokens, strict=False):
            if held != wanted:
                break
            n += 1
        return self.rewind(n)

    def decode(self, tokens: Sequence[int], n_rows: int) -> Logits:
        """Evaluate at most ``n_batch`` tokens. Returns the last ``n_rows`` rows, valid until the next call.

        What the model raises leaves the sequence as before the call, or empty where the cache had to be cleared.
        """
        try:
            rows = self.model.decode(tokens, n_rows)
        except Exception:
            del self.tokens[self.model.rewind(len(self.tokens)) :]
            raise
        self.tokens.extend(tokens)
        return rows

    def rewind(self, n: int) -> int:
        """Keep the first ``n`` tokens. Returns how many were kept, 0 when the cache could only be cleared."""
        if n < len(self.tokens):
            n = self.model.rewind(n)
            del self.tokens[n:]
        return len(self.tokens)
