"""The app in a real terminal: tmux, real keys, real weights, and what is painted."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localspec import paths
from localspec.store import State, Store

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

ALWAYS = "-c 512 -t 1 --temp 0 --ignore-eos --draft draft-model --draft-max 3"


class Terminal:
    """A tmux window of its own server with a command in it."""

    def __init__(self, socket: Path, width: int, height: int, command: str) -> None:
        self._tmux = ["tmux", "-S", str(socket), "-f", "/dev/null"]
        environment = {**os.environ, "TERM": "xterm-256color", "SHELL": "/bin/sh"}
        self._call(
            "new-session", "-d", "-x", str(width), "-y", str(height), f"{command}; echo left with $?; sleep 60",
            env=environment,
        )  # fmt: skip

    def press(self, *keys: str) -> None:
        """Keys by tmux's names, or text."""
        self._call("send-keys", *keys)

    def screen(self) -> str:
        return self._call("capture-pane", "-p")

    def wait_for(self, condition: Callable[[str], object], seconds: float = 60) -> str:
        """The first screen of which something is true."""
        deadline = time.monotonic() + seconds
        while not condition(screen := self.screen()):
            assert time.monotonic() < deadline, screen
            time.sleep(0.1)
        return screen

    def buffer(self) -> str:
        """What was copied last."""
        return self._call("show-buffer")

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], check=False, capture_output=True)

    def _call(self, *arguments: str, env: dict[str, str] | None = None) -> str:
        return subprocess.run([*self._tmux, *arguments], check=True, capture_output=True, text=True, env=env).stdout


OpenTerminal = Callable[..., Terminal]


@pytest.fixture
def open_terminal(tmp_path: Path, smollm2: Path, smollm2_q2k: Path) -> Iterator[OpenTerminal]:
    opened = []

    def make(width: int, height: int, arguments: str = "", before: str = "") -> Terminal:
        command = f"{before} {sys.executable} -m localspec chat -m {smollm2} -md {smollm2_q2k} {ALWAYS} {arguments}"
        opened.append(Terminal(tmp_path / f"tmux{len(opened)}", width, height, command))
        return opened[-1]

    yield make
    for terminal in opened:
        terminal.close()


def acceptance(screen: str) -> list[str]:
    return re.findall(r"acc(?:eptance)? +([01]\.\d\d)", screen)


@pytest.mark.parametrize(("width", "height"), [(40, 20), (80, 24), (200, 50)])
def test_a_reply_is_sent_measured_and_stopped(width: int, height: int, open_terminal: OpenTerminal) -> None:
    terminal = open_terminal(width, height)
    terminal.wait_for(lambda screen: "ready" in screen)
    terminal.press("Count to one hundred.", "Enter")
    screen = terminal.wait_for(acceptance)
    assert "K 3" in screen
    assert len(screen.splitlines()) == height
    terminal.press("Escape")
    screen = terminal.wait_for(lambda screen: "stopped" in screen)
    assert 0 < float(acceptance(screen)[0]) < 1
    assert "Count to one hundred." in screen or height < 24
    terminal.press("C-q")
    terminal.wait_for(lambda screen: "left with 0" in screen)
    with Store(paths.database()) as store:
        prompt, reply = store.load(1).messages
    assert prompt.content == "Count to one hundred."
    assert reply.content
    assert reply.state is State.CANCELLED


def test_a_killed_app_keeps_the_partial_reply_and_resumes_it(open_terminal: OpenTerminal) -> None:
    terminal = open_terminal(80, 24, "'Count to one hundred.'")
    terminal.wait_for(acceptance)
    with Store(paths.database()) as store:
        deadline = time.monotonic() + 60
        while not store.load(1).messages[-1].content:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        (owner,) = store._db.execute("SELECT owner FROM messages WHERE state = 'streaming'").fetchone()
    os.kill(int(owner.split(":")[0]), signal.SIGKILL)
    terminal.wait_for(lambda screen: "left with 137" in screen)
    again = open_terminal(80, 24, "--resume last")
    screen = again.wait_for(lambda screen: "ready" in screen)
    assert "interrupted" in screen
    with Store(paths.database()) as store:
        reply = store.load(1).messages[-1]
    assert reply.state is State.INTERRUPTED
    assert reply.content.split()[0] in screen
    again.press("C-c")
    again.press("C-c")
    again.wait_for(lambda screen: "left with 0" in screen)


def test_keys_that_come_at_once_copy_within_tmux_and_open_the_editor(open_terminal: OpenTerminal) -> None:
    terminal = open_terminal(80, 24, "-n 8 'Count to ten.'", before="EDITOR='sed -i s/hello/goodbye/'")
    terminal.wait_for(lambda screen: "8 tokens" in screen and "ready" in screen)
    terminal.press("BTab", "y")
    terminal.wait_for(lambda screen: "Copied the message" in screen)
    with Store(paths.database()) as store:
        assert terminal.buffer() == store.load(1).messages[1].content
    terminal.press("Tab", "hello world")
    terminal.wait_for(lambda screen: "hello world" in screen)
    terminal.press("C-g")
    terminal.wait_for(lambda screen: "goodbye world" in screen)
    terminal.press("C-q")
    terminal.wait_for(lambda screen: "left with 0" in screen)
