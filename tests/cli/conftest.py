"""The command as a user starts it: a process of its own in another folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Localspec = Callable[..., subprocess.CompletedProcess[str]]

COMMAND = (sys.executable, "-m", "localspec")


@pytest.fixture
def localspec(tmp_path: Path) -> Localspec:
    """Runs localspec with arguments; ``stdin`` is piped in, else there is none. ``env`` adds variables."""

    def start(*arguments: object, stdin: str | bytes = b"", **env: str) -> subprocess.CompletedProcess[str]:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            [*COMMAND, *map(str, arguments)],
            input=data,
            capture_output=True,
            cwd=tmp_path,
            env={**os.environ, **env},
            timeout=300,
            check=False,
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    return start


@pytest.fixture
def is_error() -> Callable[[subprocess.CompletedProcess[str], str], None]:
    """Asserts that a run ended in one sentence on stderr with ``words`` in it, and exit code 2."""

    def check(done: subprocess.CompletedProcess[str], words: str) -> None:
        assert done.returncode == 2, done.stderr
        assert done.stdout == ""
        lines = done.stderr.splitlines()
        assert len(lines) == 1
        assert lines[0].startswith("localspec: error: ")
        assert lines[0].endswith((".", "?"))
        assert words in lines[0]

    return check
