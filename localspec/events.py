"""The one event stream: what the decode loop yields and every reader (CLI, TUI, statistics) consumes.

A reply is ``Prefill*`` (progress over the prompt), then ``Round*``, then exactly one ``Finish``. All are immutable.
Closing the generator cancels the reply; no ``Finish`` follows then, and what was yielded so far is what was decoded.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Origin(StrEnum):
    """Where an emitted token came from."""

    DRAFT = "draft"
    """A draft token that the target accepted."""
    CORRECTION = "correction"
    """The target's token in place of a rejected draft token."""
    BONUS = "bonus"
    """The target's extra token after every draft token of the round was accepted."""
    DENSE = "dense"
    """A token of a round without a draft."""


class FinishReason(StrEnum):
    """Why a reply ended; the words are OpenAI's where OpenAI has one."""

    STOP = "stop"
    """An end-of-generation token or a stop string."""
    LENGTH = "length"
    """``n_predict`` tokens, or the context is full."""
    CANCELLED = "cancelled"
    """The reader stopped the reply; set by readers, never by the decode loop."""


@dataclass(frozen=True, slots=True)
class Token:
    """One emitted token."""

    id: int
    text: str
    """The token's own piece, with bytes that are not whole UTF-8 replaced; for display. ``Round.text`` is the text."""
    origin: Origin
    p: float
    """Probability under the processed target distribution, 1.0 at temperature 0."""
    q: float | None
    """Probability of the draft token at this position under the draft distribution; None without a draft."""


@dataclass(frozen=True, slots=True)
class Prefill:
    """Progress over the prompt."""

    done: int
    """Prompt tokens in the KV cache so far, cached ones included."""
    total: int
    """Prompt tokens in all."""
    cached: int
    """Prompt tokens that were reused from the KV cache."""
    seconds: float
    """Since the request began."""


@dataclass(frozen=True, slots=True)
class Round:
    """One draft-and-verify round."""

    index: int
    """0-based within the reply."""
    tokens: tuple[Token, ...]
    """What was emitted, at least one; accepted drafts first, then at most one correction, bonus or dense token."""
    text: str
    """Text that became final in this round: whole UTF-8 characters, never part of a stop string. May be empty."""
    draft_max: int
    """K: the most draft tokens this round was allowed; where K is adaptive, as many as it drafted."""
    drafted: int
    """Draft tokens proposed, 0..K."""
    accepted: int
    """Draft tokens accepted by verification, 0..drafted, before a stop cut the round short."""
    rejected: tuple[Token, ...]
    """Draft tokens that were not accepted, in order."""
    alphas: tuple[float, ...]
    """Acceptance probability of each verified position given its path, whether or not it was accepted."""
    draft_s: float
    """Seconds in the drafter."""
    verify_s: float
    """Seconds in the target's forward pass."""
    host_s: float
    """Seconds in everything else of the round: distributions, verification, detokenizing."""
    seconds: float
    """Since the request began, at the end of the round."""
    context_used: int
    """Tokens in the conversation after the round, prompt included."""
    drafter: str = "none"
    """What proposed the draft tokens, one of ``drafters.KINDS``; none where nothing was drafted."""
    dense_s: float | None = None
    """Seconds that a round without a draft would take now, by the cost model; None while it knows none."""
    reason: str = ""
    """Why as many tokens were drafted as were, in a few words; empty where K is fixed."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The last event of a reply that was not cancelled."""

    reason: FinishReason
    text: str
    """Text not yet delivered by a round: the held-back tail. Usually empty."""
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    """Since the request began."""
    stopped_by: str | None = None
    """The stop string or the text of the end-of-generation token; None for other reasons."""


Event = Prefill | Round | Finish
