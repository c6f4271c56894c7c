"""What a command is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from localspec.tui.app import LocalspecApp


@dataclass(frozen=True, slots=True)
class Command:
    """``/name argument``; without an argument the palette runs it, with one it puts it into the input line."""

    name: str
    argument: str
    summary: str
    run: Callable[[LocalspecApp, str], Awaitable[None]]
