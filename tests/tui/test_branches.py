"""Versions of prompts and replies, and branches of a conversation."""

from __future__ import annotations

from localspec.tui.chat import PromptView, ReplyView
from localspec.tui.composer import Composer
from scripted import ScriptedSession, ask, chat_text, open_app, ready, screen_text, until

from localspec import paths
from localspec.store import Store


async def test_versions_of_a_reply_are_walked_with_brackets_and_come_back_on_resume() -> None:
    session = ScriptedSession(text="first")
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "one")
        await ready(pilot)
        await ask(pilot, "two")
        await ready(pilot)
        for text in ("second", "third"):
            session.text = text
            await pilot.press("ctrl+o")
            await until(pilot, lambda text=text: chat_text(app).endswith(text))
            await ready(pilot)
        assert "3/3" in screen_text(app)
        await pilot.press("shift+tab", "left_square_bracket")
        await until(pilot, lambda: "2/3" in screen_text(app))
        assert chat_text(app).endswith("second")
        assert app.focused is app.query(ReplyView).last(), "so that the key can be pressed again"
        await pilot.press("left_square_bracket")
        await until(pilot, lambda: "1/3" in screen_text(app))
        await pilot.press("left_square_bracket")
        await pilot.pause()
        assert chat_text(app).endswith("first")
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: "2/3" in screen_text(app))
    again = open_app(session, resume="last")
    async with again.run_test() as pilot:
        await ready(pilot)
        assert chat_text(again).splitlines() == ["one", "first", "two", "second"]
        assert "2/3" in screen_text(again)


async def test_versions_of_a_prompt_bring_what_followed_them_back() -> None:
    session = ScriptedSession(text="r")
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        for prompt in ("one", "two"):
            await ask(pilot, prompt)
            await ready(pilot)
        await pilot.press("shift+tab", "home", "e")
        app.query_one(Composer).put("uno")
        await pilot.press("enter")
        await until(pilot, lambda: len(session.requests) == 3)
        await ready(pilot)
        assert [view.turn.prompt for view in app.query(PromptView)] == ["uno"]
        assert [m.content for m in session.requests[-1][0]] == ["uno"]
        await pilot.press("shift+tab", "up", "left_square_bracket")
        await until(pilot, lambda: len(app.query(PromptView)) == 2)
        assert [view.turn.prompt for view in app.query(PromptView)] == ["one", "two"]
        assert app.focused is app.query(PromptView).first()
        assert "1/2" in screen_text(app)


async def test_an_angle_can_be_clicked() -> None:
    session = ScriptedSession(text="first")
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "one")
        await ready(pilot)
        session.text = "second"
        await pilot.press("ctrl+o")
        await until(pilot, lambda: "second" in chat_text(app))
        await ready(pilot)
        await pilot.click(app.query_one(ReplyView).footer, offset=(2, 0))
        await until(pilot, lambda: "1/2" in screen_text(app))
        assert chat_text(app).endswith("first")


async def test_a_branch_after_a_reply_is_a_new_conversation() -> None:
    session = ScriptedSession(text="r")
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        for prompt in ("one", "two"):
            await ask(pilot, prompt)
            await ready(pilot)
        await pilot.press("shift+tab", "home", "down", "b")
        await until(pilot, lambda: app.conversation.id == 2)
        assert chat_text(app).splitlines() == ["one", "r"]
        assert app.focused is app.query_one(Composer)
        await ask(pilot, "else")
        await ready(pilot)
        assert [m.content for m in session.requests[-1][0]] == ["one", "r", "else"]
    with Store(paths.database()) as store:
        assert [m.content for m in store.load(1).messages] == ["one", "r", "two", "r"]
        assert [m.content for m in store.load(2).messages] == ["one", "r", "else", "r"]


async def test_a_branch_at_a_prompt_puts_it_into_the_input_line() -> None:
    app = open_app(ScriptedSession(text="r"))
    async with app.run_test() as pilot:
        await ready(pilot)
        for prompt in ("one", "two"):
            await ask(pilot, prompt)
            await ready(pilot)
        await pilot.press("shift+tab", "up", "b")
        await until(pilot, lambda: app.conversation.id == 2)
        assert chat_text(app).splitlines() == ["one", "r"]
        assert app.query_one(Composer).text == "two"
        await pilot.press("shift+tab", "up", "b")
        await until(pilot, lambda: app.conversation.id is None)
        assert chat_text(app) == ""
        assert app.query_one(Composer).text == "one"


async def test_the_branch_command_copies_the_whole_conversation() -> None:
    app = open_app(ScriptedSession(text="r"))
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "one")
        await ready(pilot)
        await ask(pilot, "/branch")
        await until(pilot, lambda: app.conversation.id == 2)
        assert chat_text(app).splitlines() == ["one", "r"]


async def test_what_was_asked_of_a_turn_that_is_gone_is_done_to_the_one_in_its_place() -> None:
    session = ScriptedSession(text="r")
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        for prompt in ("one", "two"):
            await ask(pilot, prompt)
            await ready(pilot)
        old = app.query(ReplyView).last()
        for wish in ("regenerate", "regenerate", "edit"):
            old.action_wish(wish)
        await until(pilot, lambda: len(session.requests) == 4)
        await ready(pilot)
        await pilot.press("ctrl+o")
        await until(pilot, lambda: len(session.requests) == 5)
        await ready(pilot)
        app.query_one(Composer).put("deux")
        await pilot.press("enter")
        await until(pilot, lambda: len(session.requests) == 6)
        await ready(pilot)
        assert [m.content for m in session.requests[-1][0]] == ["one", "r", "deux"]
    with Store(paths.database()) as store:
        assert len(store.load(1).messages[2].versions) == 2
        assert [summary.id for summary in store.conversations()] == [1]
