"""The local source: a file or folder that is used where it lies and remembered, never copied."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from localspec import model_folders
from localspec.gguf import read_header
from localspec.header import Header
from localspec.pull.plan import PlannedFile, Source
from localspec.pull.progress import ProgressSink
from localspec.shards import siblings


@dataclass(frozen=True)
class DiskFetch:
    """A file that is already on this disk."""

    path: Path
    register: Path | None = None
    """The file or folder to remember, where no scan would find it again."""

    @property
    def planned(self) -> PlannedFile:
        size = sum(shard.stat().st_size for shard in siblings(self.path) if shard.is_file())
        return PlannedFile(self.path.name, Source.DISK, "already on this disk", self.path, size, size)

    def header(self) -> Header:
        return read_header(self.path)

    def run(self, sink: ProgressSink) -> Path:
        if self.register is not None:
            remember(self.register)
        return self.path


def remember(path: Path) -> None:
    """Adds a file or folder to those that ``localspec list`` looks at."""
    write([*model_folders.registered_paths(), path.resolve()])


def forget(path: Path) -> None:
    """Takes a file or folder out of the list again; the file itself stays."""
    gone = path.resolve()
    write([known for known in model_folders.registered_paths() if known != gone])


def write(known: list[Path]) -> None:
    """Replaces the list in one step."""
    target = model_folders.register_file()
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_suffix(f".{os.getpid()}")
    new.write_text(json.dumps(list(dict.fromkeys(map(str, known))), indent=1), encoding="utf-8")
    new.replace(target)
