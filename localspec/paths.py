"""Where localspec keeps its own files. ``LOCALSPEC_HOME`` puts all of them under one folder.

Nothing is created here: whoever writes a file makes its folder. Models from the Hugging Face hub are not kept here but
in the hub's own cache.
"""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

APP = "localspec"


def _home() -> Path | None:
    home = os.environ.get("LOCALSPEC_HOME")
    return Path(home).expanduser().absolute() if home else None


def data_dir() -> Path:
    """Models, conversations and what localspec remembers about files."""
    return _home() or platformdirs.user_data_path(APP, appauthor=False)


def config_dir() -> Path:
    """The user's config.yaml."""
    return _home() or platformdirs.user_config_path(APP, appauthor=False)


def cache_dir() -> Path:
    """What can be deleted at any time and is made again."""
    home = _home()
    return home / "cache" if home else platformdirs.user_cache_path(APP, appauthor=False)


def models_dir() -> Path:
    """GGUFs that did not come from the hub."""
    return data_dir() / "models"


def log_file() -> Path:
    """What llama.cpp logs."""
    home = _home()
    return (home or platformdirs.user_log_path(APP, appauthor=False)) / "localspec.log"


def database() -> Path:
    """Conversations."""
    return data_dir() / "conversations.sqlite3"


def user_config() -> Path:
    """The user's configuration file: ``LOCALSPEC_CONFIG`` if set, else config.yaml in the configuration folder."""
    named = os.environ.get("LOCALSPEC_CONFIG")
    return Path(named).expanduser().absolute() if named else config_dir() / "config.yaml"
