"""A disk that fills up during a pull: one sentence, nothing broken, and the next pull goes on."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub.constants as hub_constants
import pytest

from localspec.errors import PullError
from localspec.pull import pull_pair
from tests.pull.conftest import FILE, REPO, Hub, start_pull

NAME = f"{REPO}:Q4_K_M"
SIZE = 80 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 80 MiB; skipped where none can be mounted."""
    mount = tmp_path / "small"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(mount)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no tmpfs can be mounted here")
    yield mount
    subprocess.run(["umount", "-l", str(mount)], check=True)


@pytest.fixture
def cache(hub: Hub, small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Hugging Face cache on the small disk."""
    monkeypatch.setenv("HF_HOME", str(small_disk / "hf"))
    monkeypatch.setattr(hub_constants, "HF_HUB_CACHE", str(small_disk / "hf" / "hub"))
    return small_disk / "hf" / "hub"


def fill(disk: Path) -> Path:
    """Writes a file until nothing more fits."""
    filler = disk / "filler"
    try:
        with filler.open("wb", buffering=0) as file:
            while True:
                file.write(b"\0" * (1 << 16))
    except OSError:
        return filler


def test_a_disk_that_is_too_small_is_refused_before_the_first_byte(hub: Hub, model: Path, cache: Path) -> None:
    hub.add_model(model)
    hub.claimed_size[FILE] = SIZE
    with pytest.raises(PullError, match="free and the pull needs"):
        pull_pair(NAME)
    assert hub.transfers() == []


def test_a_disk_that_fills_up_ends_in_one_sentence_and_the_next_pull_resumes(
    hub: Hub, model: Path, cache: Path, small_disk: Path
) -> None:
    content = hub.add_model(model)
    hub.delay = 0.01

    def fill_once(sent: int) -> None:
        if sent >= 300_000 and not (small_disk / "filler").exists():
            fill(small_disk)

    hub.on_bytes = fill_once
    process = start_pull(NAME)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 2
    assert "is full, so tiny-Q4_K_M.gguf is not complete: free some space and pull again to resume." in errors
    assert "Traceback" not in errors
    assert not list(cache.rglob("snapshots/**/*.gguf"))
    hub.on_bytes = None
    (small_disk / "filler").unlink()
    hub.requests.clear()
    assert pull_pair(NAME).target.read_bytes() == content
    (resumed,) = hub.transfers()
    assert resumed.range is not None
