"""What a pull shows: bars with rate and time left in a terminal, one line for each file elsewhere."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from localspec.pull import Lines, pull_pair
from tests.pull.conftest import FILE, REPO, Hub, Recorder, start_pull

NAME = f"{REPO}:Q4_K_M"
SMALL = "acme/small-GGUF"


@pytest.fixture
def pair(hub: Hub, model: Path, small_model: Path) -> Hub:
    hub.add_model(model)
    hub.add_model(small_model, repo=SMALL, file=small_model.name)
    return hub


def test_progress_grows_to_the_size_of_the_file(hub: Hub, model: Path, sink: Recorder) -> None:
    content = hub.add_model(model)
    pull_pair(NAME, progress=sink)
    done = [n for _, n in sink.done]
    assert done == sorted(done)
    assert done[0] == 0
    assert done[-1] == len(content)


def test_a_pipe_gets_one_line_for_each_file_and_the_paths_on_stdout(pair: Hub) -> None:
    output, errors = start_pull(NAME, "--model-draft", SMALL).communicate(timeout=30)
    assert [line.split(" (")[0] for line in errors.splitlines() if line.startswith("pulled")] == [
        f"pulled {FILE}",
        "pulled small-Q4_K_M.gguf",
    ]
    assert [Path(line).name for line in output.splitlines()] == [FILE, "small-Q4_K_M.gguf"]


def test_a_terminal_gets_a_bar_for_each_file_and_one_for_all(pair: Hub) -> None:
    pair.delay = 0.01
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "localspec", "pull", NAME, "--model-draft", SMALL]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(command, stderr=theirs, stdout=subprocess.DEVNULL, env=environment) as process:
        os.close(theirs)
        shown = b""
        try:
            while chunk := os.read(ours, 4096):
                shown += chunk
        except OSError:
            pass
        assert process.wait(timeout=30) == 0
    os.close(ours)
    text = shown.decode()
    for words in (FILE, "small-Q4_K_M.gguf", "in all", "MB/s"):
        assert words in text
    assert re.search(r"\d:\d\d:\d\d", text)


def test_a_sink_that_raises_stops_the_pull_and_the_next_resumes(hub: Hub, model: Path) -> None:
    class Stop(Exception):  # noqa: N818  # it is no error
        pass

    class Stopping(Recorder):
        def advance(self, name: str, done: int) -> None:
            if done > 200_000:
                raise Stop

    content = hub.add_model(model)
    with pytest.raises(Stop):
        pull_pair(NAME, progress=Stopping())
    hub.requests.clear()
    assert pull_pair(NAME).target.read_bytes() == content
    (transfer,) = hub.transfers()
    assert transfer.range is not None


def test_lines_are_plain_text(hub: Hub, model: Path) -> None:
    hub.add_model(model)
    stream = io.StringIO()
    pull_pair(NAME, progress=Lines(stream))
    assert re.fullmatch(
        rf"pulled {re.escape(FILE)} \(\d+ kB\)\n|pulled {re.escape(FILE)} \([\d.]+ MB\)\n", stream.getvalue()
    )
