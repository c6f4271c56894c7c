"""How many threads decode fastest: measured, because cores differ and some belong to others.

The number of physical cores is the usual answer. It is wrong where the process may not use them all, where half of them
are slow, and on machines that gain from hyper-threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from statistics import median
from time import perf_counter
from typing import Protocol

import psutil

from localspec.sequence import LanguageModel

ROUNDS = 7
BUDGET_S = 1.0
"""The most time that the measurement may take, beside its first passes."""
BETTER = 0.95
"""Another number than the usual one must take at most this share of its time: a busy machine is no reason to change."""
HELD = 4


class Threaded(LanguageModel, Protocol):
    """A model whose number of threads can be changed between two passes."""

    def set_threads(self, n: int) -> None:
        """Use ``n`` threads from the next pass on."""


def usual() -> int:
    """The physical cores, as far as this process may use them."""
    return max(1, min(psutil.cpu_count(logical=False) or 1, _allowed()))


def candidates() -> list[int]:
    """The usual number first, then others that are worth a try."""
    first, allowed = usual(), _allowed()
    others = {first // 2, (3 * first) // 4, first - 1, allowed}
    return [first, *sorted(n for n in others if 1 <= n <= allowed and n != first)]


def choose(model: Threaded, numbers: Iterable[int] | None = None, *, clock: Callable[[], float] = perf_counter) -> int:
    """The number with the fastest passes over one token; the first of ``numbers`` unless another is clearly better.

    The cache of the model must be free to use; it is empty afterwards.
    """
    tried = list(candidates() if numbers is None else numbers)
    times: dict[int, list[float]] = {n: [] for n in tried}
    model.rewind(0)
    held = min(HELD, model.n_batch)
    model.decode([0] * held, 0)
    began = None
    # In turn, so that a pause of the machine does not fall on one number alone. The first turn only warms up.
    for turn in range(ROUNDS):
        for n in tried:
            model.set_threads(n)
            started = clock()
            model.decode([0], 1)
            times[n].append(clock() - started)
            model.rewind(held)
        if turn == 0:
            times, began = {n: [] for n in tried}, clock()
        elif began is not None and clock() - began > BUDGET_S:
            break
    model.rewind(0)
    best = min(tried, key=lambda n: median(times[n]))
    chosen = best if median(times[best]) < BETTER * median(times[tried[0]]) else tried[0]
    model.set_threads(chosen)
    return chosen


def _allowed() -> int:
    """Logical processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return psutil.cpu_count() or 1
