"""What the word that is being typed could become: a command, or a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option


@dataclass(frozen=True, slots=True)
class Completion:
    """One way to complete a word."""

    text: str
    """What the word becomes."""
    content: Content
    """How it is offered."""
    path: Path | None = None
    """The file that it attaches."""
    ends: bool = False
    """Whether nothing more needs to be typed after it."""


class Completions(OptionList, can_focus=False):
    """A list above the input line, driven by the keys of the input line, or clicked."""

    def __init__(self) -> None:
        super().__init__()
        self._offered: Sequence[Completion] = ()
        self.display = False

    @property
    def is_open(self) -> bool:
        return bool(self._offered)

    @property
    def chosen(self) -> Completion | None:
        return self._offered[self.highlighted or 0] if self._offered else None

    def at(self, index: int) -> Completion:
        """The one at a place of the list."""
        return self._offered[index]

    def offer(self, completions: Sequence[Completion]) -> None:
        """Show these; none closes the list."""
        if not completions and not self._offered:
            return
        self._offered = completions
        self.clear_options()
        self.add_options([Option(completion.content) for completion in completions])
        self.display = bool(completions)
        if completions:
            self.highlighted = 0

    def move(self, by: int) -> None:
        """Move the highlight, over the ends."""
        self.highlighted = ((self.highlighted or 0) + by) % len(self._offered)
