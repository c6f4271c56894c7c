"""Figures of a reply or a conversation, computed from the event stream and from nothing else."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from localspec.events import Event, Finish, Prefill, Round

WINDOW = 64
"""Rounds in the rolling figures."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Measured figures. Times are in seconds, rates per second; None where there is nothing to divide by."""

    rounds: int
    draft_max: int
    """The largest K of these rounds."""
    drafted: int
    accepted: int
    acceptance_rate: float | None
    """accepted / drafted, pooled. It falls with K at the same draft quality, so it is always shown with K."""
    tokens: int
    tokens_per_round: float | None
    """Mean acceptance length; it counts the target's own token of each round."""
    survival: tuple[float, ...]
    """s_j for j = 1..K: of the rounds that drafted, the share in which the first j draft tokens were all accepted."""
    alpha: float | None
    """Mean acceptance probability of a draft position given its path, rejected positions included."""
    prompt_tokens: int
    cached_tokens: int
    prompt_s: float
    prompt_per_second: float | None
    """Prompt tokens evaluated, cached ones not counted, over the time they took."""
    decode_s: float
    decode_per_second: float | None
    """Tokens over the time of their rounds, the first round included."""
    ttft_s: float | None
    """From the request to the first token, of the latest reply."""
    itl_p50_s: float | None
    itl_p99_s: float | None
    """Time between the deliveries of two successive rounds; a round delivers one token or more."""
    draft_s: float
    verify_s: float
    host_s: float
    context_used: int


@dataclass(frozen=True, slots=True)
class _Reply:
    """Prompt figures of one reply."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    prompt_s: float = 0.0


class Statistics:
    """Accumulates events of one reply or of several in a row."""

    def __init__(self, window: int = WINDOW) -> None:
        self._rounds: list[Round] = []
        self._gaps: list[float] = []
        self._window = window
        self._recent_gaps: deque[float] = deque(maxlen=window)
        self._prompts: list[_Reply] = []
        self._last_seconds: float | None = None
        self._ttft_s: float | None = None

    def add(self, event: Event) -> None:
        """Take the next event. A Prefill after a Round or a Finish begins a new reply."""
        if isinstance(event, Prefill):
            self._add_prefill(event)
        elif isinstance(event, Round):
            self._add_round(event)
        elif isinstance(event, Finish):
            self._last_seconds = None

    def total(self) -> Figures:
        """Figures over every round since the start."""
        return self._figures(self._rounds, self._gaps)

    def rolling(self) -> Figures:
        """Figures over the last rounds, with the prompt figures of the latest reply."""
        return self._figures(self._rounds[-self._window :], list(self._recent_gaps), latest_prompt_only=True)

    def _add_prefill(self, event: Prefill) -> None:
        if not self._prompts or self._prompts[-1] == _Reply() or event.done == event.cached:
            self._last_seconds = None
        if event.done == event.cached:
            self._prompts.append(_Reply())
        self._prompts[-1:] = [_Reply(event.total, event.cached, event.seconds)]

    def _add_round(self, event: Round) -> None:
        if event.index == 0:
            self._ttft_s = event.seconds
        elif self._last_seconds is not None:
            gap = event.seconds - self._last_seconds
            self._gaps.append(gap)
            self._recent_gaps.append(gap)
        self._last_seconds = event.seconds
        self._rounds.append(event)

    def _figures(self, rounds: list[Round], gaps: list[float], *, latest_prompt_only: bool = False) -> Figures:
        prompts = self._prompts[-1:] if latest_prompt_only else self._prompts
        prompt_tokens = sum(p.prompt_tokens for p in prompts)
        cached = sum(p.cached_tokens for p in prompts)
        prompt_s = sum(p.prompt_s for p in prompts)
        drafted, accepted = sum(r.drafted for r in rounds), sum(r.accepted for r in rounds)
        tokens = sum(len(r.tokens) for r in rounds)
        draft_s, verify_s, host_s = (sum(getattr(r, name) for r in rounds) for name in ("draft_s", "verify_s", "host_s"))
        decode_s = draft_s + verify_s + host_s
        return Figures(
            rounds=len(rounds),
            draft_max=max((r.draft_max for r in rounds), default=0),
            drafted=drafted,
            accepted=accepted,
            acceptance_rate=_ratio(accepted, drafted),
            tokens=tokens,
            tokens_per_round=_ratio(tokens, len(rounds)),
            survival=survival(rounds),
            alpha=_mean(alpha for r in rounds for alpha in r.alphas),
            prompt_tokens=prompt_tokens,
            cached_tokens=cached,
            prompt_s=prompt_s,
            prompt_per_second=_ratio(prompt_tokens - cached, prompt_s) if prompt_tokens > cached else None,
            decode_s=decode_s,
            decode_per_second=_ratio(tokens, decode_s),
            ttft_s=self._ttft_s,
            itl_p50_s=_percentile(gaps, 50),
            itl_p99_s=_percentile(gaps, 99),
            draft_s=draft_s,
            verify_s=verify_s,
            host_s=host_s,
            context_used=rounds[-1].context_used if rounds else 0,
        )


def survival(rounds: Iterable[Round]) -> tuple[float, ...]:
    """s_1..s_K over the rounds that drafted at least one token; a round that drafted fewer than j counts as not
    surviving to j, because its tokens per round are what they are: 1 + s_1 + ... + s_K."""
    drafting = [r for r in rounds if r.drafted > 0]
    if not drafting:
        return ()
    k = max(r.draft_max for r in drafting)
    return tuple(sum(r.accepted >= j for r in drafting) / len(drafting) for j in range(1, k + 1))


def _ratio(numerator: float, denominator: float) -> float | None:
    return numerator / denominator if denominator > 0 else None


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return sum(found) / len(found) if found else None


def _percentile(values: list[float], q: float) -> float | None:
    return float(np.percentile(values, q)) if values else None
