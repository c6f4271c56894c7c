"""Commands that change how replies are decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localspec import verdict

from .table import Command

if TYPE_CHECKING:
    from localspec.tui.app import LocalspecApp


async def _draft_max(app: LocalspecApp, argument: str) -> None:
    app.change(draft_max=argument)


async def _draft(app: LocalspecApp, argument: str) -> None:
    drafters = {"auto": "auto", "model": "draft-model", "lookup": "lookup", "off": "none"}
    if argument not in drafters:
        app.complain("Say /draft auto, /draft model, /draft lookup or /draft off.")
    elif argument == "model" and not app.has_draft:
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


async def _why(app: LocalspecApp, argument: str) -> None:
    record = verdict.latest(app.pair)
    if record is None:
        app.tell("Nothing was learned of this pair yet: send a message first.")
    else:
        app.tell("\n".join(verdict.explanation(record)))


COMMANDS = (
    Command("why", "", "why drafting is on or off, and what it has earned", _why),
    Command("draft-max", "N|auto", "K, the most tokens drafted in a round", _draft_max),
    Command("draft", "auto|model|lookup|off", "where drafts come from", _draft),
    Command("temp", "T", "temperature, 0 is greedy", _temp),
    Command("seed", "N", "seed of the next replies, or random", _seed),
    Command("verify", "MODE", "auto, greedy, gumbel, rejection or block", _verify),
    Command("system", "TEXT", "system prompt, empty for none", _system),
)
