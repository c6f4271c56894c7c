"""The commands: one table for the slash commands, the command palette and the help."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from localspec.errors import StoreError

if TYPE_CHECKING:
    from .app import LocalspecApp


@dataclass(frozen=True, slots=True)
class Command:
    """``/name argument``; without an argument the palette runs it, with one it puts it into the input line."""

    name: str
    argument: str
    summary: str
    run: Callable[[LocalspecApp, str], Awaitable[None]]


def find(text: str) -> tuple[Command | None, str] | None:
    """The command that a line calls and its argument, a None command for an unknown name, or None for plain text.

    Only a first word of letters and hyphens after the slash is a command, so that a path can begin a prompt.
    """
    first, _, argument = text.partition(" ")
    name = first[1:]
    if not first.startswith("/") or not name or not name.replace("-", "").isalpha() or "\n" in first:
        return None
    return next((command for command in COMMANDS if command.name == name), None), argument.strip()


async def _new(app: LocalspecApp, argument: str) -> None:
    await app.action_new()


async def _resume(app: LocalspecApp, argument: str) -> None:
    if argument:
        await app.resume(argument)
    else:
        await app.action_sessions()


async def _help(app: LocalspecApp, argument: str) -> None:
    await app.action_help()


async def _draft_max(app: LocalspecApp, argument: str) -> None:
    app.change(draft_max=argument)


async def _draft(app: LocalspecApp, argument: str) -> None:
    drafters = {"on": "draft-model", "off": "none"}
    if argument not in drafters:
        app.complain("Say /draft on or /draft off.")
    elif argument == "on" and not app.has_draft:
        app.complain("No draft model is loaded: start localspec with a pair, for example with --model-draft.")
    else:
        app.change(draft=drafters[argument])


async def _temp(app: LocalspecApp, argument: str) -> None:
    app.change(temp=argument)


async def _seed(app: LocalspecApp, argument: str) -> None:
    app.change(seed=None if argument in ("", "random") else argument)


async def _verify(app: LocalspecApp, argument: str) -> None:
    app.change(verify=argument)


async def _system(app: LocalspecApp, argument: str) -> None:
    app.change(system=argument or None)


async def _save(app: LocalspecApp, argument: str) -> None:
    if not argument:
        app.complain("Say where to, for example /save chat.md.")
        return
    path = Path(argument).expanduser()
    try:
        text = app.export()
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        app.complain(f"{path} exists already: choose another name.")
    except (OSError, StoreError) as problem:
        app.complain(f"The conversation was not saved: {problem}")
    else:
        app.tell(f"Saved to {path}.")


async def _quit(app: LocalspecApp, argument: str) -> None:
    await app.action_quit()


COMMANDS = (
    Command("new", "", "start a new conversation", _new),
    Command("resume", "", "pick a past conversation", _resume),
    Command("help", "", "keys, commands and words", _help),
    Command("draft-max", "N", "K, the most tokens drafted in a round", _draft_max),
    Command("draft", "on|off", "speculate or decode densely", _draft),
    Command("temp", "T", "temperature, 0 is greedy", _temp),
    Command("seed", "N", "seed of the next replies, or random", _seed),
    Command("verify", "MODE", "auto, greedy, gumbel, rejection or block", _verify),
    Command("system", "TEXT", "system prompt, empty for none", _system),
    Command("save", "FILE", "export the conversation as Markdown", _save),
    Command("quit", "", "leave; everything is saved", _quit),
)
