"""Ways to guess the next tokens. Each drafter is one module that implements ``Drafter``, and one line in ``KINDS``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from localspec.events import Round
from localspec.sampling import Distribution, Row
from localspec.verify import DraftToken

KINDS = ("draft-model", "lookup")

Process = Callable[[NDArray[np.float32], Sequence[int]], Distribution]
"""A row of the draft's logits and the path before it, to the distribution q to draw from."""

Draw = Callable[[Distribution, int], int]
"""A token from a distribution, at an offset into the round (0 for its first token)."""


GoOn = Callable[[int, Row, Distribution], bool]
"""Whether to draft the token at an offset into the round, from the row of logits and the distribution to draw from."""


def above(p_min: float, draft_min: int = 0) -> GoOn:
    """Go on while the best token is at least as likely as ``p_min``, and in any case for ``draft_min`` tokens."""
    if p_min <= 0.0:
        return lambda _position, _row, _q: True
    return lambda position, row, q: position < draft_min or _likelihood(row, q) >= p_min


def _likelihood(row: Row, q: Distribution) -> float:
    """Probability of the best token; at temperature 0, where q is a point, that of the model's own softmax."""
    if len(q.ids) > 1:
        return q.confidence
    return float(1.0 / np.exp(row - row.max()).sum(dtype=np.float64))


@dataclass(frozen=True, slots=True)
class DraftRules:
    """How a reply's draft tokens are drawn and when drafting stops."""

    process: Process
    draw: Draw
    is_eog: Callable[[int], bool]
    go_on: GoOn = lambda _position, _row, _q: True
    """Asked before a token is drawn."""
    another: Callable[[int], bool] = lambda _position: True
    """Asked before a step of a draft model for the token at an offset into the round."""
    kinds: tuple[str, ...] = KINDS
    """The drafters that may be used, of ``KINDS``."""
    adaptive: bool = False
    """Whether K follows costs and acceptance, up to the k that ``propose`` is given."""
    remaining: Callable[[], int | None] = lambda: None
    """Tokens that may still be emitted, None for no limit."""


@dataclass(frozen=True, slots=True)
class Remarks:
    """What a drafter has to say on its last proposal."""

    drafter: str = "none"
    reason: str = ""
    dense_s: float | None = None
    """Seconds that a round without a draft would have taken; None where it is not known."""


@dataclass(frozen=True, slots=True)
class TargetOutputs:
    """What one target pass computed, for drafters that read the target."""

    first_position: int
    tokens: tuple[int, ...]
    logits: NDArray[np.float32]
    """float32 ``[rows, n_vocab]`` after each of the last ``rows`` tokens; valid until the next pass."""


class Drafter(Protocol):
    """Proposes draft tokens. The decode loop calls begin, then prefill for each piece of the prompt, and then for each
    round propose, observe, accept, remarks and learn, in this order. It calls begin again, with all tokens so far, when
    the settings change in mid-reply."""

    def begin(self, prompt: Sequence[int], rules: DraftRules) -> None:
        """Start a reply to ``prompt``."""

    def prefill(self, tokens: Sequence[int]) -> None:
        """The target now holds ``tokens``, a prefix of the prompt; catch up with it."""

    def propose(self, tokens: Sequence[int], k: int) -> list[DraftToken]:
        """At most ``k`` draft tokens to follow ``tokens``, which is all that was committed so far.

        Whether to draft one more token may depend on what was drafted and on its distribution, never on the token
        that would be drawn: dropping a token because of its own value would bias the text.
        """

    def observe(self, outputs: TargetOutputs) -> None:
        """See what the target computed for the last committed token and the draft tokens."""

    def accept(self, n: int) -> None:
        """The first ``n`` proposed tokens were committed, and after them one token of the target's own."""

    def remarks(self) -> Remarks:
        """Who drafted the last proposal, and why as much."""

    def learn(self, event: Round) -> None:
        """See the round as its readers will, with its times."""
