"""What was learned about a pair on a machine: costs, acceptance by task and drafter, and what drafting has earned.

One small JSON file for each pair, device and settings that change costs. It holds counts and times, never text. A file
that cannot be read is as good as none: learning starts afresh.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from localspec import paths
from localspec.acceptance import Acceptance
from localspec.controller import lookup_acceptance, model_acceptance
from localspec.costs import Costs, Curve
from localspec.events import Round
from localspec.ledger import Account, book
from localspec.tasks import Task

FORMAT = 2
HASHED_BYTES = 1 << 20
"""A model is told from another by its size and its first megabyte, which holds its metadata."""

log = logging.getLogger(__name__)


@dataclass
class TaskRecord:
    """What was learned on one kind of task."""

    lookup: Acceptance
    model: Acceptance
    accounts: dict[str, Account] = field(default_factory=dict)
    tokens: int = 0
    """Tokens of all rounds, drafted or not."""

    @classmethod
    def new(cls, task: Task) -> TaskRecord:
        return cls(lookup_acceptance(), model_acceptance(task))


class Learned:
    """The record of one pair on one machine, in memory and on disk."""

    def __init__(self, path: Path | None, title: str) -> None:
        """``path`` None keeps nothing. ``title`` tells the pair to a reader."""
        self.path = path
        self.title = title
        self.curve: Curve | None = None
        self.threads: int | None = None
        """The number of threads that decode fastest; None while it was not measured."""
        self.tasks: dict[Task, TaskRecord] = {}
        if path is not None:
            self._load(path)

    def task(self, task: Task) -> TaskRecord:
        """The record of a task, begun if there is none."""
        if task not in self.tasks:
            self.tasks[task] = TaskRecord.new(task)
        return self.tasks[task]

    @property
    def seen_draft_model(self) -> bool:
        """Whether anything was learned of the draft model."""
        return any(record.model.seen > 0 for record in self.tasks.values())

    def add(self, task: Task, event: Round) -> None:
        """Book a round."""
        record = self.task(task)
        record.tokens += len(event.tokens)
        book(record.accounts, event)

    def save(self, costs: Costs) -> None:
        """Write it all, whole or not at all. A disk that refuses is no reason to stop a chat."""
        if self.path is None:
            return
        # A guess that was refined by a few rounds is no measurement, and would stand in the way of one.
        if costs.measured and costs.dense_s is not None:
            self.curve = costs.curve()
        partial = self.path.with_name(f"{self.path.name}.{os.getpid()}.partial")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(json.dumps(self.state()), encoding="utf-8")
            partial.replace(self.path)
        except OSError as error:
            log.warning("what was learned could not be kept in %s: %s", self.path, error)
            with suppress(OSError):
                partial.unlink()

    def state(self) -> dict[str, Any]:
        """All of it, as JSON."""
        return {
            "format": FORMAT,
            "pair": self.title,
            "threads": self.threads,
            "costs": None if self.curve is None else asdict(self.curve),
            "tasks": {
                task.value: {
                    "lookup": record.lookup.state(),
                    "draft-model": record.model.state(),
                    "tokens": record.tokens,
                    "accounts": {name: asdict(account) for name, account in record.accounts.items()},
                }
                for task, record in self.tasks.items()
            },
        }

    def _load(self, path: Path) -> None:
        try:
            self._restore(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            log.warning("what was learned in %s cannot be read and is learned afresh: %s", path, error)
            self.curve, self.threads, self.tasks = None, None, {}

    def _restore(self, state: Mapping[str, Any]) -> None:
        if state["format"] != FORMAT:
            raise ValueError("it has another format")
        if state["threads"] is not None:
            self.threads = max(1, int(state["threads"]))
        if state["costs"] is not None:
            self.curve = _curve(state["costs"])
        for name, kept in state["tasks"].items():
            task = Task(name)
            record = TaskRecord.new(task)
            record.lookup.restore(kept["lookup"])
            record.model.restore(kept["draft-model"])
            record.tokens = min(max(int(kept["tokens"]), 0), 10**15)
            record.accounts = {str(key): _account(values) for key, values in kept["accounts"].items()}
            self.tasks[task] = record


def key(**identity: object) -> str:
    """A short name for everything that costs and acceptance depend on."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:16]


def fingerprint(path: Path) -> str:
    """Tells a model file from another."""
    with path.open("rb") as file:
        start = file.read(HASHED_BYTES)
    return f"{path.stat().st_size}-{hashlib.sha256(start).hexdigest()[:16]}"


def folder() -> Path:
    """Where records are kept."""
    return paths.data_dir() / "learned"


def _account(state: Mapping[str, Any]) -> Account:
    if set(state) != set(Account.__dataclass_fields__):
        raise ValueError("its accounts have other fields")
    counts = [int(state[name]) for name in ("rounds", "drafted", "accepted")]
    seconds = [float(state[name]) for name in ("saved_s", "wasted_s")]
    if not all(0 <= number < 1e15 for number in (*counts, *seconds)):
        raise ValueError("its accounts do not add up")
    return Account(*counts, *seconds)


def _curve(state: Mapping[str, Any]) -> Curve:
    widths = tuple((int(w), float(cost)) for w, cost in state["widths"])
    numbers = [float(state[name]) for name in ("dense_s", "draft_step", "draft_token")]
    sound = widths and widths[0][0] == 1 and all(0.0 < cost < 1e4 for _, cost in widths)
    if not sound or not all(0.0 <= number < 1e4 for number in numbers):
        raise ValueError("its costs are no costs")
    return Curve(numbers[0], widths, numbers[1], numbers[2])
