"""What llama.cpp logs: kept in a file and in memory, and shown on stderr only when asked."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

ERROR = 4
CONTINUATION = 5
MIB = 1024 * 1024


class NativeLog:
    """Lines of one watch, with the questions that the binding asks of them."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, str]] = []

    def search(self, pattern: str) -> str | None:
        """First group of the first match in any line."""
        for _, line in self.lines:
            if match := re.search(pattern, line):
                return match.group(1)
        return None

    def out_of_memory(self) -> bool:
        reasons = r"(?i)(failed to allocate|unable to allocate|out of memory|cudaMalloc failed|std::bad_alloc)"
        return self.search(reasons) is not None

    def last_error(self) -> str | None:
        """The most telling error: the first one logged, without the name of the function that logged it."""
        errors = [line for level, line in self.lines if level == ERROR and line.strip()]
        return re.sub(r"^[\w ]+: ", "", errors[0].strip()).rstrip(".") if errors else None

    def buffer_bytes(self) -> int:
        """Sum of the buffers that llama.cpp says it allocated, in bytes: weights, KV cache, compute, output."""
        sizes = (re.search(r"buffer size = +([\d.]+) MiB", line) for _, line in self.lines)
        return int(sum(float(match.group(1)) for match in sizes if match) * MIB)


class NativeLogSink:
    """Receives llama.cpp's log callback for the whole process."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self.verbose = False
        self._file: TextIO | None = None
        self._watches: list[NativeLog] = []
        self._pending = ""
        self._level = 0

    def keep_in(self, path: Path | None, *, verbose: bool = False) -> None:
        """Append the log to ``path`` from now on, and print it to stderr as well when ``verbose``."""
        if self._file is not None:
            self._file.close()
        self.path, self.verbose, self._file = path, verbose, None

    @contextmanager
    def watch(self) -> Iterator[NativeLog]:
        """Collect the lines logged inside the block."""
        log = NativeLog()
        self._watches.append(log)
        try:
            yield log
        finally:
            self._watches.remove(log)

    def write(self, level: int, raw: bytes) -> None:
        """Take one piece of log, which may hold part of a line or several."""
        if level != CONTINUATION:
            self._level = level
        self._pending += raw.decode("utf-8", errors="replace")
        while "\n" in self._pending:
            line, self._pending = self._pending.split("\n", 1)
            self._deliver(line)

    def _deliver(self, line: str) -> None:
        for log in self._watches:
            log.lines.append((self._level, line))
        if self.verbose:
            sys.stderr.write(line + "\n")
        if self.path is None:
            return
        # The log must never be the reason that decoding fails, for example on a full disk.
        try:
            if self._file is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self.path.open("a", encoding="utf-8", buffering=1)
            self._file.write(line + "\n")
        except OSError:
            self.path = None


NATIVE_LOG = NativeLogSink()
