"""The files of the working folder, and which of them one means by a few letters."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

MOST_FILES = 20_000
"""Where to stop looking."""
SKIPPED = {"__pycache__", "node_modules", "venv", "target", "build", "dist", "site-packages"}
"""Folders of what is generated or not one's own; hidden ones are skipped too."""
LEAST_LIKENESS = 70


def files_below(folder: Path) -> list[str]:
    """Paths relative to ``folder``, those of the folder itself first; hidden and generated folders are left out."""
    found: list[str] = []
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in SKIPPED)
        where = os.path.relpath(parent, folder)
        found += [name if where == "." else os.path.join(where, name) for name in sorted(names)]  # noqa: PTH118
        if len(found) >= MOST_FILES:
            break
    return found[:MOST_FILES]


def best_matches(typed: str, paths: Sequence[str], limit: int = 8) -> list[str]:
    """The paths that fit what was typed, the best first: those that hold it as it is, then those that are like it."""
    if not typed:
        return list(paths[:limit])
    from rapidfuzz import fuzz, process

    low = typed.lower()
    holding = [path for path in paths if low in path.lower()]
    holding.sort(key=lambda path: (not os.path.basename(path).lower().startswith(low), len(path), path))  # noqa: PTH119
    if len(holding) >= limit:
        return holding[:limit]
    known = set(holding)
    others = [path for path in paths if path not in known]
    alike = process.extract(
        low, others, scorer=fuzz.WRatio, processor=str.lower, limit=limit - len(holding), score_cutoff=LEAST_LIKENESS
    )
    return [*holding, *(path for path, _, _ in alike)]
