"""No draft: every round is dense, one token from one target pass."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.drafters import DraftRules, Remarks, TargetOutputs
from localspec.events import Round
from localspec.verify import DraftToken


class NoDraft:
    """Proposes nothing."""

    def begin(self, prompt: Sequence[int], rules: DraftRules) -> None: ...

    def prefill(self, tokens: Sequence[int]) -> None: ...

    def propose(self, tokens: Sequence[int], k: int) -> list[DraftToken]:
        return []

    def observe(self, outputs: TargetOutputs) -> None: ...

    def accept(self, n: int) -> None: ...

    def remarks(self) -> Remarks:
        return Remarks()

    def learn(self, event: Round) -> None: ...
