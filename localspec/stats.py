"""Figures of a reply or a conversation, computed from the event stream and from nothing else."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from localspec.events import Event, Prefill, Round
from localspec.ledger import Account, book

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
    """Wall time from the end of the prompt to the last round, including what the reader of the events spent."""
    decode_per_second: float | None
    """Tokens over ``decode_s``."""
    ttft_s: float | None
    """From the request to the first token, of the latest reply."""
    itl_p50_s: float | None
    itl_p99_s: float | None
    """Time between the deliveries of two successive rounds; a round delivers one token or more."""
    draft_s: float
    verify_s: float
    host_s: float
    context_used: int
    dense_per_second: float | None
    """Tokens per second that dense decoding would have made of the same rounds: by the cost model where they drafted,
    as it was where they did not; None without a cost model."""
    speed_up: float | None
    """Time that dense decoding would have taken over the time that these rounds took."""
    accounts: Mapping[str, Account]
    """What each drafter did and what it saved and wasted."""


class _Tally:
    """Sums over rounds."""

    def __init__(self) -> None:
        self.rounds = self.drafting = self.draft_max = self.drafted = self.accepted = self.tokens = 0
        self.alphas, self.alpha_sum = 0, 0.0
        self.draft_s = self.verify_s = self.host_s = self.decode_s = 0.0
        self.survived: list[int] = []
        self.gaps: list[float] = []
        self.context_used = 0
        self.estimated_tokens, self.dense_s, self.estimated_s = 0, 0.0, 0.0
        self.accounts: dict[str, Account] = {}

    def add(self, event: Round, seconds: float) -> None:
        self.rounds += 1
        self.draft_max = max(self.draft_max, event.draft_max)
        self.drafted += event.drafted
        self.accepted += event.accepted
        self.tokens += len(event.tokens)
        self.alphas += len(event.alphas)
        self.alpha_sum += sum(event.alphas)
        self.draft_s += event.draft_s
        self.verify_s += event.verify_s
        self.host_s += event.host_s
        self.decode_s += seconds
        if event.index > 0:
            self.gaps.append(seconds)
        if event.drafted > 0:
            self.drafting += 1
            self.survived.extend([0] * (event.draft_max - len(self.survived)))
            for j in range(event.accepted):
                self.survived[j] += 1
        self.context_used = event.context_used
        if event.dense_s is not None:
            self.estimated_tokens += len(event.tokens)
            # A round that drafted nothing is dense itself, whatever the cost model thinks such a round takes.
            each = event.dense_s if event.drafted else event.verify_s + event.host_s
            self.dense_s += len(event.tokens) * each
            self.estimated_s += event.draft_s + event.verify_s + event.host_s
        book(self.accounts, event)

    def figures(self, prompts: list[tuple[float, Prefill]], ttft_s: float | None) -> Figures:
        prompt_tokens = sum(prompt.total for _, prompt in prompts)
        cached = sum(prompt.cached for _, prompt in prompts)
        prompt_s = sum(prompt.seconds - began for began, prompt in prompts)
        return Figures(
            rounds=self.rounds,
            draft_max=self.draft_max,
            drafted=self.drafted,
            accepted=self.accepted,
            acceptance_rate=_ratio(self.accepted, self.drafted),
            tokens=self.tokens,
            tokens_per_round=_ratio(self.tokens, self.rounds),
            survival=tuple(count / self.drafting for count in self.survived),
            alpha=_ratio(self.alpha_sum, self.alphas),
            prompt_tokens=prompt_tokens,
            cached_tokens=cached,
            prompt_s=prompt_s,
            prompt_per_second=_ratio(prompt_tokens - cached, prompt_s) if prompt_tokens > cached else None,
            decode_s=self.decode_s,
            decode_per_second=_ratio(self.tokens, self.decode_s),
            ttft_s=ttft_s,
            itl_p50_s=_percentile(self.gaps, 50),
            itl_p99_s=_percentile(self.gaps, 99),
            draft_s=self.draft_s,
            verify_s=self.verify_s,
            host_s=self.host_s,
            context_used=self.context_used,
            dense_per_second=_ratio(self.estimated_tokens, self.dense_s),
            speed_up=_ratio(self.dense_s, self.estimated_s),
            accounts=dict(self.accounts),
        )


class Statistics:
    """Accumulates events of one reply or of several in a row."""

    def __init__(self, window: int = WINDOW) -> None:
        self._total = _Tally()
        self._recent: deque[tuple[Round, float]] = deque(maxlen=window)
        # A reply reads a second prompt when it drops turns, so each has its own beginning.
        self._prompts: list[tuple[float, Prefill]] = []
        self._latest = 0.0
        self._ttft_s: float | None = None

    def add(self, event: Event) -> None:
        """Take the next event of the stream."""
        if isinstance(event, Prefill):
            # The first progress event of a prompt has evaluated nothing yet; the later ones replace it.
            if event.done > event.cached and self._prompts:
                began, _ = self._prompts[-1]
                self._prompts[-1] = (began, event)
            else:
                self._prompts.append((event.seconds, event))
        elif isinstance(event, Round):
            if event.index == 0:
                self._ttft_s = event.seconds
                self._latest = self._prompts[-1][1].seconds if self._prompts else 0.0
            seconds = event.seconds - self._latest
            self._total.add(event, seconds)
            self._recent.append((event, seconds))
        self._latest = event.seconds

    def total(self) -> Figures:
        """Figures over everything so far."""
        return self._total.figures(self._prompts, self._ttft_s)

    def rolling(self) -> Figures:
        """Figures over the last rounds, with the prompt figures of the latest reply."""
        tally = _Tally()
        for event, seconds in self._recent:
            tally.add(event, seconds)
        return tally.figures(self._prompts[-1:], self._ttft_s)


def _ratio(numerator: float, denominator: float) -> float | None:
    return numerator / denominator if denominator > 0 else None


def _percentile(values: list[float], q: float) -> float | None:
    return float(np.percentile(values, q)) if values else None
