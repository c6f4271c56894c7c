"""What every source shares: one pull at a time for each file, disk errors in a sentence, hashes."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from localspec.errors import PullError
from localspec.pull.progress import ProgressSink

if TYPE_CHECKING:
    from hashlib import _Hash

CHUNK = 1 << 20

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


@contextmanager
def held(lock: Path, sink: ProgressSink, name: str) -> Iterator[None]:
    """Waits until no other process pulls ``name``, then keeps others waiting. The lock dies with the process."""
    from filelock import FileLock, Timeout

    lock.parent.mkdir(parents=True, exist_ok=True)
    guard = FileLock(lock)
    try:
        guard.acquire(timeout=0)
    except Timeout:
        sink.note(f"Another pull of {name} is running, waiting for it.")
        guard.acquire(poll_interval=0.2)
    try:
        yield
    finally:
        guard.release()


@contextmanager
def disk_errors(name: str, folder: Path) -> Iterator[None]:
    """Turns what the disk refuses into one sentence; everything else passes."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise PullError(
                f"The disk of {folder} is full, so {name} is not complete: free some space and pull again to resume."
            ) from error
        if error.errno in _FORBIDDEN:
            raise PullError(
                f"{folder} cannot be written ({error.strerror}), so choose another with HF_HOME or LOCALSPEC_HOME."
            ) from error
        raise


def hash_file(path: Path, digest: _Hash) -> None:
    """Feeds a whole file to ``digest``."""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)


def sha256_of(path: Path) -> str:
    """SHA-256 of a whole file."""
    digest = hashlib.sha256()
    hash_file(path, digest)
    return digest.hexdigest()
