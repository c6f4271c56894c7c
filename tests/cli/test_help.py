"""Help: complete, quick to load, and plain where colours are not wanted."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from localspec import __version__
from localspec.cli.main import COMMANDS, cli

HEAVY = ("llama_cpp", "numpy", "textual", "huggingface_hub", "pydantic", "yaml", "jinja2", "psutil")


def test_help_names_every_command_with_its_line() -> None:
    text = CliRunner().invoke(cli, ["--help"]).output
    for name, (_, summary) in COMMANDS.items():
        assert re.search(rf"{name} +{re.escape(summary)}", text)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_with_an_example(name: str) -> None:
    result = CliRunner().invoke(cli, [name, "--help"])
    assert result.exit_code == 0
    assert f"Example: localspec {name}" in result.output
    assert "Show this message and exit." in result.output


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_in_the_table_is_that_of_the_command(name: str) -> None:
    where, summary = COMMANDS[name]
    assert where.startswith("localspec.cli.")
    assert summary.endswith(".")


def test_help_of_the_program_imports_nothing_heavy() -> None:
    code = (
        "import sys; from localspec.cli.main import cli; cli.main(['--help'], standalone_mode=False); "
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_imports_no_engine_and_no_app(name: str) -> None:
    code = (
        f"import sys; from localspec.cli.main import cli; cli.main([{name!r}, '--help'], standalone_mode=False); "
        "print([name for name in ('llama_cpp', 'textual', 'numpy', 'huggingface_hub') if name in sys.modules], "
        "file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_without_a_command_and_a_terminal_the_help_is_printed(localspec: Any) -> None:
    done = localspec()
    assert done.returncode == 0
    assert "Usage: localspec" in done.stdout


def test_the_version_is_the_packages(localspec: Any) -> None:
    assert localspec("--version").stdout == f"localspec {__version__}\n"


def test_an_unknown_command_and_an_unknown_flag_are_one_sentence(localspec: Any, is_error: Any) -> None:
    is_error(localspec("rnu"), "No such command 'rnu'")
    is_error(localspec("run", "--tmep", "0", "hi"), "--tmep")
    is_error(localspec("run", "--temp", "hot", "hi"), "'hot' is not a valid float")


@pytest.mark.parametrize("no_color", [True, False])
def test_colours_obey_no_color(no_color: bool, tmp_path: Path) -> None:
    env = {**os.environ, "TERM": "xterm-256color"}
    env.pop("NO_COLOR", None)
    if no_color:
        env["NO_COLOR"] = "1"
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, "-m", "localspec", "--help"], stdout=theirs, cwd=tmp_path, env=env)
    os.close(theirs)
    shown = b""
    while piece := _read(ours):
        shown += piece
    os.close(ours)
    assert process.wait() == 0
    assert bool(re.search(rb"\x1b\[[\d;]*3\d", shown)) is not no_color


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # Linux reports the end of a pseudo-terminal as an error
        return b""
