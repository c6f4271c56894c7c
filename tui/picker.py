"""A list to pick from, narrowed by typing: past conversations, and past prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option


@dataclass(frozen=True, slots=True)
class Row:
    """One thing to pick."""

    key: str
    content: Content


class Picker(ModalScreen[str | None]):
    """Returns the key of the picked row, or None.

    ``find`` gives the rows for what was typed; ``delete``, where rows can be deleted, takes a row's key.
    """

    BINDINGS: ClassVar = [
        Binding("escape", "dismiss_nothing", "Close"),
        Binding("up", "move(-1)", show=False, priority=True),
        Binding("down", "move(1)", show=False, priority=True),
        Binding("pageup", "move(-10)", show=False, priority=True),
        Binding("pagedown", "move(10)", show=False, priority=True),
        Binding("ctrl+x", "delete", "Delete", priority=True),
    ]

    def __init__(
        self, title: str, find: Callable[[str], Sequence[Row]], delete: Callable[[str], None] | None = None
    ) -> None:
        super().__init__()
        self._title = title
        self._find = find
        self._delete = delete
        self._doomed: str | None = None
        """The row that a second press of the delete key deletes."""

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Static(self._title, id="title")
            yield Input(placeholder="type to search")
            yield OptionList()
            yield Static("", id="hint")

    def on_mount(self) -> None:
        self._fill("")
        self._hint()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._fill(event.value)

    @on(Input.Submitted)
    def _entered(self) -> None:
        self.dismiss(self._picked())

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)

    def action_dismiss_nothing(self) -> None:
        self.dismiss(None)

    def action_move(self, by: int) -> None:
        rows = self.query_one(OptionList)
        if rows.option_count:
            rows.highlighted = min(max((rows.highlighted or 0) + by, 0), rows.option_count - 1)
            self._doomed = None
            self._hint()

    def action_delete(self) -> None:
        picked = self._picked()
        if self._delete is None or picked is None:
            return
        if picked != self._doomed:
            self._doomed = picked
            self._hint()
            return
        self._delete(picked)
        self._doomed = None
        place = self.query_one(OptionList).highlighted or 0
        self._fill(self.query_one(Input).value)
        self.action_move(place)

    def _picked(self) -> str | None:
        option = self.query_one(OptionList).highlighted_option
        return None if option is None else option.id

    def _fill(self, typed: str) -> None:
        rows = self.query_one(OptionList)
        rows.clear_options()
        found = self._find(typed)
        rows.add_options([Option(row.content, id=row.key) for row in found])
        if found:
            rows.highlighted = 0

    def _hint(self) -> None:
        hint = self.query_one("#hint", Static)
        if self._doomed is not None:
            hint.update(Content.assemble(("^X again deletes it for good", "bold $error")))
        else:
            hint.update("Enter picks  Esc closes" + ("  ^X deletes" if self._delete else ""))
