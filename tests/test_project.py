"""Files of the project that must agree with each other."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from localspec import __version__
from localspec.cli.main import COMMANDS

ROOT = Path(__file__).parent.parent


def lines(file: str) -> list[str]:
    return (ROOT / file).read_text(encoding="utf-8").splitlines()


def set_up() -> list[str]:
    return [line for line in lines("README.md") if line.startswith("python3 -m venv .venv && ")]


def test_the_readme_sets_everything_up_in_two_commands() -> None:
    chat, tests = set_up()
    assert '&& .venv/bin/localspec chat "' in chat
    assert tests.endswith("&& .venv/bin/pytest")


def test_ci_runs_the_readmes_second_command_as_it_stands() -> None:
    assert set_up()[1] in lines(".ci/run")
    assert set_up()[1] in lines("CONTRIBUTING.md")


def test_the_readme_names_every_command() -> None:
    text = "\n".join(lines("README.md"))
    for command in COMMANDS:
        assert re.search(rf"`(localspec )?{command}\b", text), command


@pytest.mark.parametrize("file", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_to_files(file: str) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", "\n".join(lines(file))):
        assert (ROOT / target).exists(), target


def test_the_version_is_stated_once() -> None:
    project = tomllib.loads("\n".join(lines("pyproject.toml")))["project"]
    assert "version" in project["dynamic"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, at its top or inside a function."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def importers(prefix: str, *folders: str) -> set[str]:
    """The files under ``folders`` that import a module whose name starts with ``prefix``."""
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return {
        str(path.relative_to(ROOT))
        for path in files
        if any(name == prefix or name.startswith(f"{prefix}.") for name in imports(path))
    }


ENGINE = ("sequence", "sampling", "noise", "verify", "decode", "detokenize")


def test_only_the_binding_touches_llama_cpp() -> None:
    assert importers("llama_cpp", "localspec", "tui") == {"localspec/llama.py", "localspec/ggml.py"}


def test_only_the_command_that_opens_the_app_imports_it() -> None:
    assert importers("localspec.tui", "localspec") == {"localspec/cli/run.py"}


def test_nothing_but_the_entry_points_imports_the_commands() -> None:
    outside = {file for file in importers("localspec.cli", "localspec", "tui") if not file.startswith("localspec/cli/")}
    assert outside == {"localspec/__main__.py"}


@pytest.mark.parametrize("outer", ["llama", "ggml", "session", "config", "pull", "library", "store", "catalog"])
def test_the_engine_depends_on_nothing_outside_it(outer: str) -> None:
    engine = {f"localspec/{name}.py" for name in ENGINE}
    engine |= {str(path.relative_to(ROOT)) for path in (ROOT / "localspec" / "drafters").glob("*.py")}
    assert not engine & importers(f"localspec.{outer}", "localspec")
