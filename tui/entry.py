"""The place where a prompt is written: the input line, what it could be completed to, and what goes along with it."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from localspec.errors import AttachmentError

from .attachments import Attachment, mentioned, read_file, with_attachments
from .commands.table import Command
from .completions import Completion, Completions
from .composer import Composer
from .files import best_matches, files_below

FILES_S = 10.0
"""How long the list of the working folder's files is used before it is read again."""
FILE_WORD = re.compile(r"(?:^|(?<=\s))@(\S*)$")

COMMAND_WIDTH = 14
"""Of a command's name and argument together, so that what most of them do stands in one column."""
GLUE = "\N{NO-BREAK SPACE}"
"""Keeps a chip in one line."""


class Chips(Static):
    """The attachments of the next prompt; a click removes one."""

    def show(self, attachments: Sequence[Attachment]) -> None:
        self.display = bool(attachments)
        chips = [
            Content.assemble(
                Content.from_markup(f"[$primary]▪[/]{GLUE}$name", name=attachment.name),
                (f"{GLUE}{attachment.size.replace(' ', GLUE)}{GLUE}", "$dim"),
                Content.from_markup(f"[bold @click=remove({index})]✕[/]"),
            )
            for index, attachment in enumerate(attachments)
        ]
        self.update(Content("   ").join(chips))

    def action_remove(self, index: int) -> None:
        if isinstance(self.parent, Entry):
            self.parent.detach(index)


class Entry(Vertical):
    """Everything about the prompt that is being written."""

    def __init__(self, commands: Sequence[Command]) -> None:
        super().__init__()
        self._commands = commands
        self._attachments: list[Attachment] = []
        self._files: list[str] = []
        self._listed = 0.0

    def compose(self) -> ComposeResult:
        yield Completions()
        yield Chips()
        yield Composer([f"/{command.name}" for command in self._commands])

    def on_mount(self) -> None:
        self._composer = self.query_one(Composer)
        self._completions = self._composer.completions = self.query_one(Completions)
        self._show_chips()

    def attach(self, attachment: Attachment) -> None:
        """Let a text go along with the next prompt; one of the same name is replaced."""
        self._attachments = [a for a in self._attachments if a.name != attachment.name] + [attachment]
        self._show_chips()

    def detach(self, index: int = -1) -> None:
        """Remove an attachment, the last one by default."""
        if self._attachments:
            del self._attachments[index]
            self._show_chips()

    def whole(self, prompt: str) -> str:
        """The prompt with everything that goes along with it; raises AttachmentError for a file that cannot."""
        named = {attachment.name for attachment in self._attachments}
        for path in mentioned(prompt):
            if str(path) not in named:
                self.attach(read_file(path))
        return with_attachments(prompt, self._attachments)

    def accept(self) -> None:
        """The prompt was sent with its attachments: start afresh."""
        self._composer.accept()
        self._attachments = []
        self._show_chips()

    @on(Composer.Changed)
    def _typed(self) -> None:
        word = self._composer.word
        if not self._composer.is_being_typed:
            self._completions.offer(())
        elif word.startswith("/"):
            self._completions.offer([_command(c) for c in self._commands if f"/{c.name}".startswith(word)])
        elif (found := FILE_WORD.search(self._composer.before_cursor)) is not None:
            self._offer_files(found[1])
        else:
            self._completions.offer(())

    @work(exclusive=True, group="files")
    async def _offer_files(self, typed: str) -> None:
        if time.monotonic() - self._listed > FILES_S:
            self._files = await asyncio.to_thread(files_below, Path.cwd())
            self._listed = time.monotonic()
        found = FILE_WORD.search(self._composer.before_cursor)
        if found is not None and found[1] == typed:
            self._completions.offer([_file(path) for path in best_matches(typed, self._files)])

    @on(Completions.OptionSelected)
    def _clicked(self, event: Completions.OptionSelected) -> None:
        self._composer.complete(self._completions.at(event.option_index))

    @on(Composer.Completed)
    def _completed(self, event: Composer.Completed) -> None:
        path = event.completion.path
        if path is None:
            return
        try:
            self.attach(read_file(path))
        except AttachmentError as problem:
            self.notify(str(problem), severity="warning")

    @on(Composer.Emptied)
    def _emptied(self) -> None:
        self.detach()

    def _show_chips(self) -> None:
        self.query_one(Chips).show(self._attachments)


def _command(command: Command) -> Completion:
    argument = command.argument.ljust(COMMAND_WIDTH - len(command.name))
    content = Content.assemble((f"/{command.name} ", "bold"), f"{argument}  ", (command.summary, "$dim"))
    ends = not command.argument or command.argument.startswith("[")
    return Completion(f"/{command.name}" if ends else f"/{command.name} ", content, ends=ends)


def _file(path: str) -> Completion:
    folder, name = os.path.split(path)
    return Completion(f"{path} ", Content.assemble((name, "bold"), f"  {folder}" if folder else ""), Path(path))
