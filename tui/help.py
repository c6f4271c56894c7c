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
    ("PageUp, PageDown", "scroll the chat"),
    ("Tab", "complete a command, or go to the chat"),
    ("Ctrl+N", "new conversation"),
    ("Ctrl+S", "past conversations"),
    ("Ctrl+P", "command palette"),
    ("F1, ?", "this help"),
    ("Ctrl+C twice, Ctrl+Q", "quit; also Ctrl+D on an empty line"),
)

WORDS = (
    ("acceptance", "draft tokens that the target accepted, as a share of those drafted; it falls as K grows"),
    ("K", "the most tokens drafted in a round"),
    ("tokens/round", "how far one pass of the target gets, its own token included"),
    ("survival s_j", "how often the first j drafts of a round were all accepted"),
    ("now, all", "the last 64 rounds; the conversation in this sitting"),
)


class HelpScreen(ModalScreen[None]):
    """Closes with any of the keys that one would try."""

    BINDINGS: ClassVar = [("escape,q,f1,question_mark,enter", "dismiss", "Close")]

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="dialog"):
            yield Static(help_text())

    def on_mount(self) -> None:
        self.query_one("#dialog").focus()


def help_text() -> Content:
    """Keys, commands and words, a line each."""
    commands = [(f"/{c.name} {c.argument}".strip(), c.summary) for c in COMMANDS]
    sections = (("Keys", KEYS), ("Commands", commands), ("Words", WORDS))
    lines: list[Content] = []
    for title, entries in sections:
        lines += [Content.assemble((title, "bold $primary"))]
        lines += [Content.assemble((f"  {left:<22}", "bold"), " ", right) for left, right in entries]
        lines += [Content("")]
    return Content("\n").join(lines[:-1])
