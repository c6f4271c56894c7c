"""Commands about the messages of the open conversation; the keys of a selected message do the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localspec.tui.fences import code_blocks
from localspec.tui.messages import MessageView, Wish

from .table import Command

if TYPE_CHECKING:
    from localspec.tui.app import LocalspecApp


async def _copy(app: LocalspecApp, argument: str) -> None:
    view = await _reply(app, argument or "1", "Say which reply, counted back from the last: /copy 1.")
    if view is not None:
        view.action_copy()


async def _code(app: LocalspecApp, argument: str) -> None:
    turns = [turn for turn in app.conversation.turns if code_blocks(turn.reply)]
    if not turns:
        app.complain("There is no code in this conversation.")
        return
    blocks = len(code_blocks(turns[-1].reply))
    if not (argument or "1").isdecimal() or not 1 <= int(argument or 1) <= blocks:
        app.complain(f"Say which code block of the last reply that has one: 1 to {blocks}.")
        return
    view = await app.chat.find(turns[-1], "assistant")
    if view is not None:
        view.copy_block(int(argument or 1) - 1)


async def _edit(app: LocalspecApp, argument: str) -> None:
    await _grant(app, Wish.EDIT)


async def _regenerate(app: LocalspecApp, argument: str) -> None:
    await app.action_regenerate()


async def _branch(app: LocalspecApp, argument: str) -> None:
    await _grant(app, Wish.BRANCH)


async def _grant(app: LocalspecApp, wish: Wish) -> None:
    if app.conversation.turns:
        await app.conversations.grant(app.conversation.turns[-1], "assistant", wish)
    else:
        app.complain("There is no message yet.")


async def _reply(app: LocalspecApp, argument: str, otherwise: str) -> MessageView | None:
    turns = app.conversation.turns
    if not argument.isdecimal() or not 1 <= int(argument) <= len(turns):
        app.complain(otherwise if turns else "There is no reply yet.")
        return None
    return await app.chat.find(turns[-int(argument)], "assistant")


COMMANDS = (
    Command("copy", "[N]", "copy the last reply, or the N-th last", _copy),
    Command("code", "[N]", "copy a code block of the last reply with code", _code),
    Command("edit", "", "edit the last prompt and send it again", _edit),
    Command("regenerate", "", "reply to the last prompt again", _regenerate),
    Command("branch", "", "go on from here in a new conversation", _branch),
)
