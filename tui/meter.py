"""From the event stream to the readings of the instruments."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from localspec.events import Event, Round
from localspec.stats import Statistics

from .panel import NO_FIGURES, Readings

if TYPE_CHECKING:
    from localspec.session import ModelInfo

LATEST = 64
"""Rounds whose accepted drafts are shown one by one."""
TOTAL_S = 0.5
"""The figures of the whole conversation are computed anew this often, in seconds: they cost more as it grows."""


class Meter:
    """Feeds every event to the statistics of the reply and of the conversation."""

    def __init__(self) -> None:
        self._reply = Statistics()
        self._conversation = Statistics()
        self._latest: deque[float] = deque(maxlen=LATEST)
        self._totalled = 0.0
        self._readings = Readings()

    def load(self, target: ModelInfo, draft: ModelInfo | None, n_ctx: int) -> None:
        """The pair is in memory."""
        self._readings = replace(
            self._readings,
            n_ctx=n_ctx,
            target_bytes=target.memory_bytes,
            draft_bytes=None if draft is None else draft.memory_bytes,
        )

    def next_draft_max(self, draft_max: int | None) -> None:
        """K of the next reply, 0 without a draft, None where it adapts."""
        self._readings = replace(self._readings, draft_max=draft_max)

    def begin_conversation(self) -> None:
        """Forget all rounds."""
        self._reply, self._conversation = Statistics(), Statistics()
        self._latest.clear()
        self._readings = replace(self._readings, now=NO_FIGURES, total=NO_FIGURES, latest=())

    def begin_reply(self) -> None:
        """The next events are of a new reply."""
        self._reply = Statistics()
        self._latest.clear()

    def add(self, event: Event) -> None:
        self._reply.add(event)
        self._conversation.add(event)
        if isinstance(event, Round):
            self._readings = replace(self._readings, reason=event.reason)
        if isinstance(event, Round) and event.drafted:
            self._latest.append(event.accepted / event.draft_max)

    def readings(self, *, final: bool = False) -> Readings:
        """What to show now; ``final`` brings every figure up to the last event."""
        now = time.monotonic()
        if final or now - self._totalled > TOTAL_S:
            self._totalled = now
            self._readings = replace(self._readings, total=self._conversation.total())
        self._readings = replace(self._readings, now=self._reply.rolling(), latest=tuple(self._latest))
        return self._readings

    def reply_figures(self) -> dict[str, Any]:
        """The figures of the whole reply, to be kept with it."""
        return asdict(self._reply.total())
