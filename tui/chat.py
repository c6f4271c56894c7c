"""The chat log: what was asked, what was answered, and what the app has to say."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Markdown, Static

from localspec.store import State

from . import bars
from .conversation import Turn

SHOWN_TURNS = 40
"""A resumed conversation starts with this many of its last turns; widgets for all of a long one would take seconds."""
SHOWN_CHARACTERS = 6000
"""A longer prompt is shown cut short; the model gets all of it."""


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


class PromptView(Static):
    """What the user asked, exactly as typed."""

    def __init__(self, text: str) -> None:
        shown = text
        if len(text) > SHOWN_CHARACTERS:
            shown = f"{text[:SHOWN_CHARACTERS]}… ({bars.count(len(text) - SHOWN_CHARACTERS)} more characters)"
        super().__init__(Content(shown))


class ReplyView(Vertical):
    """A reply as Markdown, and one line below it with how it went."""

    def __init__(self, turn: Turn) -> None:
        super().__init__()
        self.turn = turn
        self.markdown = Markdown(turn.reply or None)
        self.footer = FigureLine()

    def compose(self) -> ComposeResult:
        yield self.markdown
        yield self.footer

    def on_mount(self) -> None:
        if self.turn.state is not State.STREAMING:
            self.show_figures()

    async def append(self, text: str) -> None:
        """Add streamed text; only the last block of the Markdown is drawn anew."""
        if not text:
            return
        await self.markdown.append(text)
        log = self.parent
        if isinstance(log, ChatLog):
            log.call_after_refresh(log.follow)

    def show_figures(self) -> None:
        """Show how the reply ended and its figures."""
        self.footer.segments = figures_of(self.turn)


class FigureLine(Widget):
    """The figures of a reply in one line, the important ones first; those that do not fit are left out."""

    segments: reactive[Sequence[str]] = reactive(tuple)

    def render(self) -> Content:
        return bars.fit([Content(segment) for segment in self.segments], self.content_size.width, gap="  ·  ")


def figures_of(turn: Turn) -> list[str]:
    """The figures of a finished reply, the important ones first."""
    endings = {State.CANCELLED: "stopped", State.INTERRUPTED: "interrupted"}
    parts = [endings[turn.state]] if turn.state in endings else []
    figures = turn.figures
    if not figures.get("tokens"):
        return parts
    parts.append(f"{bars.speed(figures.get('decode_per_second'))} tokens/s")
    if figures.get("acceptance_rate") is not None:
        parts.append(f"acceptance {bars.rate(figures['acceptance_rate'])} at K {figures.get('draft_max')}")
        parts.append(f"{bars.speed(figures.get('tokens_per_round'))} tokens/round")
    else:
        parts.append("dense")
    return [*parts, f"{bars.count(figures['tokens'])} tokens", f"seed {figures.get('seed')}"]


class Earlier(Static, can_focus=True):
    """Stands for the turns of a long conversation that are not shown yet."""

    BINDINGS: ClassVar = [("enter", "show", "Show earlier turns")]

    def __init__(self, turns: Sequence[Turn]) -> None:
        super().__init__(Content(f"▲ show {len(turns)} earlier turns"))
        self._turns = turns

    async def on_click(self) -> None:
        await self.action_show()

    async def action_show(self) -> None:
        log = self.parent
        assert isinstance(log, ChatLog)
        await log.mount_all(views_of(self._turns), after=self)
        await self.remove()


class ChatLog(VerticalScroll):
    """The conversation so far. It follows the end until the user scrolls back, and again once they return to it."""

    async def begin(self, turn: Turn) -> ReplyView:
        """Show a prompt and an empty reply, and go to the end."""
        reply = ReplyView(turn)
        await self.mount(PromptView(turn.prompt), reply)
        self._go_to_end()
        return reply

    async def show(self, turns: Sequence[Turn]) -> None:
        """Replace everything by these turns."""
        await self.remove_children()
        earlier, shown = turns[:-SHOWN_TURNS], turns[-SHOWN_TURNS:]
        views = views_of(shown)
        await self.mount_all([Earlier(earlier), *views] if earlier else views)
        self._go_to_end()

    def tell(self, text: str, kind: Kind = Kind.NOTE) -> None:
        """Show a sentence below what is there."""
        self.mount(Notice(text, kind))
        self._go_to_end()

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

    def _go_to_end(self) -> None:
        def arrive() -> None:
            self.follow()
            self.scroll_end(animate=False, immediate=True)

        self.call_after_refresh(arrive)


def views_of(turns: Sequence[Turn]) -> list[Widget]:
    """A prompt and a reply for each turn."""
    return [view for turn in turns for view in (PromptView(turn.prompt), ReplyView(turn))]
