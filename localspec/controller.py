"""How many tokens to draft, with which drafter, and when not to: optimal stopping on learned acceptance and costs.

A round that drafts k tokens gives 1 + R_1 + ... + R_k tokens in the mean, R_j being the chance that the first j are all
accepted, and costs v(k + 1) plus the drafting, in dense rounds. Over many rounds the best rate of tokens per cost is
reached by taking in each round the k with the largest R_1 + ... + R_k - rate * cost (the renewal-reward theorem), where
the rate is the one that is being reached, and never below the 1 of dense decoding. Every decision is taken before a
token is drawn, from what is known of its distribution, so that the text keeps its law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from localspec.acceptance import Acceptance
from localspec.costs import Costs
from localspec.drafters.lookup import PRIOR as LOOKUP_PRIOR
from localspec.drafters.lookup import Match
from localspec.tasks import Task

MOST = 24
"""The most draft tokens that are considered for a round."""
AHEAD = 8
"""Tokens that the draft model's plan looks ahead."""
MARGIN = 0.1
"""What drafting costs is taken for this share more than it is estimated: of many estimates the best is flattered."""
HORIZON = 160
"""Tokens over which it must pay for the draft model to catch up, if the reply has no other limit."""
PROBE_SHARE = 0.015
"""Share of the time that may be lost by trying a draft model that does not pay."""
INTRODUCTION = 12
"""Rounds in which a draft model is tried whatever it costs, the first time that its pair is used."""
INTRODUCTION_COST = 16.0
"""The most that it may cost it to catch up for that, in dense rounds."""
FIRST_PROBE, LAST_PROBE = 24, 64
"""Rounds before it is tried again; twice as many after each failure, up to the second number."""
OPTIMISM = 0.95
"""If not even this acceptance paid, the draft model is not tried."""
RATE_MEMORY = 0.96
CLASSES = (-1.0, 0.0, 1.0, 2.0, 3.0, 4.5, 6.5)
"""Bounds, in log-odds, between the classes of a draft model's confidence."""
POSITIONS = 3
"""Classes of the position in a round: the first, the two after it, the others."""
N_CLASSES = len(CLASSES) + 1

# Acceptance of common pairs by task at the first position, to begin with; measured with the default pair.
TASK_LEVELS = {
    Task.CHAT: 0.6,
    Task.CODE: 0.8,
    Task.EDIT: 0.9,
    Task.MATH: 0.8,
    Task.REASONING: 0.7,
    Task.SUMMARY: 0.65,
    Task.QA: 0.65,
    Task.TRANSLATION: 0.65,
    Task.EXTRACTION: 0.8,
    Task.WRITING: 0.55,
}


def lookup_acceptance() -> Acceptance:
    """What is believed of lookups before anything was seen."""
    return Acceptance(LOOKUP_PRIOR, sum(LOOKUP_PRIOR) / len(LOOKUP_PRIOR))


def model_acceptance(task: Task) -> Acceptance:
    """What is believed of a draft model before anything was seen: that it knows how sure it may be."""
    centres = (CLASSES[0] - 1.0, *((a + b) / 2 for a, b in pairwise(CLASSES)), CLASSES[-1] + 1.0)
    by_confidence = [0.97 / (1.0 + math.exp(-0.8 * centre)) for centre in centres]
    return Acceptance(by_confidence * POSITIONS, TASK_LEVELS[task])


def model_feature(position: int, log_odds: float) -> int:
    """Class of the token at ``position`` (0 for a round's first) of which the draft model is so sure."""
    return _place(position) * N_CLASSES + sum(log_odds >= bound for bound in CLASSES)


def _known(acceptance: Acceptance) -> str:
    return "accepted" if acceptance.seen else "expected"


def _place(position: int) -> int:
    return 0 if position == 0 else 1 if position < 3 else 2


@dataclass(frozen=True, slots=True)
class Plan:
    """How many tokens to draft at most, what that gains over a dense round, and why."""

    k: int
    gain: float
    """In tokens, at the rate in force."""
    reason: str
    trial: bool = False
    """Whether it is drafted to learn rather than to gain."""


class Controller:
    """Decides for one reply after another; ``costs`` and the two ``Acceptance`` are learned from every round."""

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self.lookup = lookup_acceptance()
        self.model = model_acceptance(Task.CHAT)
        self._tokens = self._cost = 0.0
        self._elapsed = self._lost = 0.0
        self._since_probe = 0
        self._patience = FIRST_PROBE
        self._reach, self._promise = 1.0, 0.0
        self._introductions = 0
        self._trial = False
        self._mixed: list[list[tuple[float, float]]] | None = None

    def begin(self, lookup: Acceptance, model: Acceptance, *, introduce: bool = False) -> None:
        """Start a reply with what is known for its task; a text of another kind deserves another try.

        ``introduce``: nothing is known of this pair yet.
        """
        self._introductions = INTRODUCTION if introduce else 0
        if model is not self.model:
            self._patience = FIRST_PROBE
            self._tokens = self._cost = 0.0
        self.lookup, self.model = lookup, model
        model.begin()

    @property
    def rate(self) -> float:
        """Tokens per dense round lately, never below that of dense decoding."""
        return max(1.0, self._tokens / self._cost) if self._cost > 0 else 1.0

    def lookup_plan(self, match: Match | None, room: int) -> Plan:
        """How far to follow a match."""
        if match is None:
            return Plan(0, 0.0, "no earlier text matches")
        reach, expected, best = 1.0, 0.0, Plan(0, 0.0, "")
        for k in range(1, min(room, MOST) + 1):
            reach *= self.lookup.cautious(match.feature(k - 1))
            expected += reach
            gain = expected - self._price(self.costs.width(k + 1) - 1.0)
            if gain > best.gain:
                best = Plan(k, gain, "")
            if reach < 0.05:
                break
        first = self.lookup.probability(match.feature(0))
        verdict = f"K {best.k}" if best.k else "not worth a wider pass"
        return Plan(best.k, best.gain, f"{match.length} tokens match, {first:.2f} {_known(self.lookup)}: {verdict}")

    def model_plan(self, behind: int, room: int, remaining: int | None, *, may_try: bool = True) -> Plan:
        """Whether to start the draft model, which has ``behind`` tokens to read first.

        ``may_try``: whether it may be drafted to learn, which is not the time for it where something better is at hand.
        """
        self._reach, self._mixed, self._trial = 1.0, None, False
        level = self.model.level
        gain, k = self._future(0, 1.0, room)
        why = f"draft costs {self.costs.step:.2f} of a target step, {level:.2f} {_known(self.model)}"
        if gain > 0 and self._pays_to_catch_up(gain / (1.0 + k * level), behind, remaining):
            return Plan(min(room, MOST), gain, f"{why}: K {k}")
        if may_try and self._introductions > 0 and self.costs.catch_up(behind) <= INTRODUCTION_COST:
            self._introductions -= 1
            self._trial = True
            return Plan(min(2, room), 0.0, "this draft is new here: trying it", trial=True)
        if may_try and self._may_probe(behind, room):
            self._since_probe, self._trial = 0, True
            return Plan(min(2, room), 0.0, f"{why}: trying again", trial=True)
        if gain > 0:
            return Plan(0, 0.0, f"it would not pay for the draft to read {behind} tokens first: off")
        return Plan(0, 0.0, f"{why}: off")

    def goes_on(self, position: int, feature: int) -> bool:
        """Whether the token at ``position`` is worth a wider pass, all before it being drafted."""
        if self._trial:
            return True
        reach = self._reach * self.model.probability(feature)
        promise = self._future(position + 1, reach)[0]
        if reach + promise <= self._price(self._wider(position + 1)):
            self.model.pass_over(feature)
            return False
        self._reach, self._promise = reach, promise
        return True

    def another(self, _position: int) -> bool:
        """Whether, a token having been found worth it, so is a step of the draft model to see what it puts next."""
        return self._trial or self._promise > 0.0

    def learn_time(self, width: int, target_s: float, tokens: int) -> None:
        """A round of the target gave ``tokens`` tokens for this time, verification included."""
        cost = self.costs.width(width)
        self.costs.observe_target(width, target_s)
        self._account(tokens, cost)

    def learn_draft(self, steps: int, behind: int, seconds: float, accepted: int, plan: Plan) -> None:
        """What the draft model's part of a round took, and how much of it was used."""
        self.costs.observe_draft(steps, behind, seconds)
        cost = steps * self.costs.step + self.costs.catch_up(behind)
        self._account(0, cost)
        if plan.trial and not self._introductions:
            self._lost += max(0.0, cost + self._wider_by(steps) - accepted)
            if accepted == steps:
                # The next try comes at once, so that a text that has changed is followed soon.
                self._patience = 0
            else:
                self._patience = FIRST_PROBE if accepted else min(max(2 * self._patience, FIRST_PROBE), LAST_PROBE)

    def _account(self, tokens: int, cost: float) -> None:
        forget = RATE_MEMORY if tokens else 1.0
        self._tokens = forget * self._tokens + tokens
        self._cost = forget * self._cost + cost
        self._elapsed += cost
        self._since_probe += tokens > 0

    def _price(self, cost: float) -> float:
        """What ``cost`` would have earned otherwise, in tokens."""
        return (1.0 + MARGIN) * self.rate * cost

    def _wider(self, k: int) -> float:
        """What the k-th draft token adds to the target's pass; over steps of the curve, which rises unevenly."""
        return self.costs.width(k + 1) - self.costs.width(k)

    def _wider_by(self, k: int) -> float:
        return self.costs.width(k + 1) - 1.0

    def _future(self, position: int, reach: float, room: int = MOST) -> tuple[float, int]:
        """The most that drafting on from ``position`` promises, in tokens, and the K at which it does; 0 for nothing.

        Each step costs a step of the draft model, shows how sure it is of a token, and leaves the choice to draft it.
        ``reach`` is the chance that all before it are accepted.
        """
        step, getting_here = self._price(self.costs.step), 1.0
        total, best = 0.0, (0.0, position)
        for k in range(position, min(position + AHEAD, room, MOST)):
            wider = self._price(self._wider(k + 1))
            drafted = accepted = 0.0
            for share, p in self._mix(k):
                if reach * p > wider:
                    drafted += share
                    accepted += share * p
            total += getting_here * (reach * accepted - drafted * wider - step)
            if total > best[0]:
                best = (total, k + 1)
            if drafted * getting_here < 0.02:
                break
            getting_here *= drafted
            reach *= accepted / drafted
        return best

    def _mix(self, position: int) -> list[tuple[float, float]]:
        """How often each class of confidence is met, and its acceptance at ``position``."""
        if self._mixed is None:
            shares = [sum(self.model.frequency[c::N_CLASSES]) for c in range(N_CLASSES)]
            self._mixed = [
                [(share, self.model.probability(place * N_CLASSES + c)) for c, share in enumerate(shares)]
                for place in range(POSITIONS)
            ]
        return self._mixed[_place(position)]

    def _could_pay(self, room: int) -> bool:
        """Whether the draft model would pay if it were nearly always right."""
        expected, reach = 0.0, 1.0
        for k in range(1, min(room, AHEAD) + 1):
            reach *= OPTIMISM
            expected += reach
            if expected > self._price(self._wider_by(k) + k * self.costs.step):
                return True
        return False

    def _pays_to_catch_up(self, gain_per_token: float, behind: int, remaining: int | None) -> bool:
        tokens = HORIZON if remaining is None else min(HORIZON, remaining)
        return gain_per_token * tokens >= self._price(self.costs.catch_up(behind))

    def _may_probe(self, behind: int, room: int) -> bool:
        if self._since_probe < self._patience or not self._could_pay(room):
            return False
        cost = self.costs.catch_up(behind) + 2 * self.costs.step + self._wider_by(min(2, room))
        return self._lost + cost <= PROBE_SHARE * self._elapsed
