"""Models are found wherever they lie, recognised, and never touched."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import huggingface_hub.constants as hub_constants
import pytest

from localspec import catalog, library, paths
from localspec.errors import PullError
from localspec.library import NotOnDiskError, Owner
from localspec.pull import local

COMMIT = "c0ffee" + "0" * 34
CODER = catalog.load().pairs["qwen2.5-coder-1.5b"]


@dataclass(frozen=True)
class Names:
    """The part of the settings that names models."""

    model: str | None = None
    model_draft: str | None = None
    drafters: tuple[str, ...] = ("draft-model",)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder and a Hugging Face cache of their own."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("OLLAMA_MODELS", "LLAMA_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(hub_constants, "HF_HUB_CACHE", str(home / "hf"))
    return home


def put(path: Path, size: int = 100) -> Path:
    """A file that takes up ``size`` bytes for those who ask, and none on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.truncate(path, size)
    return path


def put_in_cache(repo: str, file: str, size: int = 100, sha256: str = "d" * 64, commit: str = COMMIT) -> Path:
    """A file in the Hugging Face cache as the library lays it out."""
    folder = Path(hub_constants.HF_HUB_CACHE) / f"models--{repo.replace('/', '--')}"
    blob = put(folder / "blobs" / sha256, size)
    link = folder / "snapshots" / commit / file
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(blob)
    (folder / "refs").mkdir(exist_ok=True)
    (folder / "refs" / "main").write_text(commit)
    return link


def put_in_ollama(home: Path, name: str, tag: str, sha256: str, size: int = 100, folder: str = "manifests") -> Path:
    root = home / ".ollama" / "models"
    manifest = root / folder / "registry.ollama.ai" / "library" / name / tag
    manifest.parent.mkdir(parents=True, exist_ok=True)
    layers = [
        {"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:" + "e" * 64, "size": 3},
        {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{sha256}", "size": size},
    ]
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": layers}))
    return put(root / "blobs" / f"sha256-{sha256}", size)


def owners() -> dict[str, Owner]:
    return {entry.name: entry.owner for entry in library.scan()}


def test_an_empty_machine_has_no_models() -> None:
    assert library.scan() == []


def test_models_are_found_in_every_place(elsewhere: Path, tmp_path: Path) -> None:
    put(paths.models_dir() / "own.gguf")
    put_in_cache("acme/x-GGUF", "x-Q4_K_M.gguf")
    put_in_ollama(elsewhere, "llama3.2", "1b", "a" * 64)
    put(elsewhere / ".lmstudio" / "models" / "acme" / "y-GGUF" / "y-Q8_0.gguf")
    put(elsewhere / ".cache" / "lm-studio" / "models" / "acme" / "z-GGUF" / "z-Q8_0.gguf")
    put(elsewhere / ".cache" / "llama.cpp" / "acme_w-GGUF_w-Q4_0.gguf")
    local.remember(put(tmp_path / "mine" / "mine.gguf"))
    assert owners() == {
        "own": Owner.LOCALSPEC,
        "acme/x-GGUF/x-Q4_K_M.gguf": Owner.HUB,
        "llama3.2:1b": Owner.OLLAMA,
        "y-Q8_0": Owner.LM_STUDIO,
        "z-Q8_0": Owner.LM_STUDIO,
        "acme_w-GGUF_w-Q4_0": Owner.LLAMA_CPP,
        "mine": Owner.REGISTERED,
    }


def test_the_folders_of_other_programs_can_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_CACHE", str(tmp_path / "llama"))
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / ".ollama" / "models"))
    put(tmp_path / "llama" / "w.gguf")
    put_in_ollama(tmp_path, "m", "latest", "a" * 64)
    assert owners() == {"w": Owner.LLAMA_CPP, "m:latest": Owner.OLLAMA}


def test_projectors_later_shards_and_unfinished_files_are_no_models(elsewhere: Path) -> None:
    put(paths.models_dir() / "mmproj-x.gguf")
    put(paths.models_dir() / "big-00001-of-00002.gguf")
    put(paths.models_dir() / "big-00002-of-00002.gguf")
    put(paths.models_dir() / ".partial" / "half.gguf" / "data")
    put(Path(hub_constants.HF_HUB_CACHE) / "models--a--b" / "blobs" / "abc.incomplete")
    (entry,) = library.scan()
    assert entry.name == "big-00001-of-00002"
    assert entry.bytes == 200
    assert entry.complete


def test_a_model_that_lacks_a_shard_is_listed_as_incomplete_and_not_found() -> None:
    put(paths.models_dir() / "big-00001-of-00002.gguf")
    (entry,) = library.scan()
    assert not entry.complete
    with pytest.raises(NotOnDiskError):
        library.find("big-00001-of-00002")


def test_broken_manifests_and_missing_blobs_are_passed_over(elsewhere: Path) -> None:
    put_in_ollama(elsewhere, "gone", "latest", "a" * 64).unlink()
    manifest = elsewhere / ".ollama" / "models" / "manifests" / "registry.ollama.ai" / "library" / "bad" / "latest"
    manifest.parent.mkdir(parents=True)
    manifest.write_text("{")
    assert library.scan() == []


@pytest.mark.parametrize("name", ["llama3.2:1b", "ollama:llama3.2:1b", "ollama/llama3.2:1b"])
def test_an_ollama_model_is_found_by_its_tag(elsewhere: Path, name: str) -> None:
    blob = put_in_ollama(elsewhere, "llama3.2", "1b", "a" * 64)
    assert library.find(name) == blob


def test_the_newer_layout_of_ollama_is_read_and_latest_may_be_left_out(elsewhere: Path) -> None:
    blob = put_in_ollama(elsewhere, "phi", "latest", "a" * 64, folder="manifests-v2")
    assert library.find("phi") == blob


@pytest.mark.parametrize(
    "name",
    ["acme/x-GGUF:Q4_K_M", "acme/x-GGUF", "hf://acme/x-GGUF/x-Q4_K_M.gguf", "x-Q4_K_M", "X-q4_k_m.gguf"],
)
def test_a_file_of_the_cache_is_found_by_its_names(name: str) -> None:
    link = put_in_cache("acme/x-GGUF", "x-Q4_K_M.gguf")
    put_in_cache("acme/x-GGUF", "x-Q8_0.gguf", size=200, sha256="e" * 64)
    assert library.find(name) == link


def test_lm_studio_s_folders_are_repositories_too(elsewhere: Path) -> None:
    path = put(elsewhere / ".lmstudio" / "models" / "acme" / "y-GGUF" / "y-Q8_0.gguf")
    assert library.find("acme/y-GGUF:Q8_0") == path


def test_a_path_is_itself_and_a_folder_its_only_model(tmp_path: Path) -> None:
    path = put(tmp_path / "folder" / "m.gguf")
    assert library.find(str(path)) == path
    assert library.find(str(path.parent)) == path
    put(tmp_path / "folder" / "n.gguf")
    with pytest.raises(PullError, match="2 models in"):
        library.find(str(path.parent))


def test_a_path_that_does_not_exist_says_so(tmp_path: Path) -> None:
    with pytest.raises(PullError, match="There is no file"):
        library.find(str(tmp_path / "no.gguf"))


def test_a_name_for_two_different_files_is_not_guessed(elsewhere: Path) -> None:
    put(elsewhere / ".lmstudio" / "models" / "a" / "b" / "same.gguf", 100)
    put(elsewhere / ".cache" / "llama.cpp" / "same.gguf", 101)
    with pytest.raises(PullError, match="means more than one model"):
        library.find("same")


def test_two_copies_of_the_same_file_are_one() -> None:
    own = put(paths.models_dir() / "same.gguf", 100)
    put_in_cache("a/b", "same.gguf", 100)
    assert library.find("same") == own


def test_what_is_not_here_says_how_to_get_it() -> None:
    with pytest.raises(NotOnDiskError, match="nosuch is not on this disk: run `localspec pull nosuch`"):
        library.find("nosuch")


def test_a_catalogue_file_is_recognised_by_name_and_size_in_any_folder(elsewhere: Path) -> None:
    target = CODER.target
    path = put(elsewhere / ".lmstudio" / "models" / "any" / "where" / target.file, target.bytes)
    assert library.find_file(target) == path
    assert library.find(CODER.name) == path


def test_a_catalogue_file_of_another_size_is_not_it(elsewhere: Path) -> None:
    put(elsewhere / ".lmstudio" / "models" / "any" / "where" / CODER.target.file, CODER.target.bytes - 1)
    assert library.find_file(CODER.target) is None


def test_a_catalogue_file_is_recognised_by_its_hash_as_an_ollama_blob(elsewhere: Path) -> None:
    assert CODER.target.sha256 is not None
    blob = put_in_ollama(elsewhere, "qwen2.5-coder", "1.5b", CODER.target.sha256, CODER.target.bytes)
    assert library.find_file(CODER.target) == blob


def test_in_the_cache_the_repository_decides_when_the_owner_has_replaced_the_file() -> None:
    link = put_in_cache(CODER.target.repo, CODER.target.file, size=12345)
    assert library.find_file(CODER.target) == link


def test_the_newest_revision_of_a_file_is_used() -> None:
    old = put_in_cache("a/b", "x-Q4_K_M.gguf", commit="a" * 40)
    new = put_in_cache("a/b", "x-Q4_K_M.gguf", sha256="e" * 64, commit="b" * 40)
    os.utime(old.resolve(), (1, 1))
    assert library.find("a/b:Q4_K_M") == new


def put_pair() -> tuple[Path, Path]:
    assert CODER.draft is not None
    target = put(paths.models_dir() / CODER.target.file, CODER.target.bytes)
    return target, put(paths.models_dir() / CODER.draft.file, CODER.draft.bytes)


@pytest.mark.parametrize("model", [None, CODER.name])
def test_a_pair_of_the_catalogue_is_a_target_and_its_draft(model: str | None) -> None:
    target, draft = put_pair()
    assert library.resolve_pair(Names(model)) == (target, draft)


def test_the_target_of_a_pair_brings_its_draft_along_when_named_by_path() -> None:
    target, draft = put_pair()
    assert library.resolve_pair(Names(str(target))) == (target, draft)


def test_the_draft_can_be_left_out_or_replaced(tmp_path: Path) -> None:
    target, _ = put_pair()
    other = put(tmp_path / "other.gguf")
    assert library.resolve_pair(Names(CODER.name, drafters=())) == (target, None)
    assert library.resolve_pair(Names(CODER.name, str(other))) == (target, other)


def test_a_model_without_a_known_draft_stands_alone(tmp_path: Path) -> None:
    path = put(tmp_path / "any.gguf")
    assert library.resolve_pair(Names(str(path))) == (path, None)


def test_a_pair_without_its_draft_says_which_pull_completes_it() -> None:
    _, draft = put_pair()
    draft.unlink()
    with pytest.raises(NotOnDiskError, match=r"draft of qwen2\.5-coder-1\.5b is not on this disk"):
        library.resolve_pair(Names(CODER.name))


def test_scanning_changes_nothing(elsewhere: Path) -> None:
    put_in_ollama(elsewhere, "m", "latest", "a" * 64)
    put_in_cache("a/b", "x-Q4_K_M.gguf")

    def snapshot() -> dict[str, tuple[int, int]]:
        return {str(p): (p.lstat().st_size, p.lstat().st_mtime_ns) for p in elsewhere.rglob("*")}

    before = snapshot()
    library.scan()
    assert snapshot() == before
