"""What passes cost: measured once for a pair on a machine, then followed as the machine's speed drifts.

Everything is told as a multiple of a dense round, a pass of the target over one token. Those ratios change slowly; what
changes all the time on a shared or a hot machine is the speed of everything together, and that is one number here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from time import perf_counter

from localspec.sequence import LanguageModel

WIDTHS = (2, 4, 8, 16, 3, 32, 5, 6, 12)
"""Widths of the target's pass that are measured, the most telling first; those between them are interpolated."""
MAX_WIDTH = 33
BATCH = 32
"""Tokens of the pass that tells what it costs the draft model to catch up."""
HELD = 8
"""Tokens that a cache holds while passes are timed, or fewer where a pass takes fewer."""
BUDGET_S = 3.0
"""The most time that a first measurement may take."""
REPEATS = 2
CLIP = 0.5
"""The most that one observation may be off, in nats: a pause of the machine says nothing about ratios."""
SPEED_RATE, RATIO_RATE = 0.15, 0.02
"""Shares of a surprise that go to the common speed and to a ratio that is well known."""
FIRST_CHECK, LAST_CHECK = 8, 64
"""Rounds without a dense one after which one is due: wrong ratios can only be told from a slow machine by it."""
TRUE, WRONG = 0.15, 0.3
"""In nats: a dense round that differs by less puts the next check off; ratios that were off by more bring it near."""
MEASURED, BETWEEN, BEYOND = 12, 4, 0
"""How many observations a ratio is worth that was measured, lies between two such, or beyond them all."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Costs of a pair as multiples of a dense round."""

    dense_s: float
    """Seconds of a dense round when this was measured."""
    widths: tuple[tuple[int, float], ...]
    """(w, cost of a target pass over w tokens), ascending, from (1, 1.0) on."""
    draft_step: float = 0.0
    """One token of the draft model; 0 without one."""
    draft_token: float = 0.0
    """Each further token of the draft model in a pass over many, as it catches up."""


FLAT = Curve(0.0, ((1, 1.0), (MAX_WIDTH, 20.0)), 0.5, 0.1)
"""Taken until something was measured: a cautious guess between a CPU and a graphics card."""


class Costs:
    """The curve in force."""

    def __init__(self, curve: Curve | None = None) -> None:
        self.measured = curve is not None
        """Whether this began with a measurement, and not with a guess."""
        curve = curve or FLAT
        self._speed: float | None = math.log(curve.dense_s) if curve.dense_s > 0 else None
        self._width = [0.0, *(math.log(_interpolated(curve.widths, w)) for w in range(1, MAX_WIDTH + 1))]
        known = dict(curve.widths)
        self._known = [MEASURED if w in known else BETWEEN if w < max(known) else BEYOND for w in range(MAX_WIDTH + 1)]
        self._step = math.log(curve.draft_step) if curve.draft_step > 0 else 0.0
        self._token = curve.draft_token
        self._borrowed, self._since_dense, self._check = 0.0, 0, FIRST_CHECK

    @property
    def dense_s(self) -> float | None:
        """Seconds of a dense round now; None while nothing was measured."""
        return None if self._speed is None else math.exp(self._speed)

    def width(self, w: int) -> float:
        """A target pass over ``w`` tokens, with what the host does after it."""
        return math.exp(self._width[min(w, MAX_WIDTH)])

    @property
    def step(self) -> float:
        """A step of the draft model."""
        return math.exp(self._step)

    def catch_up(self, n: int) -> float:
        """What it costs the draft model to read ``n`` tokens beside the one that its next step reads."""
        return max(0, n) * self._token

    @property
    def dense_is_due(self) -> bool:
        """Whether a round without a draft is needed to compare with."""
        return self._since_dense >= self._check

    def observe_target(self, width: int, seconds: float) -> None:
        """A round's pass over ``width`` tokens took this long, the host's part included."""
        width = min(width, MAX_WIDTH)
        known = self._known[width]
        seen = math.log(max(seconds, 1e-7)) - self._width[width]
        speed = seen if self._speed is None else self._speed
        surprise = min(max(seen - speed, -CLIP), CLIP)
        if width == 1:
            back = self._give_back(surprise)
            self._speed = speed - back + SPEED_RATE * (surprise + back)
            return
        moved = SPEED_RATE * surprise * known / (known + 2.0)
        self._speed = speed + moved
        self._borrowed += moved
        self._since_dense += 1
        self._width[width] += max(RATIO_RATE, 1.0 / (known + 2.0)) * surprise
        self._known[width] += 1
        for wider in range(width + 1, MAX_WIDTH + 1):
            if self._known[wider] == BEYOND:
                self._width[wider] = self._width[width] + math.log(wider / width)

    def observe_draft(self, steps: int, behind: int, seconds: float) -> None:
        """The draft model took ``steps`` steps in this time, having been ``behind`` by so many tokens."""
        if self._speed is None or steps <= 0:
            return
        ratio = seconds / math.exp(self._speed)
        known = steps * self.step
        if behind > 4 * steps:
            # Clipped: a pause of the machine, taken for the price of reading, would keep the draft model off for good.
            found = max(ratio - known, 0.0) / behind
            self._token += 0.2 * (min(found, 2.0 * self._token + 0.01) - self._token)
        else:
            error = math.log(max(ratio - self.catch_up(behind), 1e-6) / known)
            self._step += 2 * RATIO_RATE * min(max(error, -CLIP), CLIP)

    def curve(self) -> Curve:
        """What is known now, to be kept."""
        widths = tuple((w, self.width(w)) for w in range(1, MAX_WIDTH + 1) if self._known[w] > BETWEEN)
        return Curve(self.dense_s or 0.0, widths, self.step, self._token)

    def _give_back(self, surprise: float) -> float:
        """What wide passes have moved the speed by and a dense round takes back belonged to their ratios, for a machine
        that has become slower is slower for both. Returns how much it was, in nats."""
        back = math.copysign(min(abs(surprise), abs(self._borrowed)), self._borrowed)
        back = back if surprise * self._borrowed < 0.0 else 0.0
        self._width[2:] = [max(0.0, ratio + back) for ratio in self._width[2:]]
        if self._since_dense >= FIRST_CHECK and abs(surprise) < TRUE:
            self._check = min(2 * self._check, LAST_CHECK)
        elif abs(back) > WRONG:
            self._check = FIRST_CHECK
        self._borrowed, self._since_dense = 0.0, 0
        return back


def _interpolated(points: Sequence[tuple[int, float]], w: int) -> float:
    """Between points linearly, beyond the last in proportion: it is better to expect too much."""
    for (left, low), (right, high) in pairwise(points):
        if w <= right:
            return low + (high - low) * (w - left) / (right - left)
    right, high = points[-1]
    return high * w / right


@dataclass
class _Timer:
    """Times passes on a cache that holds a few tokens, and puts it back after each."""

    model: LanguageModel
    clock: Callable[[], float]
    held: int = HELD
    times: dict[int, list[float]] = field(default_factory=dict)

    def begin(self) -> None:
        self.held = min(HELD, self.model.n_batch)
        self.model.rewind(0)
        self.model.decode([0] * self.held, 0)
        self.time(1)
        self.times.clear()
        self.time(1)

    def time(self, width: int, rows: int | None = None) -> None:
        began = self.clock()
        self.model.decode([0] * width, width if rows is None else rows)
        self.times.setdefault(width, []).append(self.clock() - began)
        self.model.rewind(self.held)

    def widest(self) -> int:
        """Tokens that fit into one pass."""
        return min(self.model.n_batch, self.model.n_ctx - self.held)

    def of(self, width: int) -> float:
        return median(self.times[width])


def measure(
    target: LanguageModel,
    draft: LanguageModel | None,
    *,
    progress: Callable[[float], None] | None = None,
    clock: Callable[[], float] = perf_counter,
) -> Curve:
    """Time passes of both models, whose caches must be free to use; they are empty afterwards.

    A pass over one token comes before each wider one, so that a machine that slows down does not bend the curve. Widths
    that ``BUDGET_S`` leaves no time for are left out.
    """
    dense, drafting = _Timer(target, clock), None if draft is None else _Timer(draft, clock)
    for timer in (dense, drafting):
        if timer is not None:
            timer.begin()
    began = clock()
    widths = [width for width in WIDTHS if width <= dense.widest()]
    ratios: dict[int, list[float]] = {}
    steps: list[float] = []
    for repeat in range(REPEATS):
        for i, width in enumerate(widths):
            if clock() - began + dense.of(1) * (width + 1) > BUDGET_S and len(ratios) > 1:
                continue
            dense.time(1)
            one = dense.times[1][-1]
            dense.time(width)
            ratios.setdefault(width, []).append(dense.times[width][-1] / one)
            if drafting is not None:
                drafting.time(1)
                steps.append(drafting.times[1][-1] / one)
            if progress is not None:
                progress((repeat * len(widths) + i + 1) / (REPEATS * len(widths)))
    draft_step = draft_token = 0.0
    if drafting is not None:
        if steps:
            many = max(2, min(BATCH, drafting.widest()))
            drafting.time(many, 0)
            draft_step = median(steps)
            draft_token = max(0.0, drafting.of(many) - drafting.of(1)) / (many - 1) / dense.of(1)
        drafting.model.rewind(0)
    target.rewind(0)
    measured = ((1, 1.0), *sorted((width, max(1.0, median(found))) for width, found in ratios.items()))
    return Curve(dense.of(1), measured, draft_step, draft_token)
