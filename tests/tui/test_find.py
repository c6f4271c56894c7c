"""Search in the open conversation and over all of them."""

from __future__ import annotations

import pytest
from localspec.tui.chat import ChatLog, Earlier, Later, PromptView, ReplyView
from localspec.tui.composer import Composer
from localspec.tui.find import FindBar
from scripted import ask, open_app, ready, screen_text, until
from textual.widgets import Input, OptionList

from localspec import paths
from localspec.store import State, Store

TURNS = [
    ("Which birds sing?", "Robins sing.\n\n- larks\n- wrens\n"),
    ("At night?", "```\nsing()\n```\n"),
    ("Why?", "So."),
]


def stored(turns: list[tuple[str, str]]) -> int:
    with Store(paths.database()) as store:
        conversation = None
        for prompt, reply in turns:
            begun = store.begin_turn(conversation, prompt, pair="p")
            store.finish(begun.reply, reply, State.COMPLETE)
            conversation = begun.conversation
    assert conversation is not None
    return conversation


@pytest.mark.parametrize("way", ["key", "command"])
async def test_hits_are_counted_and_walked_from_the_last(way: str) -> None:
    stored(TURNS)
    app = open_app(resume="last")
    async with app.run_test(size=(80, 40)) as pilot:
        await ready(pilot)
        if way == "key":
            await pilot.press("ctrl+f", *"SING")
        else:
            await ask(pilot, "/find SING")
        await until(pilot, lambda: "3 of 3" in screen_text(app))
        replies = list(app.query(ReplyView))
        assert replies[1].query(".-marked")
        await pilot.press("enter")
        await until(pilot, lambda: "2 of 3" in screen_text(app))
        assert replies[0].query_one(".-marked").source == "Robins sing.\n"
        assert not replies[1].query(".-marked")
        await pilot.press("up")
        await until(pilot, lambda: "1 of 3" in screen_text(app))
        assert any(span.style for span in app.query(PromptView).first().content.spans)
        await pilot.press("down", "down", "down")
        await until(pilot, lambda: "1 of 3" in screen_text(app))
        await pilot.press("escape")
        assert app.focused is app.query(PromptView).first(), "the message that was found can be acted on"
        assert not app.query_one(FindBar).display
        assert not app.query(".-marked")


async def test_what_is_not_there_is_not_found() -> None:
    stored(TURNS)
    app = open_app(resume="last")
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("ctrl+f")
        await pilot.press(*"owl")
        await until(pilot, lambda: "not found" in screen_text(app))
        await pilot.press("enter", "escape")
        await pilot.pause()
        assert app.focused is app.query_one(Composer)


async def test_a_hit_in_turns_that_are_not_shown_yet_shows_them() -> None:
    stored([("needle", "r"), *((f"prompt {index}", "r") for index in range(60))])
    app = open_app(resume="last")
    async with app.run_test() as pilot:
        await ready(pilot)
        assert app.query(Earlier)
        await ask(pilot, "/find needle")
        await until(pilot, lambda: "1 of 1" in screen_text(app))
        await until(pilot, lambda: "needle" in screen_text(app).splitlines()[2])
        assert not app.query(Earlier)
        assert len(app.query(ReplyView)) == 40


async def test_a_hit_of_the_search_over_all_opens_at_its_message() -> None:
    stored([("first needle", "found it"), *((f"prompt {index}", "r") for index in range(60))])
    stored([("other", "r")])
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("ctrl+s")
        await pilot.pause()
        await pilot.press(*"found")
        await until(pilot, lambda: app.screen.query_one(OptionList).option_count == 1)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.focused, ReplyView))
        await until(pilot, lambda: "found it" in screen_text(app))
        assert app.focused is app.query(ReplyView).first()
        assert app.query_one(ChatLog).scroll_y < app.query_one(ChatLog).max_scroll_y
        assert len(app.query(ReplyView)) == 40, "what is far from it waits until it is asked for"
        await pilot.press("end", "enter")
        await until(pilot, lambda: len(app.query(ReplyView)) == 61)
        assert not app.query(Later)


async def test_the_end_is_shown_again_when_something_is_sent_from_an_earlier_place() -> None:
    stored([("first needle", "found it"), *((f"prompt {index}", "r") for index in range(60))])
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        with Store(paths.database()) as store:
            hit = store.search("needle")[0].hit
        await app.conversations.resume("1", hit)
        assert app.query(Later)
        await pilot.press("escape")
        await ask(pilot, "And now?")
        await ready(pilot)
        prompts = [view.turn.prompt for view in app.query(PromptView)]
        assert prompts[-2:] == ["prompt 59", "And now?"]
        assert not app.query(Later)


async def test_a_hit_in_a_version_that_is_not_shown_shows_it() -> None:
    with Store(paths.database()) as store:
        begun = store.begin_turn(None, "one", pair="p")
        store.finish(begun.reply, "the needle", State.COMPLETE)
        again = store.begin_reply(begun.prompt, pair="p")
        store.finish(again.reply, "hay", State.COMPLETE)
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("ctrl+s")
        await pilot.pause()
        await pilot.press(*"needle")
        await until(pilot, lambda: "the needle" in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: "1/2" in screen_text(app))
        assert "the needle" in screen_text(app)


async def test_the_text_that_was_looked_for_is_there_again() -> None:
    stored(TURNS)
    app = open_app(resume="last")
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "/find birds")
        await pilot.press("escape", "ctrl+f")
        assert app.query_one(FindBar).query_one(Input).value == "birds"
