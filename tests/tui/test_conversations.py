"""Conversations in the app: their settings, titles and documents, and long ones."""

from __future__ import annotations

import json
from pathlib import Path

from localspec.tui.chat import ChatLog, PromptView, ReplyView
from localspec.tui.composer import Composer
from scripted import ScriptedSession, ask, chat_text, open_app, ready, screen_text, until
from textual.widget import Widget

from localspec import paths
from localspec.store import State, Store


async def test_settings_are_saved_with_the_conversation_and_come_back() -> None:
    session = ScriptedSession()
    app = open_app(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        configured = app.settings
        for line in ("/temp 0.3", "/seed 9", "/system Be brief.", "/draft-max 5", "Hi"):
            await ask(pilot, line)
        await ready(pilot)
        await ask(pilot, "/seed 10")
        await ask(pilot, "/new")
        await until(pilot, lambda: app.settings == configured)
        assert "temp 0.8" in screen_text(app)
        await ask(pilot, "/resume 1")
        await until(pilot, lambda: app.settings.temp == 0.3)
        assert (app.settings.seed, app.settings.system, app.settings.draft_max) == (10, "Be brief.", 5)
        await ask(pilot, "/new")
        await ask(pilot, "Hi")
        await ready(pilot)
        assert session.requests[-1][1] == configured
    again = open_app(session, resume="1")
    async with again.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "And?")
        await ready(pilot)
        messages, settings = session.requests[-1]
        assert messages[0].content == "Be brief."
        assert (settings.temp, settings.seed) == (0.3, 10)


async def test_settings_of_a_new_conversation_are_saved_with_its_first_prompt() -> None:
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        for line in ("/temp 0", "Hi"):
            await ask(pilot, line)
        await ready(pilot)
    with Store(paths.database()) as store:
        assert store.load(1).settings["temp"] == 0


async def test_a_conversation_is_renamed() -> None:
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "Hi")
        await ready(pilot)
        await ask(pilot, "/title Greetings")
        await pilot.press("ctrl+s")
        await pilot.pause()
        assert "Greetings" in screen_text(app)


async def test_save_writes_json_for_a_json_file(in_folder: Path) -> None:
    app = open_app(ScriptedSession(text="<think>Hm.</think>Hello."))
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "Hi")
        await ready(pilot)
        await ask(pilot, "/save chat.json")
        assert "Saved to chat.json" in chat_text(app)
    document = json.loads((in_folder / "chat.json").read_text())
    assert [message["content"] for message in document["messages"]] == ["Hi", "<think>Hm.</think>Hello."]
    assert document["messages"][1]["figures"]["seed"] == 7


async def test_ctrl_end_goes_to_the_end_of_the_chat() -> None:
    app = open_app(ScriptedSession(text="line\n\n" * 60))
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "Talk")
        await ready(pilot)
        chat = app.query_one(ChatLog)
        for key in ("ctrl+end", "end"):
            await pilot.press("pageup", "pageup")
            await pilot.pause()
            assert chat.scroll_y < chat.max_scroll_y
            await pilot.press(key)
            await until(pilot, lambda: chat.scroll_y == chat.max_scroll_y)


async def test_text_that_is_selected_with_the_mouse_is_copied_by_ctrl_c() -> None:
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "Hello there")
        await ready(pilot)
        prompt = app.query_one(PromptView)
        await pilot.mouse_down(prompt, offset=(2, 0))
        await pilot.hover(prompt, offset=(7, 0))
        await pilot.mouse_up(prompt, offset=(7, 0))
        await pilot.press("ctrl+c")
        assert app.clipboard.strip() in "Hello there"
        assert app.clipboard.strip()
        assert app.is_running


async def test_a_reply_to_a_long_conversation_touches_only_its_own_widgets() -> None:
    with Store(paths.database()) as store:
        conversation = None
        for index in range(200):
            begun = store.begin_turn(conversation, f"prompt {index}", pair="p")
            store.finish(begun.reply, f"reply {index}\n\n- a\n- b\n", State.COMPLETE)
            conversation = begun.conversation
    session = ScriptedSession(text="word " * 60)
    app = open_app(session, resume="last")
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        assert len(app.query(ReplyView)) == 40, "the rest waits until it is asked for"
        before = set(app.query(Widget))
        await pilot.pause(0.2)
        drawn: set[Widget] = set()
        for view in app.query(ReplyView):
            for widget in view.walk_children(Widget, with_self=True):
                widget.refresh = lambda *_, widget=widget, **__: drawn.add(widget) or widget  # type: ignore[method-assign]
        await ask(pilot, "Hi")
        await ready(pilot)
        assert not drawn, "what is finished is not drawn again"
        assert len(set(app.query(Widget)) - before) < 20
        assert len(session.requests[0][0]) == 401
        assert app.query_one(Composer).has_focus
