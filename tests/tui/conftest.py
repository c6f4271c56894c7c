"""Fixtures of the app's tests."""

from __future__ import annotations

import pytest

from localspec import config
from localspec.config import Settings


@pytest.fixture
def settings() -> Settings:
    """The defaults."""
    return config.load().settings
