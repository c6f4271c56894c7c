"""What is removed, what is kept because another pair needs it, and what is refused."""

from __future__ import annotations

from pathlib import Path

import huggingface_hub.constants as hub_constants
import pytest

from localspec import catalog, library, paths, removal
from localspec.errors import PullError
from localspec.pull import local
from tests.test_library import put, put_in_cache, put_in_ollama

KNOWN = catalog.load()
SMALL, LARGE = KNOWN.pairs["qwen2.5-coder-1.5b"], KNOWN.pairs["qwen2.5-coder-7b"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("OLLAMA_MODELS", raising=False)
    monkeypatch.setattr(hub_constants, "HF_HUB_CACHE", str(home / "hf"))
    return home


def remove(name: str) -> None:
    for item in removal.plan(name):
        item.run()


def put_own(file: catalog.CatalogFile) -> Path:
    return put(paths.models_dir() / file.file, file.bytes)


def test_a_pair_goes_as_a_whole() -> None:
    files = [put_own(file) for file in SMALL.files]
    remove(SMALL.name)
    assert not any(file.exists() for file in files)


def test_a_draft_that_another_pair_here_needs_is_kept() -> None:
    assert SMALL.draft == LARGE.draft
    target, draft, other = (put_own(file) for file in (*SMALL.files, LARGE.target))
    remove(SMALL.name)
    assert [target.exists(), draft.exists(), other.exists()] == [False, True, True]


def test_all_shards_of_a_model_go() -> None:
    shards = [put(paths.models_dir() / f"big-0000{n}-of-00002.gguf") for n in (1, 2)]
    remove("big-00001-of-00002")
    assert not any(shard.exists() for shard in shards)


def test_one_file_of_a_repository_in_the_cache_goes_with_its_blob_and_the_other_stays() -> None:
    gone = put_in_cache("a/b", "x-Q4_K_M.gguf")
    old = put_in_cache("a/b", "x-Q4_K_M.gguf", commit="b" * 40)
    stays = put_in_cache("a/b", "x-Q8_0.gguf", sha256="e" * 64)
    blob = gone.resolve()
    remove("a/b:Q4_K_M")
    assert not blob.exists()
    assert not gone.is_symlink()
    assert not old.is_symlink()
    assert stays.read_bytes() == b"\0" * 100


def test_the_last_file_takes_the_repository_s_folder_with_it() -> None:
    put_in_cache("a/b", "x-Q4_K_M.gguf")
    remove("a/b:Q4_K_M")
    assert not (Path(hub_constants.HF_HUB_CACHE) / "models--a--b").exists()


def test_a_registered_file_is_forgotten_and_stays(tmp_path: Path) -> None:
    path = put(tmp_path / "mine.gguf")
    local.remember(path)
    remove(str(path))
    assert path.exists()
    assert library.scan() == []


def test_what_an_interrupted_pull_left_is_removed() -> None:
    file = SMALL.target
    staging = put(paths.models_dir() / ".partial" / file.file / "data").parent
    blobs = Path(hub_constants.HF_HUB_CACHE) / f"models--{file.repo.replace('/', '--')}" / "blobs"
    partial = put(blobs / "abc.incomplete")
    remove(SMALL.name)
    assert not staging.exists()
    assert not partial.exists()


def test_what_other_programs_hold_is_refused_and_stays(elsewhere: Path) -> None:
    blob = put_in_ollama(elsewhere, "m", "latest", "a" * 64)
    with pytest.raises(PullError, match="is Ollama's, so remove it with `ollama rm`"):
        removal.plan("m:latest")
    studio = put(elsewhere / ".lmstudio" / "models" / "a" / "b" / "c.gguf")
    with pytest.raises(PullError, match="is LM Studio's"):
        removal.plan(str(studio))
    assert blob.exists()
    assert studio.exists()


def test_a_file_outside_of_every_known_folder_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path / "stranger.gguf")
    with pytest.raises(PullError, match="delete it yourself"):
        removal.plan(str(path))


def test_what_is_not_here_says_so() -> None:
    with pytest.raises(PullError, match="not on this disk"):
        removal.plan(SMALL.name)
