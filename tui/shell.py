"""Commands of the user's own shell: a line that begins with ``!`` is run, and its output may go along with a prompt.

Only what the user types gets here. Nothing that a model says is ever run.
"""

from __future__ import annotations

import asyncio
import re
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from contextlib import suppress
from typing import ClassVar

import psutil
from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from . import bars
from .attachments import Attachment, size_of
from .messages import LogItem

CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f]")
"""What is for a terminal alone: colours, titles and other control characters."""
SHOWN_LINES = 20
KEPT_BYTES = 200_000
"""Of a longer output only this much is kept; the rest is read and dropped, so that the command can end."""


class ShellView(LogItem, Static):
    """A command, the beginning of what it printed, and how it ended."""

    BINDINGS: ClassVar = [
        Binding("a", "attach", "Attach the output", show=False, id="shell.attach"),
        Binding("y", "copy", "Copy the output", show=False, id="shell.copy"),
        Binding("enter,space", "fold", "Fold or unfold", show=False, id="shell.fold"),
    ]
    KEYS: ClassVar = (
        ("app.write", "Esc", "back"),
        ("focused.attach", "a", "attach"),
        ("focused.copy", "y", "copy"),
        ("focused.fold", "Enter", "fold"),
    )

    class Attached(Message):
        """The output shall go along with the next prompt."""

        def __init__(self, attachment: Attachment) -> None:
            super().__init__()
            self.attachment = attachment

    def __init__(self, command: str) -> None:
        super().__init__()
        self.command = command
        self._process: Process | None = None
        self._kept = b""
        self._dropped = 0
        self._folded = True
        self._ending = "running, Esc stops it"

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def output(self) -> str:
        """What it printed, without colours, clipped with a note."""
        lines = self._kept.decode("utf-8", "replace").split("\n")
        # Of a line that is written over and over, such as a progress bar, the last state counts.
        text = CONTROL.sub("", "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)).rstrip()
        return f"{text}\n… {size_of(self._dropped)} more, not kept" if self._dropped else text

    def on_mount(self) -> None:
        self._show()

    def on_unmount(self) -> None:
        self.stop()

    async def run(self) -> None:
        """Run the command to its end."""
        try:
            process = await asyncio.create_subprocess_shell(self.command, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT)
        except OSError as error:
            self._ending = f"could not be started: {error.strerror}"
            self._show()
            return
        self._process = process
        assert process.stdout is not None
        while data := await process.stdout.read(65536):
            room = KEPT_BYTES - len(self._kept)
            self._kept += data[:room]
            self._dropped += max(0, len(data) - room)
            if room > 0:
                self._show()
        code = await process.wait()
        self._process = None
        self._ending = "" if code == 0 else f"stopped by signal {-code}" if code < 0 else f"exit code {code}"
        self._show()

    def stop(self) -> None:
        """Kill the command and what it started."""
        if self._process is None:
            return
        with suppress(psutil.NoSuchProcess):
            shell = psutil.Process(self._process.pid)
            for process in [*shell.children(recursive=True), shell]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()

    def action_attach(self) -> None:
        self.post_message(self.Attached(Attachment(f"$ {self.command}", self.output)))

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self.output)
        self.notify(f"Copied the output, {bars.plural(len(self.output), 'character')}.", timeout=2)

    def action_fold(self) -> None:
        self._folded = not self._folded
        self._show()

    def _show(self) -> None:
        lines = self.output.split("\n")
        shown = lines[:SHOWN_LINES] if self._folded else lines
        parts = [Content.assemble(("$ ", "$dim"), (self.command, "bold"))]
        if self._kept:
            parts.append(Content("\n".join(shown)))
        if len(shown) < len(lines):
            more = bars.plural(len(lines) - len(shown), "more line")
            parts.append(Content.from_markup(f"[$dim][@click=fold]… {more}[/][/]"))
        foot = [Content.assemble((self._ending, "$dim"))] if self._ending else []
        if not self.is_running and self._kept:
            foot.append(Content.from_markup("[$dim][@click=attach]/attach[/] takes it along with the next prompt[/]"))
        if foot:
            parts.append(Content("  ·  ").join(foot))
        self.update(Content("\n").join(parts))
        self.post_message(self.Grew())
