"""The chat log: what was asked, what was answered, and what the app has to say."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar

from textual import on
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from localspec.store import State

from .conversation import Turn
from .lines import Welcome
from .messages import LogItem, MessageView, PromptView, ReplyView, views_of
from .shell import ShellView

__all__ = ["ChatLog", "Earlier", "Gap", "Kind", "Later", "Notice", "PromptView", "ReplyView"]

SHOWN_TURNS = 40
"""So many turns of a conversation are shown at first, and more with each step: all of a long one would take seconds."""


class Kind(StrEnum):
    """How loud a notice is."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


class Notice(Static):
    """A sentence from the app."""

    def __init__(self, text: str, kind: Kind) -> None:
        super().__init__(Content(text), classes=f"-{kind}")
        self.text = text
        self.kind = kind


class Gap(LogItem, Static):
    """Stands for turns of a long conversation that have no widgets yet, at the beginning or the end of the chat."""

    BINDINGS: ClassVar = [("enter,space", "show", "Show some of them")]
    KEYS: ClassVar = (("app.write", "Esc", "back"), ("focused.show", "Enter", "show"))
    LABEL: ClassVar[str]

    def __init__(self, turns: Sequence[Turn]) -> None:
        super().__init__()
        self.turns = turns

    def on_mount(self) -> None:
        self.update(Content(self.LABEL.format(len(self.turns))))

    async def on_click(self) -> None:
        await self.action_show()

    async def action_show(self) -> None:
        """Show the turns that are next to those which are shown."""
        log = self.parent
        assert isinstance(log, ChatLog)
        focused = self.has_focus
        shown = views_of(self._take())
        await self._place(log, shown)
        if focused:
            log.select(shown[-1 if isinstance(self, Earlier) else 0])
        if self.turns:
            self.on_mount()
        else:
            await self.remove()

    def _take(self) -> Sequence[Turn]:
        raise NotImplementedError

    async def _place(self, log: ChatLog, views: Sequence[Widget]) -> None:
        raise NotImplementedError


class Earlier(Gap):
    """Turns above those that are shown."""

    LABEL = "▲ {} earlier turns"

    def _take(self) -> Sequence[Turn]:
        self.turns, shown = self.turns[:-SHOWN_TURNS], self.turns[-SHOWN_TURNS:]
        return shown

    async def _place(self, log: ChatLog, views: Sequence[Widget]) -> None:
        await log.mount_all(views, after=self)


class Later(Gap):
    """Turns below those that are shown."""

    LABEL = "▼ {} later turns"

    def _take(self) -> Sequence[Turn]:
        shown, self.turns = self.turns[:SHOWN_TURNS], self.turns[SHOWN_TURNS:]
        return shown

    async def _place(self, log: ChatLog, views: Sequence[Widget]) -> None:
        await log.mount_all(views, before=self)


class ChatLog(VerticalScroll, can_focus=False):
    """The conversation so far. It follows the end until the user scrolls back, and again once they return to it."""

    BINDINGS: ClassVar = [
        Binding("up,k,shift+tab,ctrl+up", "move(-1)", "Message above", show=False, id="message.above"),
        Binding("down,j,ctrl+down", "move(1)", "Message below", show=False, id="message.below"),
        Binding("home,g", "first", "First message", show=False, id="message.first"),
        Binding("end,G", "last", "Last message", show=False, id="message.last"),
        Binding("escape,tab", "app.write", "Back to the input line", show=False, id="message.leave"),
    ]

    _marked: MessageView | None = None
    """The message in which a search stands."""

    async def begin(self, turn: Turn) -> ReplyView:
        """Show a prompt and an empty reply, and go to the end."""
        reply = ReplyView(turn)
        await self._add(PromptView(turn), reply)
        return reply

    async def run_shell(self, command: str) -> None:
        """Run a command of the user's and show its output."""
        view = ShellView(command)
        await self._add(view)
        self.run_worker(view.run())

    async def show(self, turns: Sequence[Turn], at: Turn | None = None) -> None:
        """Replace everything by the last of these turns, or by those around ``at``."""
        await self.remove_children()
        place = next((index for index, turn in enumerate(turns) if turn is at), len(turns))
        first = max(0, min(place - SHOWN_TURNS // 2, len(turns) - SHOWN_TURNS))
        last = first + SHOWN_TURNS
        above = [Earlier(turns[:first])] if turns[:first] else []
        below = [Later(turns[last:])] if turns[last:] else []
        await self.mount_all([*above, *views_of(turns[first:last]), *below])
        if at is None:
            self.go_to_end()

    async def cut(self, turn: Turn) -> None:
        """Take away this turn and what follows it."""
        children = list(self.children)
        first = next((i for i, c in enumerate(children) if isinstance(c, MessageView) and c.turn is turn), None)
        if first is not None:
            await self.remove_children(children[first:])

    async def replace(self, turn: Turn, turns: Sequence[Turn]) -> None:
        """Show other turns in place of this one and what follows it."""
        await self.cut(turn)
        await self.mount_all(views_of(turns))

    async def find(self, turn: Turn, role: str) -> MessageView | None:
        """The view of a message; it is shown first if it is not yet."""
        while True:
            gap = None
            for child in self.children:
                if isinstance(child, MessageView) and child.turn is turn and child.role == role:
                    return child
                if isinstance(child, Gap) and any(other is turn for other in child.turns):
                    gap = child
            if gap is None:
                return None
            if self._is_streaming:
                await gap.action_show()
            else:
                await self.show(self._turns, turn)

    async def mark(self, turn: Turn, role: str, text: str, occurrence: int) -> None:
        """Show where a text stands in a message."""
        self.unmark()
        self._marked = view = await self.find(turn, role)
        if view is not None:
            self.release_anchor()
            self.call_after_refresh(self.scroll_to_center, view.mark(text, occurrence), animate=False)

    def unmark(self) -> None:
        """Take the marks of a search away."""
        if self._marked is not None and self._marked.is_mounted:
            self._marked.unmark()
        self._marked = None

    def select(self, item: LogItem) -> None:
        """Put the cursor on a message and bring it into view."""
        self.screen.set_focus(item, scroll_visible=False)

        def arrive() -> None:
            if item is not self.children[-1]:
                self.release_anchor()
            tall = item.size.height > self.size.height
            self.scroll_to_widget(item, animate=False, top=tall, force=True)

        self.call_after_refresh(arrive)

    def action_first(self) -> None:
        if items := self._items:
            self.select(items[0])

    def action_last(self) -> None:
        """Put the cursor on the last message."""
        if items := self._items:
            self.select(items[-1])

    async def action_move(self, by: int) -> None:
        """Move the cursor over the messages, and below the last one to the input line."""
        items = self._items
        place = next((index for index, item in enumerate(items) if item is self.screen.focused), len(items)) + by
        if place < len(items):
            self.select(items[max(place, 0)])
        else:
            await self.run_action("app.write")

    @property
    def _turns(self) -> list[Turn]:
        """Those that are shown and those that are not."""
        stand_ins = [child for child in self.children if isinstance(child, Gap | PromptView)]
        return [turn for child in stand_ins for turn in (child.turns if isinstance(child, Gap) else [child.turn])]

    @property
    def _is_streaming(self) -> bool:
        return any(isinstance(child, ReplyView) and child.turn.state is State.STREAMING for child in self.children)

    @property
    def _items(self) -> list[LogItem]:
        return [child for child in self.children if isinstance(child, LogItem)]

    @on(LogItem.Grew)
    def _grew(self, event: LogItem.Grew) -> None:
        event.stop()
        self.call_after_refresh(self.follow)

    async def _add(self, *views: Widget) -> None:
        """Add views at the end, which is shown."""
        if self.children and isinstance(self.children[-1], Later):
            await self.show(self._turns)
        await self.query(Welcome).remove()
        await self.mount(*views)
        self.go_to_end()

    def tell(self, text: str, kind: Kind = Kind.NOTE) -> None:
        """Show a sentence below what is there."""
        self.mount(Notice(text, kind))
        self.go_to_end()

    def follow(self) -> None:
        """Keep to the end of what has grown, unless the user has scrolled back."""
        # Textual's anchor holds short content at the bottom of the window, so it is only set once there is overflow.
        overflows = self.virtual_size.height > self.container_size.height
        if overflows != self.is_anchored:
            self.anchor(overflows)
            if not overflows:
                self.scroll_home(animate=False)

    def on_resize(self) -> None:
        self.follow()

    def go_to_end(self) -> None:
        """Show the end, and follow it from now on."""

        def arrive() -> None:
            self.follow()
            self.scroll_end(animate=False, immediate=True)

        self.call_after_refresh(arrive)
