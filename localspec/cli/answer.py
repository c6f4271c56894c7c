"""One reply as a command sees it: its text and figures, read from the event stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from localspec.events import Event, Finish, FinishReason, Round
from localspec.stats import Figures, Statistics

if TYPE_CHECKING:
    from localspec.config import Settings
    from localspec.session import Session


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply, whole or cut off."""

    text: str
    model: str
    draft: str | None
    """The draft model, or lookup where there is none; None for dense decoding."""
    seed: int
    verify: str
    adaptive: bool
    """Whether K adapted."""
    why: str
    """Why the last round drafted as much as it did; empty for a fixed K."""
    finish_reason: FinishReason
    figures: Figures

    @property
    def cancelled(self) -> bool:
        return self.finish_reason is FinishReason.CANCELLED

    def as_json(self) -> dict[str, object]:
        """The object of ``run --json``. Times are in milliseconds; null where there is nothing to divide by."""
        figures = self.figures
        return {
            "text": self.text,
            "model": self.model,
            "draft": self.draft,
            "seed": self.seed,
            "finish_reason": self.finish_reason.value,
            "usage": {"prompt_tokens": figures.prompt_tokens, "completion_tokens": figures.tokens},
            "timings": {
                "prompt_n": figures.prompt_tokens - figures.cached_tokens,
                "prompt_ms": _ms(figures.prompt_s),
                "predicted_n": figures.tokens,
                "predicted_ms": _ms(figures.decode_s),
                "predicted_per_second": figures.decode_per_second,
                "draft_n": figures.drafted,
                "draft_n_accepted": figures.accepted,
                "ttft_ms": None if figures.ttft_s is None else _ms(figures.ttft_s),
                "draft_ms": _ms(figures.draft_s),
                "verify_ms": _ms(figures.verify_s),
                "host_ms": _ms(figures.host_s),
            },
            "acceptance_rate": figures.acceptance_rate,
            "tokens_per_round": figures.tokens_per_round,
            "survival": list(figures.survival),
            "rounds": figures.rounds,
            "draft_max": figures.draft_max,
            "verify": self.verify,
        }

    def summary(self) -> str:
        """The pair, how the draft did and how fast it was, in one line."""
        figures = self.figures
        parts = [f"{figures.tokens} tokens ({self.finish_reason.value})"]
        if figures.acceptance_rate is not None:
            k = f"K auto, at most {figures.draft_max}" if self.adaptive else f"K = {figures.draft_max}"
            parts.append(f"acceptance {figures.acceptance_rate:.0%} ({k})")
        if figures.tokens_per_round is not None:
            parts.append(f"{figures.tokens_per_round:.2f} tokens/round")
        if figures.decode_per_second is not None:
            parts.append(f"{figures.decode_per_second:.1f} tokens/s")
        if figures.prompt_per_second is not None:
            parts.append(f"prompt {figures.prompt_per_second:.0f} tokens/s")
        if figures.ttft_s is not None:
            parts.append(f"TTFT {figures.ttft_s:.2f} s")
        if (busy := figures.draft_s + figures.verify_s + figures.host_s) > 0:
            shares = "/".join(f"{part / busy:.0%}" for part in (figures.draft_s, figures.verify_s, figures.host_s))
            parts.append(f"draft/verify/host {shares}")
        if self.adaptive and figures.speed_up is not None:
            parts.append(f"{figures.speed_up:.2f}x dense by estimate")
        parts.append(f"seed {self.seed}")
        if self.why:
            parts.append(self.why)
        return f"{self.model} + {self.draft or 'no draft'}: {', '.join(parts)}"


def read(
    events: Iterator[Event],
    session: Session,
    settings: Settings,
    *,
    write: Callable[[str], None],
    each: Callable[[Event], None],
    cancelled: Callable[[], bool],
) -> Answer:
    """Reads a reply to its end, or to the first event after which ``cancelled`` is true.

    ``write`` gets the text as it becomes final, ``each`` every event before its text is written.
    """
    statistics, pieces, why = Statistics(), [], ""
    reason = FinishReason.CANCELLED
    for event in events:
        statistics.add(event)
        each(event)
        if isinstance(event, Round):
            why = event.reason
        if isinstance(event, Round | Finish) and event.text:
            pieces.append(event.text)
            write(event.text)
        if isinstance(event, Finish):
            reason = event.reason
        elif cancelled():
            break
    close = getattr(events, "close", None)
    if close is not None:
        close()
    return Answer(
        text="".join(pieces),
        model=session.target.name,
        draft=_drafter(session, settings),
        seed=session.seed,
        verify=settings.verification,
        adaptive=settings.adaptive,
        why=why,
        finish_reason=reason,
        figures=statistics.total(),
    )


def _drafter(session: Session, settings: Settings) -> str | None:
    if not settings.drafts:
        return None
    if session.draft is not None and "draft-model" in settings.drafters:
        return session.draft.name
    return "lookup" if "lookup" in settings.drafters else None


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
