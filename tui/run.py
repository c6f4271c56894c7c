"""Opens the app in this terminal."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from localspec import paths

if TYPE_CHECKING:
    from localspec.config import Config
    from localspec.session import LoadProgress, Session


def run(config: Config, target: Path, draft: Path | None, prompt: str | None = None, resume: str | None = None) -> int:
    """Open the app in this terminal and return the exit code: 2 if the models could not be loaded.

    Raises ``ConfigError`` for an unknown theme.
    """
    from .app import LocalspecApp

    settings = config.settings

    def open_session(progress: Callable[[LoadProgress], None]) -> Session:
        from localspec.session import Session

        return Session.open(settings, target, draft, progress=progress)

    _log_to_file()
    pair = target.stem if draft is None else f"{target.stem} + {draft.stem}"
    app = LocalspecApp(settings, open_session, pair=pair, database=paths.database(), prompt=prompt, resume=resume)
    code = app.run()
    if not app.decoder.close(0):
        # A load in native code cannot be interrupted, and ending the interpreter under it could crash: leave at once.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)
    return (app.return_code or 0) if code is None else code


def _log_to_file() -> None:
    """Defects are logged in full where llama.cpp's log is: the screen belongs to the app."""
    path = paths.log_file()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        logging.getLogger("localspec").addHandler(logging.FileHandler(path, delay=True))
