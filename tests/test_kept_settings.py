"""Settings that belong to a conversation."""

from __future__ import annotations

from localspec import config
from localspec.kept_settings import KEPT, kept, restored


def test_what_is_kept_comes_back() -> None:
    configured = config.load().settings
    used = configured.changed(temp=0, verify="greedy", seed=3, system="Be brief.", draft_max=5)
    assert restored(configured, kept(used)) == used
    assert set(kept(used)) == set(KEPT)


def test_what_this_version_does_not_take_is_left_as_configured() -> None:
    configured = config.load().settings
    assert restored(configured, {"draft": True, "temp": 0.3, "ctx_size": 7, "new": 1}) == configured.changed(temp=0.3)
