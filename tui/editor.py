"""The user's own editor, for a prompt that outgrows the input line."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from localspec.errors import LocalspecError

if TYPE_CHECKING:
    from textual.app import App

FALLBACKS = ("nano", "vi", "notepad")


def edited(app: App[int], text: str) -> str:
    """The text as it is when the editor ends; raises LocalspecError if there is no editor or it fails."""
    command = editor_of(os.environ)
    with tempfile.TemporaryDirectory(prefix="localspec-") as folder:
        path = Path(folder) / "prompt.md"
        path.write_text(text, encoding="utf-8")
        try:
            with app.suspend():
                code = subprocess.run([*command, str(path)], check=False).returncode
        except SuspendNotSupported:
            raise LocalspecError(
                "There is no terminal here that an editor could use: write in the input line."
            ) from None
        except OSError as error:
            raise LocalspecError(
                f"The editor {command[0]} cannot be started ({error.strerror}): set EDITOR."
            ) from error
        if code != 0:
            raise LocalspecError(f"The editor {command[0]} ended with code {code}, so the prompt is left as it was.")
        return path.read_text(encoding="utf-8", errors="replace").rstrip("\n")


def editor_of(environment: Mapping[str, str]) -> list[str]:
    """The command that VISUAL or EDITOR names, or an editor that is installed."""
    named = environment.get("VISUAL") or environment.get("EDITOR")
    if named:
        return shlex.split(named, posix=os.name == "posix")
    found = next((name for name in FALLBACKS if shutil.which(name)), None)
    if found is None:
        raise LocalspecError("No editor is known: set EDITOR to the one you use.")
    return [found]
