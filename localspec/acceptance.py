"""How likely a draft token is to be accepted, learned from what happened to the others.

A drafter tells what it knows of a token before it is drawn as a *feature*, a small number: how sure the draft model is,
or how long the text is that a lookup has matched. Each feature has counts that forget, and one number that follows the
text quickly shifts them all: code that turns into chat is noticed within a few rounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

MEMORY = 200.0
"""Tokens that the counts of a feature remember."""
PRIOR = 3.0
"""Tokens that a prior is worth."""
SHIFT_RATE, SHIFT_DECAY = 0.12, 0.98
LEVEL_RATE = 0.06
FREQUENCY_DECAY = 0.98
CAUTION = 0.7
"""Standard errors."""
FADE = 0.75
"""What is left of the counts after a reply in which nothing was drafted, and so nothing learned."""


class Acceptance:
    """P(accept) of one drafter by feature."""

    def __init__(self, prior: Sequence[float], level: float) -> None:
        """``prior``: for each feature, in 0 to 1. ``level``: the mean that is expected, to which the prior is moved."""
        offset = _offset(prior, level)
        self._prior = [PRIOR * _moved(p, offset) for p in prior]
        self._tried = [PRIOR] * len(prior)
        self._kept = list(self._prior)
        self._shift = 0.0
        self._idle = False
        self.frequency = [1.0 / len(prior)] * len(prior)
        """How often each feature was met lately, drafted or not; they sum to 1."""
        self.level = level
        """Mean acceptance of the latest tokens, those that were not worth drafting included."""
        self.seen = 0
        """Tokens learned from, in all."""

    def begin(self) -> None:
        """Another text. What one bad text taught must not keep a drafter off for ever: without drafts nothing better
        is learned, so the counts of a drafter that was not used fade to what was believed at first."""
        if self._idle:
            self._tried = [PRIOR + FADE * (n - PRIOR) for n in self._tried]
            self._kept = [p + FADE * (n - p) for p, n in zip(self._prior, self._kept, strict=True)]
        self._shift, self._idle = 0.0, True

    def probability(self, feature: int) -> float:
        """That a token with this feature is accepted, given that all before it in its round are."""
        return _moved(self._kept[feature] / self._tried[feature], self._shift)

    def cautious(self, feature: int) -> float:
        """The same less most of a standard error, for where it costs nothing to wait until more is known."""
        p = self.probability(feature)
        return max(0.0, p - CAUTION * math.sqrt(p * (1.0 - p) / self._tried[feature]))

    def learn(self, feature: int, accepted: bool) -> None:
        """What became of a token whose predecessors in the round were all accepted."""
        self._shift = SHIFT_DECAY * (self._shift + SHIFT_RATE * (accepted - self.probability(feature)))
        keep = 1.0 - 1.0 / MEMORY if self._tried[feature] >= MEMORY else 1.0
        self._tried[feature] = keep * self._tried[feature] + 1.0
        self._kept[feature] = keep * self._kept[feature] + accepted
        self._meet(feature, accepted)
        self.seen += 1
        self._idle = False

    def pass_over(self, feature: int) -> None:
        """A token with this feature was not drafted. The level would be too high if only good tokens made it."""
        self._meet(feature, self.probability(feature))

    def _meet(self, feature: int, outcome: float) -> None:
        rate = max(LEVEL_RATE, 1.0 / (PRIOR + 1.0 + self.seen))
        self.level += rate * (outcome - self.level)
        self.frequency = [FREQUENCY_DECAY * share for share in self.frequency]
        self.frequency[feature] += 1.0 - FREQUENCY_DECAY

    def state(self) -> dict[str, Any]:
        """To be kept as JSON."""
        return {
            "tried": [round(n, 2) for n in self._tried],
            "kept": [round(n, 2) for n in self._kept],
            "frequency": [round(share, 5) for share in self.frequency],
            "level": round(self.level, 4),
            "seen": self.seen,
            "idle": self._idle,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what was kept. Raises ValueError, KeyError or TypeError where it does not fit."""
        tried, kept = [float(n) for n in state["tried"]], [float(n) for n in state["kept"]]
        frequency = [float(share) for share in state["frequency"]]
        level, seen = float(state["level"]), int(state["seen"])
        fits = len(tried) == len(kept) == len(frequency) == len(self._tried) and all(
            0.0 <= k <= n and 0.0 < n <= 2 * MEMORY for k, n in zip(kept, tried, strict=True)
        )
        if not fits or not 0.0 <= level <= 1.0 or seen < 0 or not all(0.0 <= share <= 1.0 for share in frequency):
            raise ValueError("these counts belong to other features")
        self._tried, self._kept, self.frequency, self.level, self.seen = tried, kept, frequency, level, seen
        self._idle = bool(state["idle"])


def _moved(p: float, offset: float) -> float:
    """``p`` moved by ``offset`` in log-odds, and kept away from 0 and 1."""
    p = min(max(p, 0.005), 0.995)
    return 1.0 / (1.0 + math.exp(-(math.log(p / (1.0 - p)) + offset)))


def _offset(prior: Sequence[float], level: float) -> float:
    """What moves the mean of ``prior`` to ``level``, by bisection."""
    low, high = -8.0, 8.0
    for _ in range(40):
        middle = (low + high) / 2
        if sum(_moved(p, middle) for p in prior) / len(prior) < level:
            low = middle
        else:
            high = middle
    return (low + high) / 2
