"""Randomness that verification draws on.

``GumbelNoise`` is a function of (seed, position, token id) without state: draft and target see the same value, and so
does dense decoding, which is what makes the sampled text a function of the seed alone. ``Chance`` is a stream: the
rejection and block rules need draws that no earlier decision has looked at, because block verification lets a later
draft token decide over an earlier position.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Weights = NDArray[np.float64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_MASK = (1 << 64) - 1


class Noise(Protocol):
    """Noise for token ids at a position."""

    def __call__(self, position: int, ids: Ids) -> Weights: ...


class Chance(Protocol):
    """A source of random decisions."""

    def accept(self, p: float, q: float) -> bool:
        """True with probability min(1, p / q)."""

    def draw(self, weights: Weights) -> int:
        """An index with probability in proportion to its weight."""


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of SplitMix64 (Steele, Lea and Flood, 2014), in place."""
    x ^= x >> np.uint64(30)
    x *= _MIX_1
    x ^= x >> np.uint64(27)
    x *= _MIX_2
    x ^= x >> np.uint64(31)
    return x


class GumbelNoise:
    """Standard Gumbel values -log(-log u), with u from a counter hash of (seed, position, id)."""

    def __init__(self, seed: int) -> None:
        self._seed = np.array([seed & _MASK], np.uint64)

    def __call__(self, position: int, ids: Ids) -> Weights:
        """float64 ``[len(ids)]``, between -3.7 and 36.8: u keeps 52 bits and is never 0 or 1."""
        key = _mix(_mix(self._seed + _GOLDEN) + np.array([position & _MASK], np.uint64) * _GOLDEN)
        bits = _mix(key + (ids.astype(np.uint64) + np.uint64(1)) * _GOLDEN)
        # With 53 bits the largest value plus a half would round to 2**53, and its noise be infinite.
        u = ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
        noise: Weights = -np.log(-np.log(u))
        return noise


class RandomChance:
    """Decisions from numpy's PCG64 stream for a seed."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def accept(self, p: float, q: float) -> bool:
        # 1 - random() lies in (0, 1], so a token with p = 0 is never accepted.
        return (1.0 - self._random.random()) * q <= p

    def draw(self, weights: Weights) -> int:
        cumulative = np.cumsum(weights)
        index = int(np.searchsorted(cumulative, self._random.random() * cumulative[-1], side="right"))
        return min(index, len(weights) - 1)
