"""Commands that change how replies are decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from localspec import config, verdict
from localspec.chat_template import Message

from ..replying import Phase
from .table import Command

if TYPE_CHECKING:
    from localspec.tui.app import LocalspecApp


async def _draft(app: LocalspecApp, argument: str) -> None:
    drafters = {"auto": "auto", "model": "draft-model", "lookup": "lookup", "off": "none"}
    if argument not in drafters:
        app.complain("Say /draft auto, /draft model, /draft lookup or /draft off.")
    elif argument == "model" and not app.has_draft:
        app.complain("No draft model is loaded: start localspec with a pair, for example with --model-draft.")
    else:
        app.change(draft=drafters[argument])


async def _seed(app: LocalspecApp, argument: str) -> None:
    app.change(seed=None if argument in ("", "random") else argument)


async def _system(app: LocalspecApp, argument: str) -> None:
    app.change(system=argument or None)


async def _compare(app: LocalspecApp, argument: str) -> None:
    turns = app.conversation.turns
    if app.phase is not Phase.READY:
        app.complain("Wait until the reply is over, or stop it with Esc.")
    elif argument:
        system = [Message("system", app.settings.system)] if app.settings.system else []
        app.compare([*system, Message("user", argument)])
    elif turns:
        app.compare(app.conversation.messages(app.settings.system))
    else:
        app.complain("Say what to compare, for example /compare Write a haiku.")


def _setting(name: str, argument: str, summary: str = "") -> Command:
    """A command that sets a setting; its name is that of the setting, and so is its line of help unless it has one."""
    field = config.Settings.model_fields[name]
    optional = type(None) in get_args(field.annotation)

    async def run(app: LocalspecApp, value: str) -> None:
        app.change(**{name: None if optional and value in ("", "none") else value})

    described = (field.description or "").rstrip(".")
    return Command(name.replace("_", "-"), argument, summary or described[:1].lower() + described[1:], run)


async def _why(app: LocalspecApp, argument: str) -> None:
    record = verdict.latest(app.pair)
    if record is None:
        app.tell("Nothing was learned of this pair yet: send a message first.")
    else:
        app.tell("\n".join(verdict.explanation(record)))


COMMANDS = (
    Command("why", "", "why drafting is on or off, and what it has earned", _why),
    _setting("draft_max", "N|auto", "K, the most tokens drafted in a round"),
    Command("draft", "auto|model|lookup|off", "where drafts come from", _draft),
    _setting("temp", "T", "temperature, 0 is greedy"),
    Command("seed", "N", "seed of the next replies, or random", _seed),
    _setting("verify", "MODE", "auto, greedy, gumbel, rejection or block"),
    Command("system", "TEXT", "system prompt, empty for none", _system),
    Command("compare", "[PROMPT]", "answer with a draft and densely, and compare", _compare),
    _setting("top_k", "N"),
    _setting("top_p", "P"),
    _setting("min_p", "P"),
    _setting("repeat_penalty", "X"),
    _setting("presence_penalty", "X"),
    _setting("frequency_penalty", "X"),
    _setting("draft_temp", "T"),
    _setting("draft_p_min", "P"),
    _setting("n_predict", "N"),
)
