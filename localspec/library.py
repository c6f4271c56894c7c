"""Finds the models that are already on this disk, whoever put them there, and uses them in place."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from localspec import catalog, model_folders, paths
from localspec.catalog import CatalogFile
from localspec.errors import PullError
from localspec.model_folders import Entry, Owner
from localspec.model_names import DEFAULT_QUANT, HubName, has_quant, parse_hub_name

__all__ = ["Entry", "NotOnDiskError", "Owner", "catalog_file", "find", "find_file", "locate", "resolve_pair", "scan"]


class NotOnDiskError(PullError):
    """A model that has to be pulled first."""


class PairSettings(Protocol):
    """The part of the settings that names the models."""

    @property
    def model(self) -> str | None: ...
    @property
    def model_draft(self) -> str | None: ...
    @property
    def drafters(self) -> tuple[str, ...]: ...


def scan() -> list[Entry]:
    """Every model on this disk, localspec's own first."""
    return list(model_folders.scan())


def resolve_pair(settings: PairSettings) -> tuple[Path, Path | None]:
    """The files of the target and the draft that the settings name; the draft is None where there is none.

    A target of the catalogue brings its draft along. Raises NotOnDiskError for what has to be pulled first.
    """
    known = catalog.load()
    name = settings.model or known.default
    target = find(name)
    if "draft-model" not in settings.drafters:
        return target, None
    if settings.model_draft is not None:
        return target, find(settings.model_draft)
    if name in known.pairs:
        draft = known.pairs[name].draft
        if draft is None:
            return target, None
        path = find_file(draft)
        if path is None:
            raise NotOnDiskError(f"The draft of {name} is not on this disk: run `localspec pull {name}`.")
        return target, path
    pair = _pair_of(target)
    return target, find_file(pair.draft) if pair is not None and pair.draft is not None else None


def find(name: str) -> Path:
    """The file that ``name`` means; NotOnDiskError where it is not on this disk."""
    path = locate(name)
    if path is None:
        raise NotOnDiskError(f"{name} is not on this disk: run `localspec pull {name}`.")
    return path


def locate(name: str) -> Path | None:
    """The file that ``name`` means, or None: a path, a catalogue name, a hub name, an Ollama tag, a file name.

    A folder stands for the one model in it. Raises PullError for a path that does not exist and for a name that means
    several different files.
    """
    if (path := _as_path(name)) is not None:
        return path
    known = catalog.load()
    if name in known.pairs:
        return find_file(known.pairs[name].target)
    if name in known.files:
        return find_file(known.files[name])
    entry = find_entry(name)
    return None if entry is None else entry.path


def find_entry(name: str) -> Entry | None:
    """The entry of the scan that ``name`` means, or None."""
    complete = [entry for entry in model_folders.scan() if entry.complete]
    hub = parse_hub_name(name)
    matches = [entry for entry in complete if _is_called(entry, name) or (hub is not None and _is_hub(entry, hub))]
    if len({(entry.file.casefold(), entry.bytes) for entry in matches}) > 1:
        listed = ", ".join(str(entry.path) for entry in matches[:4])
        raise PullError(f"{name} means more than one model here ({listed}), so give the path of the one you want.")
    return matches[0] if matches else None


def find_file(file: CatalogFile) -> Path | None:
    """Where a file of the catalogue lies, whoever put it there, or None."""
    own = paths.models_dir() / file.file
    if own.is_file() and file.has_size(own.stat().st_size):
        return own
    return next((entry.path for entry in model_folders.scan() if is_file(entry, file)), None)


def catalog_file(entry: Entry) -> CatalogFile | None:
    """The catalogue's file that an entry is, or None."""
    return next((file for file in catalog.load().files.values() if is_file(entry, file)), None)


def is_file(entry: Entry, file: CatalogFile) -> bool:
    """Whether an entry is a file of the catalogue: by repository, else by hash, else by name and size.

    In the Hugging Face cache the repository decides, also when its owner has replaced the file since.
    """
    if not entry.complete:
        return False
    if entry.owner is Owner.HUB and entry.repo == file.repo:
        return entry.name == f"{file.repo}/{file.file}"
    if entry.sha256 is not None and file.sha256 is not None:
        return entry.sha256 == file.sha256
    if entry.owner is Owner.OLLAMA:
        return False
    return entry.file.casefold() == Path(file.file).name.casefold() and file.has_size(entry.bytes)


def _is_called(entry: Entry, name: str) -> bool:
    wanted = name.casefold()
    names = {entry.name.casefold(), entry.file.casefold(), entry.path.stem.casefold()}
    if entry.owner is Owner.OLLAMA:
        wanted = wanted.removeprefix("ollama:").removeprefix("ollama/")
        names = {entry.name.casefold(), entry.name.casefold().removesuffix(":latest")}
    return wanted in names


def _is_hub(entry: Entry, name: HubName) -> bool:
    if entry.repo is None or entry.repo.casefold() != name.repo.casefold():
        return False
    if name.file is not None:
        return Path(name.file).name.casefold() == entry.file.casefold()
    if entry.owner is Owner.OLLAMA:
        return has_quant(entry.name, name.quant or DEFAULT_QUANT)
    return has_quant(entry.file, name.quant or DEFAULT_QUANT)


def _as_path(name: str) -> Path | None:
    """The file that ``name`` means as a path; None where it is not meant as one."""
    path = Path(name).expanduser()
    if path.is_file():
        return path
    if path.is_dir():
        return _only_model(path, model_folders.in_folder(path, Owner.REGISTERED))
    if name.startswith((".", "~")) or path.is_absolute():
        raise PullError(f"There is no file {name}; check the path or name a model that `localspec list` shows.")
    return None


def _only_model(folder: Path, entries: Iterable[Entry]) -> Path:
    found = [entry.path for entry in entries]
    if not found:
        raise PullError(f"There is no GGUF in {folder}, so name a .gguf file.")
    if len(found) > 1:
        names = ", ".join(path.name for path in found[:4])
        raise PullError(f"There are {len(found)} models in {folder} ({names}), so name one of them.")
    return found[0]


def _pair_of(target: Path) -> catalog.CatalogPair | None:
    """The catalogue's pair whose target this file is."""
    file = catalog_file(model_folders.entry(target, Owner.REGISTERED))
    return None if file is None else catalog.load().pair_of(file)
