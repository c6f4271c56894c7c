"""The app: it wires the chat, the instruments and the decoding thread together."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.css.query import NoMatches
from textual.screen import Screen

from localspec.errors import ConfigError, LocalspecError

from . import commands, theme
from .chat import ChatLog, Kind
from .clipboard import offer_to_tmux
from .comparing import Comparing
from .composer import Composer
from .conversation import Conversation, Turn
from .conversations import Conversations
from .editor import edited
from .entry import Entry
from .find import FindBar
from .help import HelpScreen
from .lines import Line, Welcome, hints, loading_line, message_hints, settings_line
from .messages import LogItem, MessageView
from .panel import Panel, Strip
from .replying import Phase, Replying
from .run import run
from .sending import Sending
from .shell import ShellView
from .worker import Decoder, Loaded

if TYPE_CHECKING:
    from localspec.chat_template import Message
    from localspec.config import Settings
    from localspec.session import LoadProgress

    from .worker import OpenSession

__all__ = ["LocalspecApp", "run"]

NEXT = {"system": "message"}
"""What is fixed for a reply; every other setting acts on the next round of the one that streams."""
QUIT_WINDOW_S = 2.0
"""A second Ctrl+C within this time quits."""
CLOSE_S = 5.0
"""How long to wait at the end for the decoding thread to free the models."""


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
        Binding("ctrl+f", "find", "Search in this conversation", show=False, priority=True),
        Binding("ctrl+g", "editor", "Write in your editor", show=False),
        Binding("ctrl+o", "regenerate", "Reply again", show=False),
        Binding("f8", "compare", "Compare with dense decoding", show=False),
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
        self.has_draft = False
        self.decoder = Decoder(open_session)
        self.replying = Replying(self, self.decoder)
        self.conversations = Conversations(self)
        self.sending = Sending(self, prompt)
        self.comparing = Comparing(self)
        self._database = database
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
                yield (chat := ChatLog())
                yield FindBar(chat, lambda: self.conversation.turns)
                yield Strip()
                yield Entry(commands.COMMANDS)
            yield Panel()
        yield Line(id="status")

    @property
    def phase(self) -> Phase:
        """What the decoding thread is doing."""
        return self.replying.phase

    @property
    def conversation(self) -> Conversation:
        """The open one."""
        return self.conversations.open

    async def on_mount(self) -> None:
        self.chat = self.query_one(ChatLog)
        self.entry = self.query_one(Entry)
        self.composer = self.query_one(Composer)
        self.composer.focus()
        self.show_settings()
        self.show_state("starting")
        await self.chat.mount(Welcome(self.pair))
        self.conversations.start(self._database)
        if self._resume is not None:
            await self.conversations.resume(self._resume)
        self.decoder.start()
        self.replying.watch()

    async def on_unmount(self) -> None:
        await asyncio.to_thread(self.decoder.close, CLOSE_S)
        self.conversations.close()

    def copy_to_clipboard(self, text: str) -> None:
        super().copy_to_clipboard(text)
        offer_to_tmux(text)

    def tell(self, text: str, kind: Kind = Kind.NOTE) -> None:
        """Say something in the chat."""
        self.chat.tell(text, kind)

    def complain(self, text: str) -> None:
        """Say in the chat what is wrong."""
        self.chat.tell(text, Kind.WARNING)

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
        self.conversations.settings_changed()
        self.show_settings()

    async def action_new(self) -> None:
        await self.conversations.new()

    def action_stop(self) -> None:
        running = [view for view in self.query(ShellView) if view.is_running]
        for view in running:
            view.stop()
        if not running:
            self.replying.stop()

    async def action_find(self, text: str = "") -> None:
        await self.query_one(FindBar).open(text)

    def action_editor(self) -> None:
        try:
            text = edited(self, self.composer.whole)
        except LocalspecError as problem:
            self.complain(str(problem))
        else:
            self.composer.put(text)

    async def action_interrupt(self) -> None:
        now = time.monotonic()
        if now - self._interrupted < QUIT_WINDOW_S:
            await self.action_quit()
            return
        self._interrupted = now
        self.action_stop()
        self.notify("Press Ctrl+C again to quit", timeout=QUIT_WINDOW_S)

    async def action_quit(self) -> None:
        await self.replying.leave()
        self.exit(2 if self.phase is Phase.FAILED else 0)

    async def action_help(self) -> None:
        await self.push_screen(HelpScreen())

    async def action_sessions(self) -> None:
        await self.conversations.pick()

    async def action_history(self) -> None:
        await self.conversations.pick_prompt()

    def action_scroll_chat(self, where: str) -> None:
        if where == "up":
            self.chat.scroll_page_up(animate=False)
        elif where == "down":
            self.chat.scroll_page_down(animate=False)
        else:
            self.chat.go_to_end()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        for command in commands.COMMANDS:
            title = f"/{command.name} {command.argument}".strip()
            yield SystemCommand(title, command.summary, partial(self._from_palette, command))
        yield SystemCommand("theme", "light, dark and other colours", self.action_change_theme)

    async def _from_palette(self, command: commands.Command) -> None:
        if command.argument and not command.argument.startswith("["):
            self.composer.put(f"/{command.name} ")
            self.composer.focus()
        else:
            await command.run(self, "")

    @on(Composer.Submitted)
    async def _submitted(self, event: Composer.Submitted) -> None:
        called = commands.find(event.text)
        if event.text == "!":
            self.complain("Say which command to run: !git diff.")
        elif event.text.startswith("!"):
            self.composer.accept()
            await self.chat.run_shell(event.text[1:].strip())
        elif called is None:
            await self.sending.ask(event.text)
        elif called[0] is None:
            self.complain(f"There is no command {event.text.split()[0]}: F1 lists them.")
        else:
            self.composer.accept()
            await called[0].run(self, called[1])

    @on(ShellView.Attached)
    def _shell_attached(self, event: ShellView.Attached) -> None:
        self.entry.attach(event.attachment)
        self.composer.focus()

    @on(MessageView.Wished)
    async def _wished(self, event: MessageView.Wished) -> None:
        await self.conversations.grant(event.view.turn, event.view.role, event.wish)

    def action_select_message(self) -> None:
        self.chat.action_last()

    def action_write(self) -> None:
        """Go to the input line, at once: the next key may be here already."""
        self.screen.set_focus(self.composer)

    def on_key(self, event: events.Key) -> None:
        """Take a letter to the input line that was typed so soon after going there that it came to a message."""
        if self.focused is self.composer and event.is_printable and event.character is not None:
            event.prevent_default()
            self.composer.insert(event.character)

    def on_descendant_focus(self) -> None:
        self.show_hints()

    async def action_regenerate(self) -> None:
        if self.conversation.turns:
            await self.sending.again(self.conversation.turns[-1])
        else:
            self.complain("There is no reply yet.")

    async def action_compare(self) -> None:
        await commands.named("compare").run(self, "")

    def compare(self, messages: list[Message]) -> None:
        """Answer with a draft and densely, and tell how both did."""
        self.run_worker(self.comparing.run(messages))

    async def reply_over(self) -> None:
        """Do what waited for the end of the reply."""
        afterwards, self._afterwards = self._afterwards, None
        if afterwards is not None:
            await afterwards()

    def give_back(self, prompt: str) -> None:
        """Put a prompt that got no answer back into the input line, if that is empty."""
        if not self.composer.text:
            self.composer.put(prompt)

    async def loaded(self, loaded: Loaded) -> None:
        """The pair is in memory."""
        self.has_draft = loaded.draft is not None
        self.pair = loaded.target.name + (f" + {loaded.draft.name}" if loaded.draft is not None else "")
        with suppress(NoMatches):
            self.query_one(Welcome).show_models(loaded.target, loaded.draft, loaded.n_ctx)
        self.show_settings()
        self.show_state("ready")
        await self.sending.send_queued()

    def load_failed(self, sentence: str) -> None:
        """No reply is possible."""
        self.tell(sentence, Kind.ERROR)
        self.tell("Ctrl+Q quits; past conversations can still be read with Ctrl+S.")
        self.show_state("no model")

    async def conversation_opened(self, at: Turn | None) -> None:
        """Show another conversation, from its end or at a turn."""
        self.replying.meter.begin_conversation()
        self.composer.edit_prompt(None)
        await self.chat.show(self.conversation.turns, at)
        self.show_settings()
        self.show_readings(final=True)

    def stop_first(self, afterwards: Callable[[], Awaitable[None]]) -> bool:
        """Whether a reply has to be stopped before this can be done; it is done then."""
        if self.phase is not Phase.REPLYING:
            return False
        self._afterwards = afterwards
        self.replying.stop()
        return True

    def show_settings(self) -> None:
        settings = self.settings
        drafts = settings.drafts and (settings.draft != "draft-model" or self.has_draft or self.phase is Phase.LOADING)
        k = 0 if not drafts else None if settings.draft_max == "auto" else settings.draft_max
        top = self.query_one("#top", Line)
        top.left = Content.assemble(("localspec", "bold $primary"))
        top.right = settings_line(settings, k, self.pair)
        self.replying.meter.next_draft_max(k)
        self.show_readings()

    def show_loading(self, progress: LoadProgress) -> None:
        self.show_state(loading_line(progress))

    def show_state(self, what: str | Content) -> None:
        status = self.query_one("#status", Line)
        status.left = what if isinstance(what, Content) else Content(what)
        self.show_hints()

    def show_hints(self) -> None:
        """Say which keys are worth knowing now."""
        item = self.focused
        status = self.query_one("#status", Line)
        replying = self.phase is Phase.REPLYING
        status.right = message_hints(item) if isinstance(item, LogItem) else hints(replying=replying)

    def show_readings(self, *, final: bool = False) -> None:
        readings = self.replying.meter.readings(final=final)
        self.query_one(Panel).readings = readings
        self.query_one(Strip).readings = readings
