"""The commands: one table for the slash commands, the command palette and the help.

Each module holds those of one subject.
"""

from __future__ import annotations

from . import chat, controls, messages
from .table import Command

COMMANDS = (*chat.COMMANDS, *messages.COMMANDS, *controls.COMMANDS)

__all__ = ["COMMANDS", "Command", "find", "named"]


def named(name: str) -> Command:
    """The command of that name."""
    return next(command for command in COMMANDS if command.name == name)


def find(text: str) -> tuple[Command | None, str] | None:
    """The command that a line calls and its argument, a None command for an unknown name, or None for plain text.

    Only a first word of letters and hyphens after the slash is a command, so that a path can begin a prompt.
    """
    first, _, argument = text.partition(" ")
    name = first[1:]
    if not first.startswith("/") or not name or not name.replace("-", "").isalpha() or "\n" in first:
        return None
    return next((command for command in COMMANDS if command.name == name), None), argument.strip()
