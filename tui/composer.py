"""Where the user writes: several lines, a history, and completion of slash commands."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widgets import TextArea

from .conversation import Turn

NEWLINE_KEYS = {"shift+enter", "ctrl+j", "alt+enter"}


class Composer(TextArea):
    """The input line, which grows with its text."""

    class Submitted(Message):
        """The user wants this sent."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Left(Message):
        """The cursor goes to the last message of the chat."""

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
        self._commands = commands
        self._place = 0
        """Where in the history the text comes from; its length for text that is being written."""
        self._unsent = ""
        self.edited: Turn | None = None
        """The turn whose prompt is being edited."""

    def edit_prompt(self, turn: Turn | None) -> None:
        """Edit the prompt of a turn, or give that up for None."""
        if turn is not None:
            self.put(turn.prompt)
            self.focus()
        elif self.edited is not None:
            self.put("")
        self.edited = turn
        self.border_title = "" if turn is None else "editing an earlier prompt, Esc gives it up"

    def remember(self, prompts: Sequence[str]) -> None:
        """Set the history, oldest first."""
        self.prompts = list(prompts)
        self._place = len(self.prompts)

    def put(self, text: str) -> None:
        """Replace the text and go to its end."""
        self.load_text(text)
        self.move_cursor(self.document.end)

    def render_line(self, y: int) -> Strip:
        # TextArea cannot wrap its placeholder to no width at all, which a terminal may have while it is resized.
        return super().render_line(y) if self.content_size.width > 0 else Strip.blank(self.size.width)

    async def _on_key(self, event: events.Key) -> None:
        handled = True
        if event.key == "enter":
            self._submit()
        elif event.key in NEWLINE_KEYS:
            self.insert("\n")
        elif event.key == "up" and self.cursor_location[0] == 0 and self._at_visual_edge(-1):
            self._recall(self._place - 1)
        elif event.key == "down" and self._at_visual_edge(1):
            self._recall(self._place + 1)
        elif event.key in ("shift+tab", "ctrl+up") or (event.key == "tab" and not self.suggestion):
            self.post_message(self.Left())
        elif event.key == "escape" and self.edited is not None:
            self.edit_prompt(None)
        elif event.key in ("pageup", "pagedown"):
            await self.app.run_action(f"scroll_chat('{event.key.removeprefix('page')}')")
        elif event.key == "tab" and self.suggestion:
            self.insert(self.suggestion)
        elif event.character == "?" and not self.text:
            await self.app.run_action("help")
        elif event.key == "ctrl+d" and not self.text:
            await self.app.run_action("quit")
        else:
            handled = False
        if handled:
            event.stop()
            event.prevent_default()
            return
        await super()._on_key(event)

    def update_suggestion(self) -> None:
        """Complete the name of a slash command."""
        text = self.text
        fitting = [name for name in self._commands if name.startswith(text) and name != text]
        self.suggestion = fitting[0][len(text) :] if text.startswith("/") and fitting else ""

    def _submit(self) -> None:
        text = self.text.strip()
        if text:
            self.post_message(self.Submitted(text))

    def accept(self) -> None:
        """The text was sent: remember it and start afresh."""
        text = self.text.strip()
        if text in self.prompts:
            self.prompts.remove(text)
        self.prompts.append(text)
        self._place = len(self.prompts)
        self._unsent = ""
        self.load_text("")
        self.edit_prompt(None)

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
            self._unsent = self.text
        self._place = place
        self.put(self._unsent if place == len(self.prompts) else self.prompts[place])
