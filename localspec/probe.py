"""Load a GGUF in a child process before it is loaded here, because a bad one can kill llama.cpp with the whole process.

The header check refuses what it can see. What only shows in the native loader (a tensor of the wrong shape, an
assertion of one architecture, a crash) ends the child instead. Files that passed are remembered until they change.

The child is a fresh interpreter, not a fork: the parent may have threads, and a fork of them can deadlock.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from localspec import memory, paths, shards
from localspec.errors import ModelError
from localspec.gguf import read_header
from localspec.header import quoted

SLACK_BYTES = 2 << 30
START_S = 60.0
READ_BYTES_PER_S = 20e6
# Without these the child would wake every GPU, and print a backtrace by starting a debugger.
CHILD_ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "HIP_VISIBLE_DEVICES": "-1",
    "GGML_VK_VISIBLE_DEVICES": "",
    "GGML_NO_BACKTRACE": "1",
}


def probe(path: Path, *, timeout_s: float | None = None) -> None:
    """Make sure that llama.cpp loads this file and evaluates a token, at the risk of a child process only.

    ``timeout_s`` defaults to a minute and the time a slow disk needs to read the file. Raises GGUFError for what the
    header shows, ModelError for what the native loader says or dies of.
    """
    state = _state(path)
    if state and _remembered().get(str(path.resolve())) == state:
        return
    header = read_header(path)
    size = header.file_size or header.weight_bytes
    needed = memory.estimate(header, 256, n_ubatch=8, n_rows=1).total
    if timeout_s is None:
        timeout_s = START_S + size / READ_BYTES_PER_S
    error = _run(path, size + needed + SLACK_BYTES, timeout_s)
    if error is not None:
        raise ModelError(error)
    _remember(path, state)


def _run(path: Path, extra_bytes: int, timeout_s: float) -> str | None:
    """Why the file cannot be used, or None."""
    command = [sys.executable, "-P", "-m", "localspec.probe_child", str(path.resolve()), str(extra_bytes)]
    search = [entry or str(Path.cwd()) for entry in sys.path]
    environment = {**os.environ, **CHILD_ENVIRONMENT, "PYTHONPATH": os.pathsep.join(search)}
    try:
        child = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        return f"{path.name} did not load within {timeout_s:.0f} seconds; it may be damaged, or the disk is too slow."
    except OSError as error:
        return f"{path.name} could not be checked, because no process could be started: {error.strerror}."
    try:
        reason = json.loads(child.stdout)["error"]
    except (ValueError, KeyError):
        return _cause_of_death(path, child.returncode, child.stderr.decode("utf-8", "replace"))
    return None if reason is None else str(reason)


def _cause_of_death(path: Path, status: int, stderr: str) -> str:
    # What GGML_ASSERT and GGML_ABORT print: file, line, reason.
    if failed := re.search(r"^\S+\.[a-z]+:\d+: (.+)$", stderr, re.MULTILINE):
        return f"{path.name} is damaged or not supported: llama.cpp aborts on it with {quoted(failed.group(1), 200)}."
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"{path.name} is damaged or not supported: llama.cpp dies of it with {signal.Signals(-status).name}."
    last = quoted((stderr.strip().splitlines() or [f"exit code {status}"])[-1], 200)
    return f"{path.name} is damaged or not supported: the process that tried to load it ended with {last}."


def _state(path: Path) -> list[list[int]]:
    """Size and time of change of each file of the model."""
    stats = [part.stat() for part in shards.siblings(path) if part.is_file()]
    return [[stat.st_size, stat.st_mtime_ns] for stat in stats]


def _memory_file() -> Path:
    from importlib.metadata import version  # slow to import

    # Another llama.cpp may die of a file that this one loads.
    return paths.cache_dir() / f"loads-with-{version('llama-cpp-python')}.json"


def _remembered() -> dict[str, list[list[int]]]:
    try:
        known = json.loads(_memory_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _remember(path: Path, state: list[list[int]]) -> None:
    """Two processes may lose each other's entry here, which costs another probe and nothing else."""
    target = _memory_file()
    with contextlib.suppress(OSError):
        target.parent.mkdir(parents=True, exist_ok=True)
        known = {**_remembered(), str(path.resolve()): state}
        with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False, encoding="utf-8") as partial:
            json.dump(known, partial)
        Path(partial.name).replace(target)
