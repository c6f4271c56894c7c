"""Ctrl-C while a pair is loaded or answers: once ends what runs in an orderly way, twice at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Self


class Interrupt:
    """Notes the first Ctrl-C in ``requested``; the second raises KeyboardInterrupt as usual."""

    def __init__(self) -> None:
        self.requested = False
        self._on_main_thread = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Self:
        if self._on_main_thread:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._on_main_thread:
            signal.signal(signal.SIGINT, self._before)

    def check(self) -> None:
        """Raises KeyboardInterrupt if Ctrl-C was pressed."""
        if self.requested:
            raise KeyboardInterrupt

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
