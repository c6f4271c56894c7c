"""The same prompt with a draft and densely, from a key or a command."""

from __future__ import annotations

import pytest
from localspec.tui.panel import Panel
from scripted import ScriptedSession, ask, chat_text, open_app, ready, screen_text, until

from localspec import config


async def test_the_last_prompt_is_answered_both_ways_and_compared() -> None:
    session = ScriptedSession()
    app = open_app(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await ask(pilot, "Hi")
        await ready(pilot)
        before = app.query_one(Panel).readings
        await pilot.press("f8")
        await until(pilot, lambda: "speed-up" in chat_text(app))
        await ready(pilot)
        told = chat_text(app)
        for words in ("with a draft: ", "acceptance 1.00 at K 3", "dense: ", "the same text", "speed-up"):
            assert words in told, words
        (_, _), (messages, drafted), (again, dense) = session.requests
        assert [m.content for m in messages] == [m.content for m in again] == ["Hi"]
        assert (drafted.draft, dense.draft) == ("auto", "none")
        assert drafted.seed == dense.seed is not None
        assert dense.n_predict == 7
        # Neither the conversation nor the instruments take part.
        assert len(app.conversation.turns) == 1
        assert app.query_one(Panel).readings == before


async def test_a_prompt_of_its_own_can_be_compared() -> None:
    session = ScriptedSession()
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "/compare Write a haiku.")
        await until(pilot, lambda: "speed-up" in chat_text(app))
        assert [m.content for m in session.requests[0][0]] == ["Write a haiku."]
        assert app.conversation.turns == []


async def test_a_comparison_can_be_stopped() -> None:
    session = ScriptedSession(text="word " * 40, hold_after=2)
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "/compare Hi")
        await until(pilot, lambda: app.phase == "replying" and "comparing" in screen_text(app))
        await pilot.press("escape")
        session.go.set()
        await ready(pilot)
        assert "The comparison was stopped." in chat_text(app)
        await ask(pilot, "Hello")
        await ready(pilot)
        assert len(app.conversation.turns) == 1


@pytest.mark.parametrize(
    ("settings", "command", "words"),
    [({}, "/compare", "Say what to compare"), ({"draft": "none"}, "/compare Hi", "Drafting is off")],
)
async def test_what_cannot_be_compared_is_a_sentence(settings: dict[str, object], command: str, words: str) -> None:
    app = open_app(settings=config.load(settings).settings)
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, command)
        await pilot.pause(0.1)
        assert words in chat_text(app)
        assert app.phase == "ready"


async def test_a_reply_that_fails_ends_the_comparison() -> None:
    app = open_app(ScriptedSession(fail_after=1))
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "/compare Hi")
        await until(pilot, lambda: "the sky fell" in chat_text(app))
        await ready(pilot)


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("/top-k 5", "top_k", 5),
        ("/top-p 0.5", "top_p", 0.5),
        ("/min-p 0", "min_p", 0.0),
        ("/repeat-penalty 1.1", "repeat_penalty", 1.1),
        ("/presence-penalty 0.5", "presence_penalty", 0.5),
        ("/frequency-penalty -1", "frequency_penalty", -1.0),
        ("/draft-temp 0.5", "draft_temp", 0.5),
        ("/draft-temp", "draft_temp", None),
        ("/draft-p-min 0.4", "draft_p_min", 0.4),
        ("/n-predict 9", "n_predict", 9),
    ],
)
async def test_every_sampling_setting_has_its_command(line: str, name: str, value: object) -> None:
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, line)
        assert getattr(app.settings, name) == value
        assert f"{name.replace('_', '-')} is " in chat_text(app)
