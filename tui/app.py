"""The app: it wires the chat, the instruments and the decoding thread together."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.css.query import NoMatches
from textual.screen import Screen

from localspec import paths
from localspec.errors import ConfigError, StoreError
from localspec.events import Event, Finish, Prefill, Round
from localspec.store import State, Store

from . import commands, theme
from .chat import ChatLog, Kind, ReplyView
from .composer import Composer
from .conversation import Conversation
from .help import HelpScreen
from .lines import Line, Welcome, hints, loading_line
from .meter import Meter
from .pace import Pace
from .panel import Panel, Strip
from .picker import Picker
from .rows import prompt_rows, session_rows
from .worker import Decoder, Ended, Loaded, LoadFailed, Loading, Report, Streamed

if TYPE_CHECKING:
    from localspec.config import Config, Settings
    from localspec.session import LoadProgress, Session

    from .worker import OpenSession

NEXT = {"system": "message"}
"""What is fixed for a reply; every other setting acts on the next round of the one that streams."""
QUIT_WINDOW_S = 2.0
"""A second Ctrl+C within this time quits."""
CLOSE_S = 5.0
"""How long to wait at the end for the decoding thread to free the models."""


class Phase(StrEnum):
    """What the decoding thread is doing."""

    LOADING = "loading"
    READY = "ready"
    REPLYING = "replying"
    FAILED = "failed"


class LocalspecApp(App[int]):
    """A chat with one pair of models.

    ``open_session`` is called on the decoding thread. ``database`` None keeps nothing on disk. ``prompt`` is sent as
    soon as the models are loaded; ``resume`` is the number of a conversation, or ``last``.
    """

    TITLE = "localspec"
    CSS_PATH = "style.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012
    BINDINGS: ClassVar = [
        Binding("escape", "stop", "Stop the reply", show=False),
        Binding("ctrl+c", "interrupt", "Stop, twice to quit", show=False),
        Binding("ctrl+n", "new", "New conversation", show=False),
        Binding("ctrl+s", "sessions", "Past conversations", show=False),
        Binding("ctrl+r", "history", "Search the prompts", show=False),
        Binding("f1,question_mark", "help", "Help", show=False),
    ]

    def __init__(
        self,
        settings: Settings,
        open_session: OpenSession,
        *,
        pair: str,
        database: Path | None,
        prompt: str | None = None,
        resume: str | None = None,
    ) -> None:
        # Decided here, because Textual chooses between no colour and shades of grey before it knows the theme.
        super().__init__(ansi_color=True if theme.without_colour(os.environ) else None)
        self.settings = settings
        self.pair = pair
        self.phase = Phase.LOADING
        self.has_draft = False
        self.decoder = Decoder(open_session)
        self._database = database
        self._store: Store | None = None
        self._problems: set[str] = set()
        self._conversation = Conversation(None, self._store_problem)
        self._meter = Meter()
        self._reply: ReplyView | None = None
        self._queued = prompt
        self._resume = resume
        self._afterwards: Callable[[], Awaitable[None]] | None = None
        self._interrupted = 0.0
        for own in theme.OWN_THEMES:
            self.register_theme(own)
        self.theme = theme.choose(settings.theme, os.environ)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        grey = "ansi_bright_black" if self.current_theme.ansi else "#808080"
        return {"track": grey, "dim": grey}

    def compose(self) -> ComposeResult:
        yield Line(id="top")
        with Horizontal():
            with Vertical(id="main"):
                yield ChatLog()
                yield Strip()
                yield Composer([f"/{command.name}" for command in commands.COMMANDS])
            yield Panel()
        yield Line(id="status")

    async def on_mount(self) -> None:
        self._chat = self.query_one(ChatLog)
        self._composer = self.query_one(Composer)
        self._composer.focus()
        self._show_settings()
        self._show_state("starting")
        await self._chat.mount(Welcome(self.pair))
        self._open_store()
        if self._resume is not None:
            await self.resume(self._resume)
        self.decoder.start()
        self._pump()

    async def on_unmount(self) -> None:
        await asyncio.to_thread(self.decoder.close, CLOSE_S)
        if self._store is not None:
            self._store.close()

    def tell(self, text: str, kind: Kind = Kind.NOTE) -> None:
        """Say something in the chat."""
        self._chat.tell(text, kind)

    def complain(self, text: str) -> None:
        """Say in the chat what is wrong."""
        self._chat.tell(text, Kind.WARNING)

    def change(self, **values: object) -> None:
        """Change a setting from the next round on."""
        try:
            self.settings = self.settings.changed(**values)
        except ConfigError as problem:
            self.complain(str(problem))
            return
        for name in values:
            value = getattr(self.settings, name)
            shown = "none" if value is None else value
            self.tell(f"{name.replace('_', '-')} is {shown} from the next {NEXT.get(name, 'round')} on.")
        self.decoder.change(self.settings)
        self._show_settings()

    def export(self) -> str:
        """The conversation as Markdown."""
        if self._store is None or self._conversation.id is None:
            raise StoreError("nothing of it is on disk yet.")
        return self._store.export_markdown(self._conversation.id)

    async def resume(self, which: str) -> None:
        """Go on with a past conversation: its number, or ``last``."""
        if self._stop_first(partial(self.resume, which)):
            return
        try:
            if self._store is None:
                raise StoreError("Past conversations cannot be read, so none can be resumed.")
            stored = self._store.load(self._store.number(which))
        except StoreError as problem:
            self.complain(str(problem))
            return
        await self._open(Conversation.resume(stored, self._store, self._store_problem))
        if self._conversation.system:
            self.settings = self.settings.changed(system=self._conversation.system)

    async def action_new(self) -> None:
        if not self._stop_first(self.action_new):
            await self._open(Conversation(self._store, self._store_problem))

    def action_stop(self) -> None:
        if self.phase is Phase.REPLYING:
            self.decoder.cancel()
            self._show_state("stopping")

    async def action_interrupt(self) -> None:
        now = time.monotonic()
        if now - self._interrupted < QUIT_WINDOW_S:
            await self.action_quit()
            return
        self._interrupted = now
        self.action_stop()
        self.notify("Press Ctrl+C again to quit", timeout=QUIT_WINDOW_S)

    async def action_quit(self) -> None:
        if self.phase is Phase.REPLYING:
            self.decoder.cancel()
            await self._take(self.decoder.drain())
        if self._reply is not None:
            self._conversation.finish(self._reply.turn, State.CANCELLED, self._meter.reply_figures())
        self.exit(2 if self.phase is Phase.FAILED else 0)

    async def action_help(self) -> None:
        await self.push_screen(HelpScreen())

    async def action_sessions(self) -> None:
        store = self._store
        if store is None:
            self.complain("Past conversations cannot be read.")
            return

        def delete(key: str) -> None:
            store.delete(int(key))
            if int(key) == self._conversation.id:
                self.call_later(self.action_new)

        async def picked(key: str | None) -> None:
            if key is not None:
                await self.resume(key)

        await self.push_screen(Picker("Past conversations", partial(session_rows, store), delete), picked)

    async def action_history(self) -> None:
        def picked(text: str | None) -> None:
            if text is not None:
                self._composer.put(text)

        await self.push_screen(Picker("Past prompts", partial(prompt_rows, self._composer.prompts)), picked)

    def action_scroll_chat(self, direction: str) -> None:
        if direction == "up":
            self._chat.scroll_page_up(animate=False)
        else:
            self._chat.scroll_page_down(animate=False)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        for command in commands.COMMANDS:
            title = f"/{command.name} {command.argument}".strip()
            yield SystemCommand(title, command.summary, partial(self._from_palette, command))
        yield SystemCommand("theme", "light, dark and other colours", self.action_change_theme)

    async def _from_palette(self, command: commands.Command) -> None:
        if command.argument:
            self._composer.put(f"/{command.name} ")
            self._composer.focus()
        else:
            await command.run(self, "")

    @on(Composer.Submitted)
    async def _submitted(self, event: Composer.Submitted) -> None:
        called = commands.find(event.text)
        if called is not None:
            command, argument = called
            if command is None:
                self.complain(f"There is no command {event.text.split()[0]}: F1 lists them.")
                return
            self._composer.accept()
            await command.run(self, argument)
        elif self.phase is Phase.FAILED:
            self.complain("No model is loaded, so there is no reply: Ctrl+Q quits.")
        elif self.phase is Phase.REPLYING:
            self.complain("The reply is not over: Esc stops it.")
        elif self.phase is Phase.LOADING and self._queued is not None:
            self.complain("One prompt waits already until the models are loaded.")
        elif self.phase is Phase.LOADING:
            self._queued = event.text
            self._composer.accept()
            self.tell("Sent as soon as the models are loaded.")
        else:
            self._composer.accept()
            await self._send(event.text)

    async def _send(self, text: str) -> None:
        turn = self._conversation.begin(text, self.pair, self.settings.model_dump(mode="json"))
        self.phase = Phase.REPLYING
        self._meter.begin_reply()
        await self._remove_welcome()
        self._reply = await self._chat.begin(turn)
        self._show_state("replying")
        self.decoder.submit(self._conversation.messages(self.settings.system), self.settings)
        self._pump()

    @work(exclusive=True)
    async def _pump(self) -> None:
        """Take over the decoding thread's reports until it has nothing more to do."""
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
                self._show_loading(report.progress)
            elif isinstance(report, Loaded):
                await self._loaded(report)
            elif isinstance(report, LoadFailed):
                self._load_failed(report.sentence)
            elif isinstance(report, Ended):
                await self._ended(report)

    async def _stream(self, events: list[Event]) -> None:
        reply = self._reply
        if reply is None:
            return
        for event in events:
            self._meter.add(event)
        text = "".join(event.text for event in events if isinstance(event, Round | Finish))
        last = events[-1]
        if isinstance(last, Prefill) and last.done < last.total:
            self._show_state(f"reading the prompt {last.done} of {last.total}")
        elif isinstance(last, Round):
            self._show_state("replying")
        if text:
            self._conversation.grow(reply.turn, text)
        with self.batch_update():
            await reply.append(text)
            self._show_readings()

    async def _ended(self, ended: Ended) -> None:
        reply, self._reply = self._reply, None
        self.phase = Phase.READY
        if reply is not None:
            state = State.CANCELLED if ended.cancelled else State.INTERRUPTED if ended.error else State.COMPLETE
            figures = {**self._meter.reply_figures(), "seed": ended.seed}
            self._conversation.finish(reply.turn, state, figures)
            reply.show_figures()
            if ended.error:
                self.tell(ended.error, Kind.ERROR)
                if not reply.turn.reply and not self._composer.text:
                    self._composer.put(reply.turn.prompt)
        self._show_readings(final=True)
        self._show_state("ready")
        afterwards, self._afterwards = self._afterwards, None
        if afterwards is not None:
            await afterwards()

    async def _loaded(self, loaded: Loaded) -> None:
        self.phase = Phase.READY
        self.has_draft = loaded.draft is not None
        self.pair = loaded.target.name + (f" + {loaded.draft.name}" if loaded.draft is not None else "")
        self._meter.load(loaded.target, loaded.draft, loaded.n_ctx)
        with suppress(NoMatches):
            self.query_one(Welcome).show_models(loaded.target, loaded.draft, loaded.n_ctx)
        self._show_settings()
        self._show_state("ready")
        queued, self._queued = self._queued, None
        if queued is not None:
            await self._send(queued)

    def _load_failed(self, sentence: str) -> None:
        self.phase = Phase.FAILED
        self.tell(sentence, Kind.ERROR)
        self.tell("Ctrl+Q quits; past conversations can still be read with Ctrl+S.")
        self._show_state("no model")

    def _open_store(self) -> None:
        if self._database is None:
            return
        try:
            self._store = Store(self._database)
            self._composer.remember(self._store.prompts())
        except StoreError as problem:
            self._store_problem(str(problem))
        self._conversation = Conversation(self._store, self._store_problem)

    def _store_problem(self, sentence: str) -> None:
        if sentence not in self._problems:
            self._problems.add(sentence)
            self.tell(f"{sentence} Until then the chat is kept in memory only.", Kind.WARNING)

    async def _open(self, conversation: Conversation) -> None:
        """Show another conversation."""
        self._conversation = conversation
        self._meter.begin_conversation()
        await self._chat.show(conversation.turns)
        self._show_settings()
        self._show_readings(final=True)

    def _stop_first(self, afterwards: Callable[[], Awaitable[None]]) -> bool:
        """Whether a reply has to be stopped before this can be done; it is done then."""
        if self.phase is not Phase.REPLYING:
            return False
        self._afterwards = afterwards
        self.action_stop()
        return True

    async def _remove_welcome(self) -> None:
        await self.query(Welcome).remove()

    def _show_settings(self) -> None:
        settings = self.settings
        drafts = settings.drafts and (settings.draft != "draft-model" or self.has_draft or self.phase is Phase.LOADING)
        k = 0 if not drafts else None if settings.draft_max == "auto" else settings.draft_max
        verify = ("gumbel" if settings.temp > 0 else "greedy") if settings.verify == "auto" else settings.verify
        top = self.query_one("#top", Line)
        top.left = Content.assemble(("localspec", "bold $primary"))
        parts = (
            f"K {'auto' if k is None else k}",
            "dense" if k == 0 else verify,
            f"temp {settings.temp:g}",
            *self.pair.split(" ", 1),
        )
        top.right = [Content.assemble((part, "$dim")) for part in parts]
        self._meter.next_draft_max(k)
        self._show_readings()

    def _show_loading(self, progress: LoadProgress) -> None:
        self._show_state(loading_line(progress))

    def _show_state(self, what: str | Content) -> None:
        status = self.query_one("#status", Line)
        status.left = what if isinstance(what, Content) else Content(what)
        status.right = hints(replying=self.phase is Phase.REPLYING)

    def _show_readings(self, *, final: bool = False) -> None:
        readings = self._meter.readings(final=final)
        self.query_one(Panel).readings = readings
        self.query_one(Strip).readings = readings


def run(config: Config, target: Path, draft: Path | None, prompt: str | None = None, resume: str | None = None) -> int:
    """Open the app in this terminal and return the exit code: 2 if the models could not be loaded.

    Raises ``ConfigError`` for an unknown theme.
    """
    settings = config.settings

    def open_session(progress: Callable[[LoadProgress], None]) -> Session:
        from localspec.session import Session

        return Session.open(settings, target, draft, progress=progress)

    _log_to_file()
    pair = target.stem if draft is None else f"{target.stem} + {draft.stem}"
    app = LocalspecApp(settings, open_session, pair=pair, database=paths.database(), prompt=prompt, resume=resume)
    code = app.run()
    if not app.decoder.close(0):
        # A load in native code cannot be interrupted, and ending the interpreter under it could crash: leave at once.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)
    return (app.return_code or 0) if code is None else code


def _log_to_file() -> None:
    """Defects are logged in full where llama.cpp's log is: the screen belongs to the app."""
    path = paths.log_file()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        logging.getLogger("localspec").addHandler(logging.FileHandler(path, delay=True))
