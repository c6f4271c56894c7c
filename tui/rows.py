"""What a picker lists: past conversations and past prompts."""

from __future__ import annotations

import time
from collections.abc import Sequence

from textual.content import Content

from localspec.store import Store, title_of

from .picker import Row

MINUTE, HOUR, DAY = 60, 3600, 86400


def session_rows(store: Store, typed: str) -> list[Row]:
    """The conversations in which the typed words are found; all, the last used first, for none."""
    return [
        Row(
            str(found.id) if found.hit is None else f"{found.id}@{found.hit}",
            Content.assemble(
                (found.title, "bold"),
                "\n",
                (found.excerpt or f"{ago(found.updated)}, {found.messages} messages, {found.pair}", "$dim"),
            ),
        )
        for found in store.search(typed)
    ]


def place_of(key: str) -> tuple[int, int | None]:
    """The conversation that a row of ``session_rows`` stands for, and the message in it that was found."""
    conversation, _, hit = key.partition("@")
    return int(conversation), int(hit) if hit else None


def prompt_rows(prompts: Sequence[str], typed: str) -> list[Row]:
    """The prompts that hold all of the typed words, the latest first."""
    words = typed.lower().split()
    latest_first = dict.fromkeys(reversed(prompts))
    return [Row(text, Content(title_of(text))) for text in latest_first if all(w in text.lower() for w in words)]


def ago(moment: float) -> str:
    """How long ago a Unix time was, in words."""
    seconds = max(0.0, time.time() - moment)
    for unit, name in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute")):
        number = int(seconds // unit)
        if number:
            return f"{number} {name}{'s' if number > 1 else ''} ago"
    return "just now"
