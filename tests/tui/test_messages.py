"""Messages of the chat: moving over them, copying, editing, replying again, folding thoughts."""

from __future__ import annotations

import pytest
from localspec.tui.chat import ChatLog, PromptView, ReplyView
from localspec.tui.composer import Composer
from localspec.tui.lines import Line
from scripted import ScriptedSession, ask, chat_text, open_app, ready, screen_text, until
from textual.pilot import Pilot

from localspec import paths
from localspec.store import State, Store

CODE = "First:\n\n```python\nprint(1)\n```\n\n- then\n\n  ```sh\n  ls\n  ls -l\n  ```\n\nDone."
THOUGHT = "<think>\nLet me see.\nIt is blue.\n</think>\n\nIt is **blue**."


async def talk(pilot: Pilot[int], *prompts: str) -> None:
    await ready(pilot)
    for prompt in prompts:
        await ask(pilot, prompt)
        await ready(pilot)


@pytest.mark.parametrize(("key", "back"), [("shift+tab", "escape"), ("ctrl+up", "tab"), ("tab", "down")])
async def test_the_cursor_goes_to_the_last_message_and_back(key: str, back: str) -> None:
    app = open_app()
    async with app.run_test() as pilot:
        await talk(pilot, "Hi")
        await pilot.press(key)
        assert app.focused is app.query_one(ReplyView)
        assert "y copy" in screen_text(app), "the status line names the keys"
        await pilot.press(back)
        assert app.focused is app.query_one(Composer)
        assert "y copy" not in screen_text(app)


async def test_the_cursor_walks_over_messages_and_brings_them_into_view() -> None:
    session = ScriptedSession(text="line\n\n" * 30)
    app = open_app(session)
    async with app.run_test(size=(80, 24)) as pilot:
        await talk(pilot, "one", "two", "three")
        chat = app.query_one(ChatLog)
        await pilot.press("shift+tab", "up")
        assert app.focused is app.query(PromptView).last()
        await pilot.press("home")
        await pilot.pause()
        assert app.focused is app.query(PromptView).first()
        assert chat.scroll_y == 0
        await pilot.press("up")
        assert app.focused is app.query(PromptView).first()
        await pilot.press("j", "k", "ctrl+down")
        assert app.focused is app.query(ReplyView).first()
        await pilot.press("end")
        await pilot.pause()
        assert app.focused is app.query(ReplyView).last()
        place = chat.scroll_y
        await pilot.press("pageup")
        await pilot.pause()
        assert chat.scroll_y < place


async def test_a_click_selects_a_message() -> None:
    app = open_app()
    async with app.run_test() as pilot:
        await talk(pilot, "Hi")
        await pilot.click(PromptView)
        assert app.focused is app.query_one(PromptView)
        await pilot.click(ReplyView)
        assert app.focused is app.query_one(ReplyView)


async def test_the_cursor_stays_where_it_is_while_the_reply_grows() -> None:
    session = ScriptedSession(text="line\n\n" * 200, hold_after=20)
    app = open_app(session)
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await ask(pilot, "Talk")
        chat = app.query_one(ChatLog)
        await until(pilot, lambda: chat.max_scroll_y > 60)
        await pilot.press("shift+tab", "up")
        await until(pilot, lambda: chat.scroll_y == 0)
        session.go.set()
        await ready(pilot)
        assert chat.scroll_y == 0


async def test_y_copies_the_message() -> None:
    app = open_app(ScriptedSession(text=THOUGHT))
    async with app.run_test() as pilot:
        await talk(pilot, "What colour?")
        await pilot.press("shift+tab", "y")
        assert app.clipboard == "It is **blue**."
        await pilot.press("up", "y")
        assert app.clipboard == "What colour?"
        await say(pilot, "/copy")
        assert app.clipboard == "It is **blue**."


async def test_c_copies_one_code_block_after_the_other_and_says_which() -> None:
    app = open_app(ScriptedSession(text=CODE))
    async with app.run_test() as pilot:
        await talk(pilot, "Code")
        await pilot.press("shift+tab", "c")
        assert app.clipboard == "print(1)\n"
        assert toasts(app) == ["Copied code block 1 of 2: python, 1 line."]
        await pilot.press("c")
        assert app.clipboard == "ls\nls -l\n"
        assert toasts(app)[-1] == "Copied code block 2 of 2: sh, 2 lines."
        await pilot.press("c")
        assert app.clipboard == "print(1)\n"
        await say(pilot, "/code 2")
        assert app.clipboard == "ls\nls -l\n"
        await say(pilot, "/code 3")
        assert "1 to 2" in chat_text(app)
        await pilot.press("shift+tab", "up", "c")
        assert toasts(app)[-1] == "There is no code in this message."


async def test_copy_counts_back_from_the_last_reply() -> None:
    session = ScriptedSession(text="first reply")
    app = open_app(session)
    async with app.run_test() as pilot:
        await talk(pilot, "one")
        session.text = "second reply"
        await talk(pilot, "two")
        await say(pilot, "/copy 2")
        assert app.clipboard == "first reply"
        await say(pilot, "/copy 3")
        assert "counted back" in chat_text(app)


async def test_e_edits_the_prompt_and_sending_keeps_the_earlier_version() -> None:
    session = ScriptedSession()
    app = open_app(session)
    async with app.run_test() as pilot:
        await talk(pilot, "one", "two")
        await pilot.press("shift+tab", "e")
        composer = app.query_one(Composer)
        assert (composer.text, app.focused) == ("two", composer)
        assert "editing, Esc" in screen_text(app)
        await pilot.press(*" and a half", "enter")
        await ready(pilot)
        assert [m.content for m in session.requests[-1][0]] == ["one", session.text, "two and a half"]
        assert [view.turn.prompt for view in app.query(PromptView)] == ["one", "two and a half"]
        assert "editing," not in screen_text(app)
    with Store(paths.database()) as store:
        assert len(store.load(1).messages[2].versions) == 2


async def test_esc_gives_up_an_edit() -> None:
    session = ScriptedSession()
    app = open_app(session)
    async with app.run_test() as pilot:
        await talk(pilot, "one")
        await say(pilot, "/edit")
        assert app.query_one(Composer).text == "one"
        await pilot.press("escape")
        assert app.query_one(Composer).text == ""
        await ask(pilot, "two")
        await ready(pilot)
        assert [m.content for m in session.requests[-1][0]] == ["one", session.text, "two"]


@pytest.mark.parametrize("way", ["key", "shortcut", "command"])
async def test_a_reply_is_made_again(way: str) -> None:
    session = ScriptedSession(text="first")
    app = open_app(session)
    async with app.run_test() as pilot:
        await talk(pilot, "one")
        session.text = "second"
        if way == "key":
            await pilot.press("shift+tab", "r")
        elif way == "shortcut":
            await pilot.press("ctrl+o")
        else:
            await ask(pilot, "/regenerate")
        await until(pilot, lambda: len(session.requests) == 2)
        await ready(pilot)
        assert [m.content for m in session.requests[-1][0]] == ["one"]
        assert chat_text(app).split("\n") == ["one", "second"]
        assert "2/2" in screen_text(app)
        assert app.focused is app.query_one(Composer)


async def test_a_reply_that_streams_is_stopped_before_it_is_made_again() -> None:
    session = ScriptedSession(text="word " * 400, hold_after=2)
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "Talk")
        await until(pilot, lambda: "word" in app.query_one(ReplyView).markdown.source)
        await pilot.press("ctrl+o")
        session.text, session.hold_after = "short", None
        session.go.set()
        await until(pilot, lambda: chat_text(app).endswith("short"))
        await ready(pilot)
    with Store(paths.database()) as store:
        first, second = store.load(1).messages[1].versions
        store.switch(first)
        assert store.load(1).messages[1].state is State.CANCELLED
        assert second > first


@pytest.mark.parametrize("line", ["/copy", "/code", "/edit", "/regenerate", "/branch", "/title", "/title Name"])
async def test_a_command_about_messages_before_there_is_one_is_a_sentence(line: str) -> None:
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await say(pilot, line)
        assert chat_text(app).startswith(("There is no", "Say what", "There is nothing"))


async def test_a_thought_is_one_line_until_it_is_unfolded() -> None:
    session = ScriptedSession(text=THOUGHT)
    app = open_app(session)
    async with app.run_test() as pilot:
        await talk(pilot, "What colour?")
        reply = app.query_one(ReplyView)
        assert reply.markdown.source == "It is **blue**."
        assert "thought for 8 tokens" in screen_text(app)
        assert "Let me see." not in screen_text(app)
        await pilot.press("shift+tab", "enter")
        await pilot.pause()
        assert "Let me see." in screen_text(app)
        await pilot.press("space")
        await pilot.pause()
        assert "Let me see." not in screen_text(app)
        await pilot.click(reply.thought)
        await pilot.pause()
        assert "Let me see." in screen_text(app)
        await say(pilot, "Really?")
        await ready(pilot)
        assert session.requests[-1][0][1].content == "It is **blue**.", "the model does not read its old thoughts"
    with Store(paths.database()) as store:
        reply = store.load(1).messages[1]
    assert reply.content == THOUGHT
    assert reply.figures["thought_tokens"] == 8


async def test_a_thought_that_is_not_over_is_shown_as_thinking() -> None:
    session = ScriptedSession(text="<think> " + "hm " * 40 + "</think>Yes.", hold_after=3)
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "Is it?")
        await until(pilot, lambda: "thinking" in screen_text(app))
        assert "hm hm" not in screen_text(app)
        session.go.set()
        await ready(pilot)
        assert "thought for" in screen_text(app)
        assert app.query_one(ReplyView).markdown.source == "Yes."


async def test_a_stopped_thought_comes_back_folded() -> None:
    with Store(paths.database()) as store:
        begun = store.begin_turn(None, "Is it?", pair="p")
        store.finish(begun.reply, "<think>\nWell now", State.CANCELLED, {"thought_tokens": 3})
    app = open_app(resume="last")
    async with app.run_test() as pilot:
        await ready(pilot)
        assert "thought 3 tokens" in screen_text(app)
        assert "Well now" not in screen_text(app)


async def test_a_long_prompt_is_folded_and_unfolds() -> None:
    session = ScriptedSession()
    app = open_app(session)
    async with app.run_test(size=(80, 40)) as pilot:
        await talk(pilot, "\n".join(f"line {index}" for index in range(18)))
        assert "line 11" in screen_text(app)
        assert "line 12" not in screen_text(app)
        assert "… 6 more lines" in screen_text(app)
        await pilot.press("shift+tab", "up", "enter")
        await pilot.pause()
        assert "line 17" in screen_text(app)
        await pilot.press("space")
        await pilot.pause()
        assert "line 17" not in screen_text(app)
        await pilot.click(PromptView, offset=(4, 12))
        await pilot.pause()
        assert "line 17" in screen_text(app), "the note is a link"


async def test_the_status_line_shows_a_messages_keys_at_any_width() -> None:
    app = open_app()
    async with app.run_test(size=(40, 20)) as pilot:
        await talk(pilot, "Hi")
        await pilot.press("shift+tab")
        await pilot.pause()
        line = screen_text(app).splitlines()[-1]
        assert "y copy" in line
        assert "Esc back" in line
        assert len(app.query_one("#status", Line).right) == len(ReplyView.KEYS)


async def say(pilot: Pilot[int], line: str) -> None:
    """Enter a line, wherever the cursor is."""
    pilot.app.query_one(Composer).focus()
    await ask(pilot, line)
    await pilot.pause()


def toasts(app) -> list[str]:
    return [toast.message for toast in app._notifications]
