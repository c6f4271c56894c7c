"""Where localspec keeps its files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from localspec import paths

ALL = (
    paths.data_dir,
    paths.config_dir,
    paths.cache_dir,
    paths.models_dir,
    paths.log_file,
    paths.database,
    paths.user_config,
)


@pytest.mark.parametrize("where", ALL)
def test_one_variable_moves_everything(where: Callable[[], Path], localspec_home: Path) -> None:
    assert where().is_relative_to(localspec_home)


@pytest.mark.parametrize("where", ALL)
def test_without_it_the_platforms_folders_are_used(
    where: Callable[[], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOCALSPEC_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert "localspec" in str(where())
    assert where().is_relative_to(tmp_path)


def test_nothing_is_created_by_asking(localspec_home: Path) -> None:
    for where in ALL:
        where()
    assert list(localspec_home.iterdir()) == []


def test_a_home_folder_and_a_relative_folder_become_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOCALSPEC_HOME", "~/spec")
    assert paths.data_dir() == tmp_path / "spec"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOCALSPEC_HOME", "here")
    assert paths.data_dir() == tmp_path / "here"
