"""Where GGUFs already lie on this disk: localspec's own folder and those of other programs, which are only read.

Sizes are bytes. Each scan looks at names and sizes and opens no model.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from localspec import paths
from localspec.shards import PATTERN as SHARD
from localspec.shards import siblings

_DIGEST = re.compile(r"[0-9a-f]{64}")


class Owner(StrEnum):
    """Who put a file on the disk. Only the first two may be removed by localspec."""

    LOCALSPEC = "localspec"
    HUB = "Hugging Face cache"
    REGISTERED = "registered"
    OLLAMA = "Ollama"
    LM_STUDIO = "LM Studio"
    LLAMA_CPP = "llama.cpp cache"


@dataclass(frozen=True)
class Entry:
    """One model on disk."""

    name: str
    """What ``library.find`` and the commands call it."""
    path: Path
    """The file, or the first of its shards."""
    bytes: int
    """Of all shards together."""
    owner: Owner
    repo: str | None = None
    """Repository on the hub, where the place says so."""
    sha256: str | None = None
    """Known from the place, never computed here."""
    complete: bool = True
    """False while shards are missing."""

    @property
    def file(self) -> str:
        return self.path.name


def scan() -> Iterator[Entry]:
    """Every GGUF in every folder that exists; the same file may lie in several."""
    yield from own()
    yield from hub_cache()
    yield from registered()
    yield from lm_studio()
    yield from llama_cpp()
    yield from ollama()


def own() -> Iterator[Entry]:
    """localspec's models folder."""
    return in_folder(paths.models_dir(), Owner.LOCALSPEC)


def hub_cache() -> Iterator[Entry]:
    """The Hugging Face cache, one entry for each file name of a repository: its newest revision."""
    from huggingface_hub import constants, scan_cache_dir

    if not Path(constants.HF_HUB_CACHE).is_dir():
        return
    for repo in sorted(scan_cache_dir(constants.HF_HUB_CACHE).repos, key=lambda repo: repo.repo_id):
        if repo.repo_type != "model":
            continue
        seen: set[str] = set()
        for revision in sorted(repo.revisions, key=lambda revision: revision.last_modified, reverse=True):
            for file in sorted(revision.files, key=lambda file: str(file.file_path)):
                path = file.file_path
                name = path.relative_to(revision.snapshot_path).as_posix()
                if not _is_model(path) or name in seen:
                    continue
                seen.add(name)
                digest = file.blob_path.name if _DIGEST.fullmatch(file.blob_path.name) else None
                yield entry(path, Owner.HUB, repo=repo.repo_id, sha256=digest, name=f"{repo.repo_id}/{name}")


def registered() -> Iterator[Entry]:
    """Files and folders that were pulled by their path."""
    for path in registered_paths():
        if path.is_dir():
            yield from in_folder(path, Owner.REGISTERED)
        elif path.is_file():
            yield entry(path, Owner.REGISTERED)


def registered_paths() -> tuple[Path, ...]:
    """What ``localspec pull PATH`` was told about."""
    try:
        return tuple(Path(item) for item in json.loads(register_file().read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return ()


def register_file() -> Path:
    """A JSON list of absolute paths."""
    return paths.data_dir() / "registered.json"


def lm_studio() -> Iterator[Entry]:
    """LM Studio keeps ``publisher/repo/file.gguf``, the same names as the hub."""
    for root in (Path.home() / ".lmstudio" / "models", Path.home() / ".cache" / "lm-studio" / "models"):
        for found in in_folder(root, Owner.LM_STUDIO):
            parts = found.path.relative_to(root).parts
            repo = "/".join(parts[:2]) if len(parts) > 2 else None
            yield replace(found, repo=repo)


def llama_cpp() -> Iterator[Entry]:
    """What ``llama-server -hf`` and its kin downloaded before they moved to the Hugging Face cache."""
    if folder := os.environ.get("LLAMA_CACHE"):
        root = Path(folder)
    elif sys.platform == "darwin":
        root = Path.home() / "Library" / "Caches" / "llama.cpp"
    elif sys.platform == "win32":
        root = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "llama.cpp"
    else:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "llama.cpp"
    return in_folder(root, Owner.LLAMA_CPP)


def ollama() -> Iterator[Entry]:
    """Ollama names a model by a manifest and keeps its GGUF as a blob named by its SHA-256."""
    root = Path(os.environ.get("OLLAMA_MODELS") or Path.home() / ".ollama" / "models")
    for manifests in (root / "manifests", root / "manifests-v2"):
        for manifest in sorted(manifests.glob("*/*/*/*")):
            digest = _model_layer(manifest)
            blob = root / "blobs" / f"sha256-{digest}"
            if digest is None or not blob.is_file():
                continue
            host, namespace, model, tag = manifest.relative_to(manifests).parts
            owner = "" if namespace == "library" else f"{namespace}/"
            prefix = "" if host == "registry.ollama.ai" else f"{host}/"
            repo = f"{namespace}/{model}" if host in ("hf.co", "huggingface.co") else None
            name = f"{prefix}{owner}{model}:{tag}"
            yield Entry(name, blob, blob.stat().st_size, Owner.OLLAMA, repo=repo, sha256=digest)


def _model_layer(manifest: Path) -> str | None:
    """SHA-256 of the weights that an Ollama manifest names; None where it is not a manifest or has none."""
    try:
        layers = json.loads(manifest.read_text(encoding="utf-8"))["layers"]
        digests = [layer["digest"] for layer in layers if layer["mediaType"] == "application/vnd.ollama.image.model"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    digest = str(digests[0]).removeprefix("sha256:") if digests else ""
    return digest if _DIGEST.fullmatch(digest) else None


def in_folder(root: Path, owner: Owner) -> Iterator[Entry]:
    """Every model below a folder, sub-folders included."""
    for path in sorted(root.rglob("*.gguf")) if root.is_dir() else ():
        if _is_model(path) and path.is_file():
            yield entry(path, owner)


def _is_model(path: Path) -> bool:
    """A GGUF that stands for a model: no vision projector, no shard but the first."""
    if not path.name.lower().endswith(".gguf") or path.name.lower().startswith("mmproj"):
        return False
    shard = SHARD.fullmatch(path.name)
    return shard is None or int(shard["number"]) == 1


def entry(
    path: Path, owner: Owner, *, repo: str | None = None, sha256: str | None = None, name: str | None = None
) -> Entry:
    """One file, with its shards where it has some."""
    shards = siblings(path)
    present = [shard for shard in shards if shard.is_file()]
    size = sum(shard.stat().st_size for shard in present)
    digest = sha256 if len(shards) == 1 else None
    return Entry(name or path.stem, path, size, owner, repo, digest, complete=len(present) == len(shards))
