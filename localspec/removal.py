"""Deletes models again: only what localspec or the Hugging Face cache holds; what other programs hold is refused."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from localspec import catalog, library, model_folders, paths
from localspec.catalog import CatalogFile
from localspec.errors import PullError
from localspec.model_folders import Entry, Owner
from localspec.model_names import parse_hub_name
from localspec.pull import local
from localspec.shards import siblings
from localspec.sizes import size_text

ELSEWHERE = {
    Owner.OLLAMA: "is Ollama's, so remove it with `ollama rm`",
    Owner.LM_STUDIO: "is LM Studio's, so remove it there",
    Owner.LLAMA_CPP: "is in llama.cpp's cache, so delete it there",
}


@dataclass(frozen=True)
class Removal:
    """One model that will go."""

    entry: Entry

    @property
    def what(self) -> str:
        """What happens, as a line for the user to agree to."""
        verb = "forget" if self.entry.owner is Owner.REGISTERED else "delete"
        return f"{verb} {self.entry.path} ({size_text(self.entry.bytes)})"

    def run(self) -> None:
        """Deletes all shards, or forgets a registered file."""
        if self.entry.owner is Owner.REGISTERED:
            _forget(self.entry.path)
        for shard in siblings(self.entry.path):
            if self.entry.owner is Owner.HUB:
                _delete_from_cache(shard)
            elif self.entry.owner is Owner.LOCALSPEC:
                shard.unlink(missing_ok=True)


@dataclass(frozen=True)
class Leftover:
    """What an interrupted pull left: a partial file in the Hugging Face cache, or a folder with joined wheels."""

    path: Path

    @property
    def what(self) -> str:
        parts = self.path.rglob("*") if self.path.is_dir() else (self.path,)
        return f"delete unfinished {self.path} ({size_text(sum(part.stat().st_size for part in parts))})"

    def run(self) -> None:
        if self.path.is_dir():
            shutil.rmtree(self.path)
        else:
            self.path.unlink(missing_ok=True)


def plan(name: str) -> list[Removal | Leftover]:
    """What ``localspec rm NAME`` removes. Raises PullError for what is not here or not localspec's to remove."""
    known = catalog.load()
    entries = library.scan()
    if name in known.pairs:
        pair = known.pairs[name]
        kept = _needed_elsewhere(pair.name, entries)
        files = [file for file in pair.files if file.key not in kept]
        found = [_entry_of(file, entries) for file in files]
    elif name in known.files:
        files = [known.files[name]]
        found = [_entry_of(known.files[name], entries)]
    else:
        files, found = [], [_entry_at(name, entries)]
    present = [entry for entry in found if entry is not None]
    for entry in present:
        if entry.owner in ELSEWHERE:
            raise PullError(f"{entry.path} {ELSEWHERE[entry.owner]}.")
    removals: list[Removal | Leftover] = [Removal(entry) for entry in present]
    removals += [Leftover(path) for path in _leftovers(name, files)]
    if not removals:
        raise PullError(f"{name} is not on this disk: `localspec list` shows what is.")
    return removals


def _leftovers(name: str, files: Iterable[CatalogFile]) -> Iterator[Path]:
    """Unfinished files of a repository on the hub, or of these files of the catalogue."""
    from huggingface_hub import constants

    hub = parse_hub_name(name)
    for repo in (*(file.repo for file in files), *((hub.repo,) if hub is not None else ())):
        blobs = Path(constants.HF_HUB_CACHE) / f"models--{repo.replace('/', '--')}" / "blobs"
        yield from sorted(blobs.glob("*.incomplete"))
    for file in files:
        staging = paths.models_dir() / ".partial" / file.file
        if staging.is_dir():
            yield staging


def _needed_elsewhere(name: str, entries: Iterable[Entry]) -> set[str]:
    """Keys of the files that other pairs need whose target is here."""
    here = {file.key for entry in entries if (file := library.catalog_file(entry)) is not None}
    others = [pair for pair in catalog.load() if pair.name != name and pair.target.key in here]
    return {file.key for pair in others for file in pair.files}


def _entry_of(file: CatalogFile, entries: Iterable[Entry]) -> Entry | None:
    return next((entry for entry in entries if library.is_file(entry, file)), None)


def _entry_at(name: str, entries: Iterable[Entry]) -> Entry | None:
    """The entry that a path or another name means."""
    path = Path(name).expanduser()
    if not path.exists():
        return library.find_entry(name)
    same = [entry for entry in entries if entry.path == path.absolute() or entry.path.resolve() == path.resolve()]
    if not same:
        raise PullError(f"{name} is in no folder of localspec, so delete it yourself.")
    # A registered file may also lie in a folder of another program, which decides.
    return next((entry for entry in same if entry.owner in ELSEWHERE), same[0])


def _forget(path: Path) -> None:
    for known in model_folders.registered_paths():
        if known == path or known in path.parents:
            local.forget(known)


def _delete_from_cache(path: Path) -> None:
    """Deletes a file of the Hugging Face cache: its blob, every link to it, and with the last file the repository."""
    blob = path.resolve()
    repository = next(folder.parent for folder in path.parents if folder.name == "snapshots")
    snapshots = repository / "snapshots"
    for link in [link for link in snapshots.rglob("*") if link.name == path.name and link.resolve() == blob]:
        link.unlink()
    blob.unlink(missing_ok=True)
    if not any(left.is_file() for left in snapshots.rglob("*")):
        shutil.rmtree(repository)
