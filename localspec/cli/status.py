"""Progress on stderr, in a terminal only: loading a model, reading the prompt, the silent half of a comparison."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from localspec.events import Event, Prefill

if TYPE_CHECKING:
    from localspec.session import LoadProgress

WORTH_SHOWING_TOKENS = 64
"""A shorter prompt is read before a bar could be seen."""


class Status(Protocol):
    """What the terminal is told; ``clear`` leaves no trace before text is printed."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def loading(self, progress: LoadProgress) -> None: ...
    def reading(self, event: Event) -> None: ...
    def comparing(self, tokens: int, of: int) -> None: ...
    def clear(self) -> None: ...


class NoStatus:
    """Says nothing: stderr is not a terminal."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def loading(self, progress: LoadProgress) -> None: ...
    def reading(self, event: Event) -> None: ...
    def comparing(self, tokens: int, of: int) -> None: ...
    def clear(self) -> None: ...


class TerminalStatus:
    """One bar that goes away."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn())
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task("", visible=False, total=1.0)
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def loading(self, progress: LoadProgress) -> None:
        self._show(f"loading {progress.name}", progress.fraction)

    def reading(self, event: Event) -> None:
        if isinstance(event, Prefill) and event.total - event.cached >= WORTH_SHOWING_TOKENS:
            self._show(f"reading {event.total} prompt tokens", event.done / event.total)

    def comparing(self, tokens: int, of: int) -> None:
        self._show("the same without a draft", tokens / max(of, 1))

    def clear(self) -> None:
        if self._shown:
            self._progress.stop()
            self._shown = False

    def _show(self, text: str, fraction: float) -> None:
        self._progress.update(self._task, description=text, completed=fraction, visible=True)
        if not self._shown:
            self._progress.start()
            self._shown = True


def status() -> Status:
    """A bar where stderr is a terminal, else nothing."""
    return TerminalStatus() if sys.stderr.isatty() else NoStatus()
