"""The input line: sending, new lines, history, completion."""

from __future__ import annotations

import pytest
from localspec.tui.composer import Composer
from localspec.tui.picker import Picker
from scripted import ScriptedSession, ask, open_app, ready, until
from textual import events

from localspec import paths
from localspec.store import State, Store


@pytest.mark.parametrize("key", ["shift+enter", "ctrl+j", "alt+enter"])
async def test_a_new_line_does_not_send(key: str) -> None:
    session = ScriptedSession()
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("a", key, "b")
        composer = app.query_one(Composer)
        assert composer.text == "a\nb"
        assert composer.size.height == 2
        await pilot.press("enter")
        await until(pilot, lambda: session.requests)
        assert session.requests[0][0][0].content == "a\nb"
        assert composer.text == ""


async def test_an_empty_line_is_not_sent() -> None:
    session = ScriptedSession()
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("enter", "space", "enter")
        assert session.requests == []


async def test_pasted_lines_stay_together() -> None:
    session = ScriptedSession()
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        app.post_message(events.Paste("def f():\n    return 1\n"))
        await pilot.pause()
        assert session.requests == []
        await pilot.press("enter")
        await until(pilot, lambda: session.requests)
        assert session.requests[0][0][0].content == "def f():\n    return 1"


async def test_up_and_down_walk_through_the_history_and_back_to_what_was_being_written() -> None:
    with Store(paths.database()) as store:
        begun = store.begin_turn(None, "from another day", pair="p")
        store.finish(begun.reply, "-", State.COMPLETE)
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "of today")
        await ready(pilot)
        composer = app.query_one(Composer)
        await pilot.press(*"new", "up")
        assert composer.text == "of today"
        await pilot.press("up", "up")
        assert composer.text == "from another day"
        await pilot.press("down")
        assert composer.text == "of today"
        await pilot.press("down", "down")
        assert composer.text == "new"


async def test_up_moves_within_several_lines_before_it_leaves_them() -> None:
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "before")
        await ready(pilot)
        composer = app.query_one(Composer)
        await pilot.press("a", "ctrl+j", "b", "up")
        assert composer.text == "a\nb"
        assert composer.cursor_location[0] == 0
        await pilot.press("up")
        assert composer.text == "before"


async def test_up_moves_within_a_wrapped_line_before_it_leaves_it() -> None:
    app = open_app()
    async with app.run_test(size=(40, 24)) as pilot:
        await ready(pilot)
        await ask(pilot, "before")
        await ready(pilot)
        composer = app.query_one(Composer)
        composer.put("word " * 12)
        await pilot.pause()
        await pilot.press("up")
        assert composer.text == "word " * 12
        await pilot.press("up", "up")
        assert composer.text == "before"


async def test_ctrl_r_searches_the_history() -> None:
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        for prompt in ("first question", "second thought"):
            await ask(pilot, prompt)
            await ready(pilot)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: isinstance(app.screen, Picker))
        await pilot.press(*"first", "enter")
        await until(pilot, lambda: app.query_one(Composer).text == "first question")


async def test_tab_completes_a_command() -> None:
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("slash", "v")
        composer = app.query_one(Composer)
        assert composer.suggestion == "erify"
        await pilot.press("tab")
        assert composer.text == "/verify "


async def test_a_very_large_paste_is_sent_whole_and_shown_short() -> None:
    session = ScriptedSession()
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "x" * 200_000)
        await ready(pilot)
        assert len(session.requests[0][0][0].content) == 200_000
