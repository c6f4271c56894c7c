"""How a pull tells what it is doing: one small protocol, shown as bars, as lines, or not at all.

A sink may raise from any call to stop the pull; what has arrived stays and the next pull resumes it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

from localspec.sizes import size_text

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from localspec.pull.plan import PlannedFile


class ProgressSink(Protocol):
    """Receives the progress of one pull, in the thread that pulls."""

    def begin(self, files: Sequence[PlannedFile]) -> None:
        """The files that will be fetched, in order, just before the first byte."""

    def advance(self, name: str, done: int) -> None:
        """``done`` bytes of the file ``name`` are here; may go down when a part has to be fetched again."""

    def finish(self, name: str) -> None:
        """The file is whole and verified."""

    def note(self, text: str) -> None:
        """Something worth a line, for example that another source is used."""


class Silent:
    """Shows nothing."""

    def begin(self, files: Sequence[PlannedFile]) -> None: ...
    def advance(self, name: str, done: int) -> None: ...
    def finish(self, name: str) -> None: ...
    def note(self, text: str) -> None: ...


class Lines:
    """One line for each note and each finished file, for logs and pipes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._bytes: dict[str, int] = {}

    def begin(self, files: Sequence[PlannedFile]) -> None:
        self._bytes = {file.name: file.bytes for file in files}

    def advance(self, name: str, done: int) -> None: ...

    def finish(self, name: str) -> None:
        self.note(f"pulled {name} ({size_text(self._bytes[name])})")

    def note(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


class Bars:
    """A bar with rate and time left for each file, and one for all of them."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}
        self._done: dict[str, int] = {}
        self._total: TaskID | None = None

    def begin(self, files: Sequence[PlannedFile]) -> None:
        for file in files:
            self._tasks[file.name] = self._progress.add_task(file.name, total=file.bytes, completed=file.present)
            self._done[file.name] = file.present
        if len(files) > 1:
            total = sum(file.bytes for file in files)
            self._total = self._progress.add_task("in all", total=total, completed=sum(self._done.values()))

    def advance(self, name: str, done: int) -> None:
        self._progress.update(self._tasks[name], completed=done)
        self._done[name] = done
        if self._total is not None:
            self._progress.update(self._total, completed=sum(self._done.values()))

    def finish(self, name: str) -> None:
        self._progress.stop_task(self._tasks[name])

    def note(self, text: str) -> None:
        self._progress.console.print(text, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def terminal_sink(stream: TextIO | None = None) -> Iterator[ProgressSink]:
    """Bars where ``stream`` (standard error unless given) is a terminal, else lines."""
    stream = sys.stderr if stream is None else stream
    if not stream.isatty():
        yield Lines(stream)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    name = TextColumn("{task.description}", markup=False)
    name.get_table_column().no_wrap = True
    name.get_table_column().overflow = "ellipsis"
    columns = (name, BarColumn(bar_width=None), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=stream), expand=True) as progress:
        yield Bars(progress)
