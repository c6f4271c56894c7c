"""Ways to guess the next tokens. Each drafter is one module that implements ``Drafter``, and one line in ``KINDS``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from localspec.sampling import Distribution
from localspec.verify import DraftToken

KINDS = ("draft-model", "none")

Process = Callable[[NDArray[np.float32], Sequence[int]], Distribution]
"""A row of the draft's logits and the path before it, to the distribution q to draw from."""

Draw = Callable[[Distribution, int], int]
"""A token from a distribution, at an offset into the round (0 for its first token)."""


@dataclass(frozen=True, slots=True)
class DraftRules:
    """How a reply's draft tokens are drawn and when drafting stops."""

    process: Process
    draw: Draw
    is_eog: Callable[[int], bool]
    p_min: float = 0.0
    """Stop before drawing a token from a distribution whose largest probability is below this."""
    draft_min: int = 0
    """``p_min`` acts only after this many draft tokens of a round."""


@dataclass(frozen=True, slots=True)
class TargetOutputs:
    """What one target pass computed, for drafters that read the target."""

    first_position: int
    tokens: tuple[int, ...]
    logits: NDArray[np.float32]
    """float32 ``[rows, n_vocab]`` after each of the last ``rows`` tokens; valid until the next pass."""


class Drafter(Protocol):
    """Proposes draft tokens. The decode loop calls begin, then prefill for each piece of the prompt, and then for each
    round propose, observe and accept, in this order."""

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
