"""The messages of the chat: each can be selected, and has one key for what one does with it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Markdown, Static
from textual.widgets.markdown import MarkdownBlock

from localspec import thinking
from localspec.store import State

from . import bars
from .conversation import Turn
from .fences import code_blocks

EARLIER, LATER = "\u2039", "\u203a"
FOLDED_LINES = 12
FOLDED_CHARACTERS = 1200
"""A longer prompt is shown folded to this much."""
SHOWN_CHARACTERS = 40_000
"""Of a prompt that is unfolded; the model gets all of it."""


class Wish(StrEnum):
    """What can be done with a message that changes the conversation."""

    EDIT = "edit"
    REGENERATE = "regenerate"
    BRANCH = "branch"
    EARLIER = "earlier"
    LATER = "later"


class LogItem(Widget, can_focus=True):
    """Something in the chat that the cursor can stand on."""

    KEYS: ClassVar[tuple[tuple[str, str, str], ...]] = ()
    """Action, key and word of what the status line offers while this is selected."""

    class Grew(Message):
        """There may be more below the end of the window now."""


class MessageView(LogItem):
    """A prompt or a reply."""

    BINDINGS: ClassVar = [
        Binding("y", "copy", "Copy the message", show=False, id="message.copy"),
        Binding("c", "copy_code", "Copy its next code block", show=False, id="message.code"),
        Binding("e", "wish('edit')", "Edit the prompt and send it again", show=False, id="message.edit"),
        Binding("r", "wish('regenerate')", "Reply again", show=False, id="message.regenerate"),
        Binding("b", "wish('branch')", "Branch into a new conversation", show=False, id="message.branch"),
        Binding("left_square_bracket", "wish('earlier')", "Earlier version", show=False, id="message.earlier"),
        Binding("right_square_bracket", "wish('later')", "Later version", show=False, id="message.later"),
        Binding("enter,space", "fold", "Fold or unfold", show=False, id="message.fold"),
    ]
    KEYS: ClassVar = (
        ("app.write", "Esc", "back"),
        ("focused.copy", "y", "copy"),
        ("focused.copy_code", "c", "code"),
        ("focused.wish('edit')", "e", "edit"),
        ("focused.wish('regenerate')", "r", "again"),
        ("focused.wish('branch')", "b", "branch"),
        ("focused.fold", "Enter", "fold"),
    )

    class Wished(Message):
        """The user wants this done with a message."""

        def __init__(self, view: MessageView, wish: Wish) -> None:
            super().__init__()
            self.view = view
            self.wish = wish

    turn: Turn
    role: ClassVar[str]
    _next_block = 0

    @property
    def text(self) -> str:
        """What is copied."""
        raise NotImplementedError

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self.text)
        self.notify(f"Copied the message, {bars.plural(len(self.text), 'character')}.", timeout=2)

    def action_copy_code(self) -> None:
        """Copy a code block; the next call takes the next block."""
        blocks = code_blocks(self.text)
        if not blocks:
            self.notify("There is no code in this message.", severity="warning", timeout=2)
            return
        self.copy_block(self._next_block % len(blocks))
        self._next_block += 1

    def copy_block(self, index: int) -> None:
        """Copy the code block at ``index`` and say which it is."""
        blocks = code_blocks(self.text)
        block = blocks[index]
        self.app.copy_to_clipboard(block.text)
        parts = [block.language] if block.language else []
        parts.append(bars.plural(block.text.count("\n"), "line"))
        self.notify(f"Copied code block {index + 1} of {len(blocks)}: {', '.join(parts)}.", timeout=2)

    def action_wish(self, wish: str) -> None:
        self.post_message(self.Wished(self, Wish(wish)))

    def action_fold(self) -> None:
        """Fold or unfold what can be folded."""

    def mark(self, text: str, occurrence: int) -> Widget:
        """Mark where a text stands, counted from 0. Returns the widget that holds it."""
        raise NotImplementedError

    def unmark(self) -> None:
        """Take the mark away."""
        raise NotImplementedError

    def on_blur(self) -> None:
        self._next_block = 0


def versions_of(place: int, count: int) -> Content:
    """Which version it is of how many, between angles that can be clicked; empty where there is only one."""
    if count < 2:
        return Content("")
    return Content.from_markup(
        f"[$dim][@click=wish('earlier')]{EARLIER}[/] [b]{place}/{count}[/b] [@click=wish('later')]{LATER}[/][/]"
    )


class PromptView(MessageView, Static):
    """What the user asked, exactly as typed; a long prompt is folded."""

    role = "user"

    def __init__(self, turn: Turn) -> None:
        super().__init__()
        self.turn = turn
        self._folded = True
        self._marked = ""
        self._show()

    @property
    def text(self) -> str:
        return self.turn.prompt

    def action_fold(self) -> None:
        self._folded = not self._folded
        self._show()

    def mark(self, text: str, occurrence: int) -> Widget:
        self._marked = text
        if (
            _nth(self.turn.prompt, text, occurrence) >= FOLDED_CHARACTERS
            or self.turn.prompt.count("\n") >= FOLDED_LINES
        ):
            self._folded = False
        self._show()
        return self

    def unmark(self) -> None:
        self._marked = ""
        self._show()

    def _show(self) -> None:
        text = self.turn.prompt
        shown = text[:SHOWN_CHARACTERS]
        if self._folded:
            shown = "\n".join(text[:FOLDED_CHARACTERS].split("\n")[:FOLDED_LINES])
        parts = [_marking(shown, self._marked)]
        if len(shown) < len(text):
            lines = text.count("\n", len(shown))
            more = bars.plural(lines, "more line") if lines else bars.plural(len(text) - len(shown), "more character")
            parts.append(Content.from_markup(f"[$dim][@click=fold]… {more}[/][/]"))
        versions = versions_of(*self.turn.prompt_place)
        if versions:
            parts.append(versions)
        self.update(Content("\n").join(parts))


class ReplyView(MessageView, Vertical):
    """A reply as Markdown, its thought folded above it, and one line below it with how it went."""

    role = "assistant"

    def __init__(self, turn: Turn) -> None:
        super().__init__()
        self.turn = turn
        self._shown = thinking.split(turn.reply).answer
        self.thought = ThoughtView(turn)
        self.markdown = Markdown(self._shown or None)
        self.footer = FigureLine()

    @property
    def text(self) -> str:
        return thinking.without_thought(self.turn.reply)

    def compose(self) -> ComposeResult:
        yield self.thought
        yield self.markdown
        yield self.footer

    def on_mount(self) -> None:
        if self.turn.state is not State.STREAMING:
            self.show_figures()

    async def append(self, text: str) -> None:
        """The turn's reply has grown by this text; only the last block of the Markdown is drawn anew."""
        if not text:
            return
        parts = thinking.split(self.turn.reply)
        self.thought.show()
        if parts.answer.startswith(self._shown):
            added = parts.answer[len(self._shown) :]
            if added:
                await self.markdown.append(added)
        else:
            await self.markdown.update(parts.answer)
        self._shown = parts.answer
        self.post_message(self.Grew())

    def action_fold(self) -> None:
        self.thought.fold()

    def mark(self, text: str, occurrence: int) -> Widget:
        holder: Widget = self.markdown
        for block in self.markdown.query(MarkdownBlock):
            count = 0 if block.query(MarkdownBlock) else (block.source or "").lower().count(text.lower())
            if count:
                holder = block
                if occurrence < count:
                    break
                occurrence -= count
        holder.add_class("-marked")
        return holder

    def unmark(self) -> None:
        self.query(".-marked").remove_class("-marked")

    def show_figures(self) -> None:
        """Show how the reply ended and its figures."""
        self.thought.show()
        self.footer.segments = [versions_of(*self.turn.reply_place), *map(Content, figures_of(self.turn))]


class ThoughtView(Static):
    """What a reasoning model thought before its answer: one line, or all of it once unfolded."""

    def __init__(self, turn: Turn) -> None:
        super().__init__()
        self._turn = turn
        self._folded = True
        self.show()

    def fold(self) -> None:
        """Fold or unfold."""
        self._folded = not self._folded
        self.show()

    def on_click(self) -> None:
        self.fold()

    def show(self) -> None:
        """Show the thought as far as it has got."""
        parts = thinking.split(self._turn.reply)
        self.display = bool(parts.thought) or not parts.over
        if not self.display:
            return
        tokens = self._turn.thought_tokens
        length = bars.plural(tokens, "token") if tokens else bars.plural(len(parts.thought.split()), "word")
        streaming = self._turn.state is State.STREAMING
        said = f"thought for {length}" if parts.over else f"thinking… {length}" if streaming else f"thought {length}"
        head = Content.assemble((f"{'▸' if self._folded else '▾'} {said}", "$dim"))
        if self._folded:
            self.update(head)
        else:
            self.update(Content.assemble(head, "\n", (parts.thought, "$dim italic")))


class FigureLine(Widget):
    """The figures of a reply in one line, the important ones first; those that do not fit are left out."""

    segments: reactive[Sequence[Content]] = reactive(tuple)

    def render(self) -> Content:
        return bars.fit([segment for segment in self.segments if segment], self.content_size.width, gap="  ·  ")

    def action_wish(self, wish: str) -> None:
        """A click on a version."""
        if isinstance(self.parent, MessageView):
            self.parent.action_wish(wish)


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


def _marking(shown: str, text: str) -> Content:
    """The text of a prompt with every place of ``text`` marked."""
    content = Content(shown)
    low, place = shown.lower(), -1
    while text and (place := low.find(text.lower(), place + 1)) >= 0:
        content = content.stylize("$background on $warning", place, place + len(text))
    return content


def _nth(text: str, part: str, occurrence: int) -> int:
    """Where a part stands for the n-th time, counted from 0."""
    place = -1
    for _ in range(occurrence + 1):
        place = text.lower().find(part.lower(), place + 1)
    return place


def views_of(turns: Sequence[Turn]) -> list[MessageView]:
    """A prompt and a reply for each turn."""
    return [view for turn in turns for view in (PromptView(turn), ReplyView(turn))]
