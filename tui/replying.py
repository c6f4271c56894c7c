"""The reply that streams: the decoding thread's reports go to the chat, the instruments and the conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from textual.worker import Worker

from localspec.events import Event, Finish, Prefill, Round
from localspec.store import State
from localspec.thinking import ThoughtCount

from .chat import Kind
from .meter import Meter
from .pace import Pace
from .worker import Decoder, Ended, Loaded, LoadFailed, Loading, Report, Streamed

if TYPE_CHECKING:
    from localspec.chat_template import Message

    from .app import LocalspecApp
    from .chat import ReplyView


class Phase(StrEnum):
    """What the decoding thread is doing."""

    LOADING = "loading"
    READY = "ready"
    REPLYING = "replying"
    FAILED = "failed"


class Replying:
    """Watches the decoding thread while it loads or replies, and passes on what it reports."""

    def __init__(self, app: LocalspecApp, decoder: Decoder) -> None:
        self.phase = Phase.LOADING
        self.meter = Meter()
        self.decoder = decoder
        self.view: ReplyView | None = None
        """The reply that streams."""
        self._app = app
        self._worker: Worker[None] | None = None
        self._thought = ThoughtCount()

    def begin(self, view: ReplyView, messages: Sequence[Message]) -> None:
        """Ask for the reply that ``view`` shows."""
        self.view = view
        self.phase = Phase.REPLYING
        self.meter.begin_reply()
        self._thought = ThoughtCount()
        self._app.show_state("replying")
        self.decoder.submit(messages, self._app.settings)
        self.watch()

    def stop(self) -> None:
        """Stop the reply within one round."""
        if self.phase is Phase.REPLYING:
            self.decoder.cancel()
            self._app.show_state("stopping")

    async def leave(self) -> None:
        """Keep what there is of the reply: the app is about to end."""
        if self.phase is Phase.REPLYING:
            self.decoder.cancel()
            await self._take(self.decoder.drain())
        if self.view is not None:
            self._app.conversation.finish(self.view.turn, State.CANCELLED, self.meter.reply_figures())

    def watch(self) -> None:
        """Take over reports until the decoding thread has nothing more to do."""
        if self._worker is None or self._worker.is_finished:
            self._worker = self._app.run_worker(self._pump())

    async def _pump(self) -> None:
        pace = Pace()
        while self.phase in (Phase.LOADING, Phase.REPLYING):
            await asyncio.sleep(pace.pause())
            await self._take(self.decoder.drain())

    async def _take(self, reports: list[Report]) -> None:
        """Apply reports; the text of a reply is added at once for all of them."""
        events = [report.event for report in reports if isinstance(report, Streamed)]
        if events:
            await self._stream(events)
        for report in reports:
            if isinstance(report, Loading):
                self._app.show_loading(report.progress)
            elif isinstance(report, Loaded):
                self.phase = Phase.READY
                self.meter.load(report.target, report.draft, report.n_ctx)
                await self._app.loaded(report)
            elif isinstance(report, LoadFailed):
                self.phase = Phase.FAILED
                self._app.load_failed(report.sentence)
            elif isinstance(report, Ended):
                await self._ended(report)

    async def _stream(self, events: list[Event]) -> None:
        if self.view is None:
            return
        for event in events:
            self.meter.add(event)
            if isinstance(event, Round):
                self._thought.add(event)
        self.view.turn.thought_tokens = self._thought.tokens
        text = "".join(event.text for event in events if isinstance(event, Round | Finish))
        last = events[-1]
        if isinstance(last, Prefill) and last.done < last.total:
            self._app.show_state(f"reading the prompt {last.done} of {last.total}")
        elif isinstance(last, Round):
            self._app.show_state("replying")
        if text:
            self._app.conversation.grow(self.view.turn, text)
        with self._app.batch_update():
            await self.view.append(text)
            self._app.show_readings()

    async def _ended(self, ended: Ended) -> None:
        view, self.view = self.view, None
        self.phase = Phase.READY
        if view is not None:
            state = State.CANCELLED if ended.cancelled else State.INTERRUPTED if ended.error else State.COMPLETE
            figures = {**self.meter.reply_figures(), "seed": ended.seed}
            self._app.conversation.finish(view.turn, state, figures)
            view.show_figures()
            if ended.error:
                self._app.tell(ended.error, Kind.ERROR)
                if not view.turn.reply:
                    self._app.give_back(view.turn.prompt)
        self._app.show_readings(final=True)
        self._app.show_state("ready")
        await self._app.reply_over()
