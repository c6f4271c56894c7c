"""Search in the open conversation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.widgets import Input, Static

from localspec.thinking import without_thought

from .chat import ChatLog
from .conversation import Turn


@dataclass(frozen=True, slots=True)
class Hit:
    """One place where the text was found."""

    turn: Turn
    role: str
    occurrence: int
    """Which one it is in its message, from 0."""


def hits_in(turns: Sequence[Turn], text: str) -> list[Hit]:
    """Every place of a text in prompts and answers, the oldest first; case does not matter."""
    low = text.lower()
    if not low.strip():
        return []
    return [
        Hit(turn, role, occurrence)
        for turn in turns
        for role, content in (("user", turn.prompt), ("assistant", without_thought(turn.reply)))
        for occurrence in range(content.lower().count(low))
    ]


class FindBar(Horizontal):
    """A line below the chat: what to find, and which hit is shown of how many."""

    BINDINGS: ClassVar = [
        Binding("escape", "close", "Close", show=False, id="find.close"),
        Binding("enter,up,shift+f3", "step(-1)", "The hit above", show=False, priority=True, id="find.above"),
        Binding("down,f3,shift+enter", "step(1)", "The hit below", show=False, priority=True, id="find.below"),
    ]

    def __init__(self, chat: ChatLog, turns: Callable[[], Sequence[Turn]]) -> None:
        super().__init__()
        self.display = False
        self._chat = chat
        self._turns = turns
        self._hits: Sequence[Hit] = ()
        self._place = 0

    def compose(self) -> ComposeResult:
        yield Static("find ", id="label")
        yield Input(placeholder="in this conversation")
        yield Static(id="count")

    async def open(self, text: str) -> None:
        """Ask for a text, or look for this one at once."""
        self.display = True
        field = self.query_one(Input)
        with self.prevent(Input.Changed):
            field.value = text or field.value
        field.focus()
        await self._search()

    async def action_step(self, by: int) -> None:
        if self._hits:
            self._place = (self._place + by) % len(self._hits)
            await self._go()

    async def action_close(self) -> None:
        """Leave the cursor on the message that was found."""
        self.display = False
        self._chat.unmark()
        view = None
        if self._hits:
            hit = self._hits[self._place]
            view = await self._chat.find(hit.turn, hit.role)
        if view is None:
            await self.run_action("app.write")
        else:
            self.screen.set_focus(view, scroll_visible=False)

    @on(Input.Changed)
    async def _search(self) -> None:
        """Find the text anew; the last hit is shown first."""
        self._hits = hits_in(self._turns(), self._text)
        self._place = len(self._hits) - 1
        await self._go()

    @property
    def _text(self) -> str:
        return self.query_one(Input).value

    async def _go(self) -> None:
        nothing = "not found" if self._text.strip() else ""
        count = f"↑↓ {self._place + 1} of {len(self._hits)}" if self._hits else nothing
        self.query_one("#count", Static).update(count)
        if self._hits:
            hit = self._hits[self._place]
            await self._chat.mark(hit.turn, hit.role, self._text, hit.occurrence)
        else:
            self._chat.unmark()
