"""What each drafter has earned: seconds that its rounds saved and wasted, against dense decoding of the same tokens."""

from __future__ import annotations

from dataclasses import dataclass

from localspec.events import Round


@dataclass(frozen=True, slots=True)
class Account:
    """Rounds of one drafter. Seconds are against the cost model's estimate of a dense round at that time."""

    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    saved_s: float = 0.0
    """By rounds that were faster than dense decoding of their tokens."""
    wasted_s: float = 0.0
    """By rounds that were slower."""

    def plus(self, event: Round) -> Account:
        """With one more round."""
        saved = 0.0
        if event.dense_s is not None:
            saved = len(event.tokens) * event.dense_s - (event.draft_s + event.verify_s + event.host_s)
        return Account(
            self.rounds + 1,
            self.drafted + event.drafted,
            self.accepted + event.accepted,
            self.saved_s + max(0.0, saved),
            self.wasted_s + max(0.0, -saved),
        )

    @property
    def acceptance_rate(self) -> float | None:
        return self.accepted / self.drafted if self.drafted else None


def book(accounts: dict[str, Account], event: Round) -> None:
    """Add a round to the account of its drafter; rounds that drafted nothing are on no account."""
    if event.drafted:
        accounts[event.drafter] = accounts.get(event.drafter, Account()).plus(event)
