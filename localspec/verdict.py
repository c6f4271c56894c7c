"""Why drafting is on or off for a pair on this machine, in plain words, from what was learned, without a model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from localspec.controller import MOST, Controller
from localspec.costs import Costs
from localspec.learned import Learned, TaskRecord, folder
from localspec.ledger import Account
from localspec.tasks import Task

SHOWN_WIDTHS = (2, 4, 8, 16)


def latest(pair: str) -> Learned | None:
    """The record of a pair that was used last; None where nothing was learned of it yet."""
    for path in sorted(folder().glob("*.json"), key=_used, reverse=True):
        if _title(path) == pair:
            return Learned(path, pair)
    return None


def title(target: Path, draft: Path | None = None) -> str:
    """How a record names a pair."""
    return " + ".join(path.stem for path in (target, draft) if path is not None)


def verdict(record: Learned, task: Task) -> str:
    """What the draft model costs on this task, what is accepted, and what follows."""
    controller = Controller(Costs(record.curve))
    known = record.task(task)
    controller.begin(known.lookup, known.model)
    return controller.model_plan(0, MOST, None).reason


def explanation(record: Learned) -> list[str]:
    """Lines for a reader: the costs, then each task with its verdict and what each drafter has earned."""
    lines = [record.title, *_costs(record), ""]
    for task, known in _tasks(record):
        lines.append(f"{task.value:<12}{verdict(record, task)}")
        lines += [f"{'':<12}{_account(name, account)}" for name, account in sorted(known.accounts.items())]
    return lines


def as_json(record: Learned) -> dict[str, Any]:
    """The same for a script; seconds, and costs as multiples of a dense round."""
    tasks = {
        task.value: {
            "verdict": verdict(record, task),
            "tokens": known.tokens,
            "draft_model_acceptance": known.model.level,
            "drafters": {
                name: {
                    "rounds": account.rounds,
                    "draft_n": account.drafted,
                    "draft_n_accepted": account.accepted,
                    "saved_s": account.saved_s,
                    "wasted_s": account.wasted_s,
                }
                for name, account in known.accounts.items()
            },
        }
        for task, known in _tasks(record)
    }
    return {"pair": record.title, "threads": record.threads, "costs": record.state()["costs"], "tasks": tasks}


def _costs(record: Learned) -> Iterator[str]:
    if record.curve is None:
        yield "What passes cost was not measured: it is with --draft-max auto."
        return
    if record.threads is not None:
        yield f"Threads: {record.threads}, the fastest of those that were tried."
    costs = Costs(record.curve)
    ratios = ", ".join(f"{costs.width(w):.1f}" for w in SHOWN_WIDTHS)
    widths = ", ".join(map(str, SHOWN_WIDTHS))
    yield f"A dense round takes {record.curve.dense_s * 1000:.1f} ms; a pass over {widths} tokens {ratios} times that."
    if record.curve.draft_step > 0:
        yield (
            f"A step of the draft costs {record.curve.draft_step:.2f} of a dense round, "
            f"and {record.curve.draft_token:.2f} for each token that it has to read first."
        )


def _account(name: str, account: Account) -> str:
    rate = f"{account.acceptance_rate:.2f}" if account.acceptance_rate is not None else "-"
    return (
        f"{name}: {account.accepted} of {account.drafted} accepted ({rate}), saved {account.saved_s:.1f} s, "
        f"wasted {account.wasted_s:.1f} s"
    )


def _tasks(record: Learned) -> list[tuple[Task, TaskRecord]]:
    return [(task, record.tasks[task]) for task in Task if task in record.tasks and record.tasks[task].tokens > 0]


def _title(path: Path) -> str | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return str(found.get("pair")) if isinstance(found, dict) else None


def _used(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
