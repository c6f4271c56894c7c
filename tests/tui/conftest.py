"""Fixtures of the app's tests."""

from __future__ import annotations

import pytest

from localspec import config
from localspec.config import Settings


@pytest.fixture
def settings() -> Settings:
    """The defaults."""
    return config.load().settings


@pytest.fixture(autouse=True)
def _outside_tmux(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test copies is not for the tmux that the tests may run in."""
    monkeypatch.delenv("TMUX", raising=False)
