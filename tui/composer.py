"""Where the user writes: several lines, a history, and completion of slash commands."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widgets import TextArea

from . import bars
from .completions import Completion, Completions
from .conversation import Turn

NEWLINE_KEYS = {"shift+enter", "ctrl+j", "alt+enter"}
PASTED_LINES, PASTED_CHARACTERS = 20, 2000
"""A longer paste is shown as one label; it is sent whole."""
EDITED_CHARACTERS = 20_000
"""So is a longer text that is put here to be edited."""


class Composer(TextArea):
    """The input line, which grows with its text."""

    class Submitted(Message):
        """The user wants this sent."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Completed(Message):
        """A word was completed."""

        def __init__(self, completion: Completion) -> None:
            super().__init__()
            self.completion = completion

    class Emptied(Message):
        """Backspace was pressed before all text."""

    def __init__(self, commands: Sequence[str] = ()) -> None:
        super().__init__(
            placeholder="Ask something",
            soft_wrap=True,
            compact=True,
            highlight_cursor_line=False,
            tab_behavior="focus",
            show_line_numbers=False,
        )
        self.prompts: list[str] = []
        """The history, oldest first."""
        self.completions: Completions | None = None
        """The list that is driven from here while it is open."""
        self.edited: Turn | None = None
        """The turn whose prompt is being edited."""
        self._commands = commands
        self._place = 0
        """Where in the history the text comes from; its length for text that is being written."""
        self._unsent = ""
        self._put: str | None = None
        """The text that was put here and not changed since."""
        self._pastes: dict[str, str] = {}
        """What the labels in the text stand for."""

    @property
    def whole(self) -> str:
        """The text with every label replaced by what it stands for."""
        text = self.text
        for label, pasted in self._pastes.items():
            text = text.replace(label, pasted, 1)
        return text

    @property
    def before_cursor(self) -> str:
        """The text of the cursor's line up to the cursor."""
        row, column = self.cursor_location
        return self.document.get_line(row)[:column]

    @property
    def word(self) -> str:
        """All of the text if it is one word, which may be a command, otherwise nothing."""
        text = self.text
        return text if len(text) < 100 and not any(c.isspace() for c in text) else ""

    @property
    def is_being_typed(self) -> bool:
        """False for text that was put here as a whole."""
        return self.text != self._put

    def edit_prompt(self, turn: Turn | None) -> None:
        """Edit the prompt of a turn, or give that up for None."""
        if turn is not None:
            self.put(turn.prompt)
            self.focus()
        elif self.edited is not None:
            self.put("")
        self.edited = turn
        self.border_title = "" if turn is None else "editing, Esc gives it up"

    def remember(self, prompts: Sequence[str]) -> None:
        """Set the history, oldest first."""
        self.prompts = list(prompts)
        self._place = len(self.prompts)

    def put(self, text: str) -> None:
        """Replace the text and go to its end."""
        self._pastes.clear()
        self._put = self._label(text) if len(text) > EDITED_CHARACTERS else text
        self.load_text(self._put)
        self.move_cursor(self.document.end)

    def complete(self, completion: Completion) -> None:
        """Replace the word before the cursor."""
        row, column = self.cursor_location
        begin = len(self.before_cursor) - len(self.before_cursor.split()[-1])
        self.replace(completion.text, (row, begin), (row, column))
        self._put = self.text
        self.post_message(self.Completed(completion))

    def render_line(self, y: int) -> Strip:
        # TextArea cannot wrap its placeholder to no width at all, which a terminal may have while it is resized.
        return super().render_line(y) if self.content_size.width > 0 else Strip.blank(self.size.width)

    async def _on_paste(self, event: events.Paste) -> None:
        text = event.text
        if text.count("\n") < PASTED_LINES and len(text) <= PASTED_CHARACTERS:
            return
        event.stop()
        event.prevent_default()
        self.replace(self._label(text), *self.selection)
        self.focus()

    async def _on_key(self, event: events.Key) -> None:
        if self.screen.focused is not self:
            # Typed so soon after the key that left the input line that it came here: it is for what is selected now.
            event.prevent_default()
            return
        if self._drive_completions(event.key) or self._edit(event.key) or await self._act(event):
            event.stop()
            event.prevent_default()
            return
        await super()._on_key(event)

    def _drive_completions(self, key: str) -> bool:
        """Whether the key was for the list of completions."""
        menu = self.completions
        if menu is None or (chosen := menu.chosen) is None:
            return False
        if key in ("up", "down"):
            menu.move(1 if key == "down" else -1)
        elif key == "escape":
            menu.offer(())
        elif key == "tab":
            self.complete(chosen)
        elif key == "enter" and self.text not in self._commands:
            self.complete(chosen)
            if chosen.ends:
                self._submit()
        else:
            return False
        return True

    def _edit(self, key: str) -> bool:
        """Whether the key changed the text or the place in the history."""
        if key == "enter":
            self._submit()
        elif key in NEWLINE_KEYS:
            self.insert("\n")
        elif key == "up" and self.cursor_location[0] == 0 and self._at_visual_edge(-1):
            self._recall(self._place - 1)
        elif key == "down" and self._at_visual_edge(1):
            self._recall(self._place + 1)
        elif key == "tab" and self.suggestion:
            self.insert(self.suggestion)
        elif key == "escape" and self.edited is not None:
            self.edit_prompt(None)
        elif key == "backspace" and self.selection.is_empty:
            return self._delete_label()
        else:
            return False
        return True

    async def _act(self, event: events.Key) -> bool:
        """Whether the key was for something outside the text."""
        if event.key in ("shift+tab", "ctrl+up", "tab"):
            await self.app.run_action("select_message")
        elif event.key in ("pageup", "pagedown"):
            await self.app.run_action(f"scroll_chat('{event.key.removeprefix('page')}')")
        elif event.key == "ctrl+end" or (event.key == "end" and not self.text):
            await self.app.run_action("scroll_chat('end')")
        elif event.character == "?" and not self.text:
            await self.app.run_action("help")
        elif event.key == "ctrl+d" and not self.text:
            await self.app.run_action("quit")
        else:
            return False
        return True

    def update_suggestion(self) -> None:
        """Complete the name of a slash command."""
        text = self.text
        fitting = [name for name in self._commands if name.startswith(text) and name != text]
        self.suggestion = fitting[0][len(text) :] if text.startswith("/") and fitting else ""

    def _submit(self) -> None:
        text = self.whole.strip()
        if text:
            self.post_message(self.Submitted(text))

    def accept(self) -> None:
        """The text was sent: remember it and start afresh."""
        text = self.whole.strip()
        if text in self.prompts:
            self.prompts.remove(text)
        self.prompts.append(text)
        self._place = len(self.prompts)
        self._unsent = ""
        self.edit_prompt(None)
        self.put("")

    def _label(self, text: str) -> str:
        """A label that stands for a text."""
        lines = text.count("\n") + 1
        what = bars.plural(lines, "line") if lines > 1 else bars.plural(len(text), "character")
        label, number = f"[pasted {what}]", 1
        while label in self._pastes:
            number += 1
            label = f"[pasted {what}, {number}]"
        self._pastes[label] = text
        return label

    def _delete_label(self) -> bool:
        """Delete the label before the cursor as a whole; before all text, tell that there is nothing to delete."""
        row, column = self.cursor_location
        if (row, column) == (0, 0):
            self.post_message(self.Emptied())
            return True
        for label in self._pastes:
            if self.before_cursor.endswith(label):
                self.delete((row, column - len(label)), (row, column))
                return True
        return False

    def _at_visual_edge(self, direction: int) -> bool:
        """Whether the cursor is on the first (-1) or last (1) line as it is wrapped."""
        location = self.cursor_location
        beyond = self.navigator.get_location_above if direction < 0 else self.navigator.get_location_below
        row = self.wrapped_document.location_to_offset(location).y
        return row == self.wrapped_document.location_to_offset(beyond(location)).y

    def _recall(self, place: int) -> None:
        if not 0 <= place <= len(self.prompts) or place == self._place:
            return
        if self._place == len(self.prompts):
            self._unsent = self.whole
        self._place = place
        self.put(self._unsent if place == len(self.prompts) else self.prompts[place])
