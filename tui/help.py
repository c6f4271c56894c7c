"""The help screen: every key and every command on one page."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from .commands import COMMANDS

KEYS = (
    ("Enter", "send"),
    ("Shift+Enter, Ctrl+J", "new line"),
    ("Esc", "stop the reply, keep its text"),
    ("Up, Down", "earlier and later prompts"),
    ("Ctrl+R", "search the prompts"),
    ("@, Backspace", "attach a file, remove the last one"),
    ("!", "run a command of your own, Esc stops it"),
    ("Ctrl+G", "write in your editor"),
    ("Tab", "complete a command or a file"),
    ("PageUp, PageDown", "scroll the chat, Ctrl+End goes to its end"),
    ("Ctrl+F", "search in this conversation"),
    ("Ctrl+O", "reply again, the earlier reply stays"),
    ("Shift+Tab, click", "select a message; then Up and Down"),
    ("y, c", "copy it, its next code block"),
    ("e, r, b", "edit and resend, reply again, branch"),
    ("[, ]", "earlier and later version"),
    ("Enter on a message", "fold or unfold"),
    ("F8", "compare with dense decoding"),
    ("Ctrl+N", "new conversation"),
    ("Ctrl+S", "past conversations"),
    ("Ctrl+P", "command palette"),
    ("F1, ?", "this help"),
    ("Ctrl+C twice, Ctrl+Q", "quit; also Ctrl+D on an empty line"),
)

SIDE_BY_SIDE = 70
"""From this many columns on a key and what it does share a line."""

WORDS = (
    ("acceptance", "share of the drafted tokens that the target took"),
    ("K", "the most tokens drafted in a round"),
    ("tokens/round", "tokens from one pass of the target"),
    ("survival s_j", "how often the first j drafts were all accepted"),
    ("now, all", "the last 64 rounds, and since the app started"),
)


class HelpScreen(ModalScreen[None]):
    """Closes with any of the keys that one would try."""

    BINDINGS: ClassVar = [("escape,q,f1,question_mark,enter", "dismiss", "Close")]

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="dialog"):
            yield Static(id="help")

    def on_mount(self) -> None:
        self.query_one("#dialog").focus()

    def on_resize(self) -> None:
        self.query_one("#help", Static).update(help_text(side_by_side=self.size.width >= SIDE_BY_SIDE))


def help_text(*, side_by_side: bool) -> Content:
    """Keys, commands and words; what each means stands beside it, or below it where there is no room."""
    commands = [(f"/{c.name} {c.argument}".strip(), c.summary) for c in COMMANDS]
    sections = (("Keys", KEYS), ("Commands", commands), ("Words", WORDS))
    lines: list[Content] = []
    for title, entries in sections:
        lines.append(Content.assemble((title, "bold $primary")))
        for name, meaning in entries:
            if side_by_side:
                lines += [Content.assemble((f"  {name:<21}", "bold"), meaning)]
            else:
                lines += [Content.assemble((name, "bold")), Content.assemble((f"  {meaning}", "$dim"))]
        lines.append(Content(""))
    return Content("\n").join(lines[:-1])
