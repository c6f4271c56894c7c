"""From a row of logits to the distribution that a token is drawn from.

The order is llama.cpp's: logit bias, penalties, top-k, top-p, min-p, temperature last. The target's rows, dense or
speculative, and the draft's rows all pass through this one piece of code, so p and q are always the law of the draw.
Nothing here sorts the whole vocabulary: a bound that costs one pass leaves a few candidates, which are sorted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from localspec.errors import ModelError

BLOCK = 64
"""Logits in a block of the bound for top-k."""

Row = NDArray[np.float32]
Ids = NDArray[np.int64]
Probabilities = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling settings; names and meanings are llama.cpp's."""

    temp: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()

    @property
    def penalizes(self) -> bool:
        return self.repeat_last_n != 0 and (
            self.repeat_penalty != 1.0 or self.presence_penalty != 0.0 or self.frequency_penalty != 0.0
        )


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution over the token ids it keeps; every other id has probability 0."""

    ids: Ids
    """Ascending."""
    p: Probabilities
    """Sums to 1, in the order of ``ids``."""

    @classmethod
    def point(cls, token: int) -> Distribution:
        """All mass on one token."""
        return cls(np.array([token], np.int64), np.ones(1))

    def probability(self, token: int) -> float:
        index = int(np.searchsorted(self.ids, token))
        return float(self.p[index]) if index < len(self.ids) and self.ids[index] == token else 0.0

    def probabilities(self, ids: Ids) -> Probabilities:
        """Probability of each of ``ids`` (ascending), 0 where this distribution does not keep it."""
        index = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[index] == ids, self.p[index], 0.0)

    @property
    def confidence(self) -> float:
        """The largest probability."""
        return float(self.p.max())


class Processor:
    """Turns logits rows into distributions under one set of settings."""

    def __init__(self, sampling: Sampling, n_vocab: int) -> None:
        """``n_vocab`` bounds the ids that may be drawn: the smaller of the two vocabularies for a draft."""
        self._sampling = sampling
        self._n_vocab = n_vocab

    def __call__(self, row: Row, path: Sequence[int]) -> Distribution:
        """Distribution of the next token after ``path`` (prompt, emitted and, for a draft, drafted tokens).

        ``row`` is float32 ``[>= n_vocab]`` and is not changed. Raises ModelError when it holds no finite maximum.
        """
        s = self._sampling
        row = self._adjusted(row[: self._n_vocab], path)
        largest = float(row.max())
        if not np.isfinite(largest):
            raise ModelError("The model returned logits that are not numbers; its file or the GPU back end is faulty.")
        if s.temp <= 0.0:
            return Distribution.point(int(row.argmax()))
        ids = self._candidates(row, largest)
        logits = row[ids].astype(np.float64)
        if s.top_k > 0 or s.top_p < 1.0:
            order = np.argsort(-logits, kind="stable")
            if s.top_k > 0:
                order = order[: s.top_k]
            ids, logits = ids[order], logits[order]
            if s.top_p < 1.0:
                ids, logits = self._nucleus(row, largest, ids, logits)
        if s.min_p > 0.0:
            kept = logits >= largest + np.log(s.min_p)
            ids, logits = ids[kept], logits[kept]
        weights = np.exp((logits - largest) / s.temp)
        ascending = np.argsort(ids)
        return Distribution(ids[ascending], weights[ascending] / weights.sum())

    def _adjusted(self, row: Row, path: Sequence[int]) -> Row:
        s = self._sampling
        if not s.logit_bias and not s.penalizes:
            return row
        row = row.copy()
        for token, bias in s.logit_bias:
            if 0 <= token < len(row):
                row[token] += np.float32(bias)
        if s.penalizes:
            recent = path if s.repeat_last_n < 0 else path[max(0, len(path) - s.repeat_last_n) :]
            counts = Counter(token for token in recent if token < len(row))
            if counts:
                ids = np.fromiter(counts.keys(), np.int64, len(counts))
                n = np.fromiter(counts.values(), np.float32, len(counts))
                logits = row[ids]
                repeat = np.float32(s.repeat_penalty)
                logits = np.where(logits <= 0, logits * repeat, logits / repeat)
                row[ids] = logits - n * np.float32(s.frequency_penalty) - np.float32(s.presence_penalty)
        return row

    def _candidates(self, row: Row, largest: float) -> Ids:
        """Ids, ascending, that hold every token which top-k, top-p and min-p together can keep."""
        s = self._sampling
        if 0 < s.top_k < len(row):
            return _at_least(row, s.top_k)
        if s.top_p < 1.0:
            return self._mass_at_least(row, largest, s.top_p)
        if s.min_p > 0.0:
            return np.flatnonzero(row >= largest + np.log(s.min_p))
        return np.flatnonzero(row > -np.inf)

    def _mass_at_least(self, row: Row, largest: float, p: float) -> Ids:
        weights = np.exp(row - np.float32(largest))
        needed = p * float(weights.sum(dtype=np.float64))
        floor = 1e-3
        while floor > 1e-30:
            ids = np.flatnonzero(weights >= floor)
            if float(weights[ids].sum(dtype=np.float64)) >= needed:
                return ids
            floor *= 1e-2
        return np.flatnonzero(row > -np.inf)

    def _nucleus(self, row: Row, largest: float, ids: Ids, logits: Probabilities) -> tuple[Ids, Probabilities]:
        """The shortest prefix of the descending candidates with mass top_p of what top-k kept."""
        s = self._sampling
        weights = np.exp(logits - largest)
        whole = float(weights.sum()) if s.top_k > 0 else float(np.exp(row - np.float32(largest)).sum(dtype=np.float64))
        n = int(np.searchsorted(np.cumsum(weights), s.top_p * whole)) + 1
        return ids[:n], logits[:n]


def _at_least(row: Row, k: int) -> Ids:
    """Ids, ascending, of at least the ``k`` largest finite logits.

    The k-th largest of the maxima of blocks is no larger than the k-th largest logit, because k blocks each hold one
    that is no smaller.
    """
    n_blocks = len(row) // BLOCK
    if n_blocks <= k:
        bound = np.partition(row, len(row) - k)[len(row) - k]
    else:
        # A block takes every n_blocks-th logit: numpy then compares whole rows, several times faster than within them.
        maxima = row[: n_blocks * BLOCK].reshape(BLOCK, n_blocks).max(axis=0)
        bound = np.partition(maxima, n_blocks - k)[n_blocks - k]
    return np.flatnonzero(row >= bound if bound > -np.inf else row > bound)
