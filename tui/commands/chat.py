"""Commands about conversations and the app."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from localspec.tui.attachments import read_file
from localspec.tui.shell import ShellView

from localspec.errors import AttachmentError, StoreError

from .table import Command

if TYPE_CHECKING:
    from localspec.tui.app import LocalspecApp


async def _new(app: LocalspecApp, argument: str) -> None:
    await app.action_new()


async def _resume(app: LocalspecApp, argument: str) -> None:
    if argument:
        await app.conversations.resume(argument)
    else:
        await app.conversations.pick()


async def _title(app: LocalspecApp, argument: str) -> None:
    if not argument:
        app.complain("Say what to call the conversation: /title Birds that sing at night.")
        return
    try:
        app.conversations.rename(argument)
    except StoreError as problem:
        app.complain(str(problem))
    else:
        app.tell(f"The conversation is called {argument}.")


async def _attach(app: LocalspecApp, argument: str) -> None:
    if not argument:
        outputs = [view for view in app.query(ShellView) if not view.is_running]
        if outputs:
            outputs[-1].action_attach()
        else:
            app.complain("Say which file: /attach notes.md. Without one, the output of the last ! command is attached.")
        return
    try:
        app.entry.attach(read_file(Path(argument).expanduser()))
    except AttachmentError as problem:
        app.complain(str(problem))


async def _find(app: LocalspecApp, argument: str) -> None:
    await app.action_find(argument)


async def _help(app: LocalspecApp, argument: str) -> None:
    await app.action_help()


async def _save(app: LocalspecApp, argument: str) -> None:
    if not argument:
        app.complain("Say where to, for example /save chat.md.")
        return
    path = Path(argument).expanduser()
    try:
        app.conversations.save(path)
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
    Command("title", "TEXT", "call the conversation something else", _title),
    Command("find", "TEXT", "search in this conversation", _find),
    Command("attach", "[FILE]", "let a file, or the last ! output, go along", _attach),
    Command("help", "", "keys, commands and words", _help),
    Command("save", "FILE", "export as Markdown, or as JSON to a .json file", _save),
    Command("quit", "", "leave; everything is saved", _quit),
)
