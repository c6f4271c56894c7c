"""The app from the keyboard, with a scripted session in place of the models."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from localspec.tui.chat import ChatLog, Earlier, Notice, ReplyView
from localspec.tui.composer import Composer
from localspec.tui.help import HelpScreen
from localspec.tui.lines import Line
from localspec.tui.panel import Panel, Strip
from localspec.tui.picker import Picker
from scripted import ScriptedSession, ask, chat_text, open_app, ready, screen_text, until
from textual.widgets import OptionList

from localspec import config, paths
from localspec.errors import ModelError, SessionError
from localspec.session import LoadProgress
from localspec.store import State, Store

WIDTHS = [(40, 24), (80, 24), (200, 50)]


def stored_turn(prompt: str, reply: str, conversation: int | None = None, system: str | None = None) -> int:
    with Store(paths.database()) as store:
        begun = store.begin_turn(conversation, prompt, pair="big + small", settings={"system": system})
        store.finish(begun.reply, reply, State.COMPLETE, {"tokens": 3, "seed": 1})
        return begun.conversation


async def test_the_first_paint_does_not_wait_for_the_models() -> None:
    go = threading.Event()

    def open_session(progress):
        progress(LoadProgress("target", "big", 0.5))
        assert go.wait(20)
        return ScriptedSession()

    app = open_app(open_session=open_session)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "50%" in screen_text(app))
        assert "loading target" in screen_text(app)
        go.set()
        await ready(pilot)
        assert "ready" in screen_text(app)


@pytest.mark.parametrize("size", WIDTHS)
async def test_a_prompt_is_answered_and_measured(size: tuple[int, int]) -> None:
    session = ScriptedSession(text="Plain **words** come.\n\n```python\nprint(1)\n```\n")
    app = open_app(session)
    async with app.run_test(size=size) as pilot:
        await ready(pilot)
        await pilot.press(*"Hi", "enter")
        await ready(pilot)
        await pilot.pause(0.1)
        assert [(m.role, m.content) for m in session.requests[0][0]] == [("user", "Hi")]
        assert app.query_one(ReplyView).markdown.source == session.text
        shown = screen_text(app)
        for words in ("Hi", "Plain words come.", "print(1)", "K auto", "1.00", "tok"):
            assert words in shown, words
        assert app.query_one(Panel).display is (size[0] >= 100)
        assert app.query_one(Strip).display is (size[0] < 100)


@pytest.mark.parametrize("size", WIDTHS)
async def test_no_line_is_cut_at_any_width(size: tuple[int, int]) -> None:
    app = open_app()
    async with app.run_test(size=size) as pilot:
        await ready(pilot)
        shown = screen_text(app)
        for words in ("F1 help", "^P", "localspec", "K auto", "acc", "Ask something"):
            assert words in shown, words
        await pilot.press("f1")
        await pilot.pause()
        assert "Enter" in screen_text(app)
        await pilot.press("escape", "ctrl+s")
        await pilot.pause()
        assert "Past conversations" in screen_text(app)


async def test_esc_stops_a_reply_and_keeps_its_text() -> None:
    session = ScriptedSession(text="word " * 400, hold_after=2)
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "Talk")
        reply = app.query_one(ReplyView)
        await until(pilot, lambda: "word" in reply.markdown.source)
        await pilot.press("escape")
        session.go.set()
        await ready(pilot)
        partial = reply.markdown.source
        assert 0 < len(partial.split()) <= 12
        assert "stopped" in screen_text(app)
        with Store(paths.database()) as store:
            message = store.load(1).messages[-1]
        assert (message.content, message.state) == (partial, State.CANCELLED)
        await ask(pilot, "Go on")
        await ready(pilot)
        assert [m.content for m in session.requests[1][0]] == ["Talk", partial, "Go on"]


async def test_the_conversation_is_on_disk_before_and_during_the_reply() -> None:
    session = ScriptedSession(text="word " * 40, hold_after=2)
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "Talk")
        with Store(paths.database()) as store:
            assert store.load(1).messages[0].content == "Talk"
            assert store.load(1).messages[1].state is State.STREAMING
        session.go.set()
        await ready(pilot)
        with Store(paths.database()) as store:
            reply = store.load(1).messages[1]
        assert (reply.content, reply.state) == (session.text, State.COMPLETE)
        assert reply.figures["draft_max"] == 3
        assert reply.settings["temp"] == app.settings.temp


async def test_quitting_in_mid_reply_keeps_the_partial_text() -> None:
    session = ScriptedSession(text="word " * 400, hold_after=2)
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "Talk")
        await until(pilot, lambda: "word" in app.query_one(ReplyView).markdown.source)
        threading.Timer(0.3, session.go.set).start()
        await pilot.press("ctrl+q")
    assert app.return_value == 0
    assert session.closed
    with Store(paths.database()) as store:
        reply = store.load(1).messages[-1]
    assert reply.state is State.CANCELLED
    assert reply.content.startswith("word word")


async def test_a_conversation_is_resumed_where_it_was() -> None:
    number = stored_turn("What is it?", "A *thing*.", system="Be brief.")
    session = ScriptedSession()
    app = open_app(session, resume="last")
    async with app.run_test() as pilot:
        await ready(pilot)
        assert "A thing." in screen_text(app)
        await ask(pilot, "And now?")
        await ready(pilot)
        assert [m.content for m in session.requests[0][0]] == ["Be brief.", "What is it?", "A *thing*.", "And now?"]
    with Store(paths.database()) as store:
        assert len(store.load(number).messages) == 4


@pytest.mark.parametrize("which", ["99", "nonsense", "last"])
async def test_a_conversation_that_is_not_there_is_a_sentence(which: str) -> None:
    app = open_app(resume=which)
    async with app.run_test() as pilot:
        await ready(pilot)
        assert "no conversation" in chat_text(app)


async def test_a_long_conversation_shows_its_end_first() -> None:
    number = stored_turn("prompt 0", "reply 0")
    for index in range(1, 50):
        stored_turn(f"prompt {index}", f"reply {index}", number)
    app = open_app(resume=str(number))
    async with app.run_test() as pilot:
        await ready(pilot)
        assert len(app.query(ReplyView)) == 40
        earlier = app.query_one(Earlier)
        earlier.focus()
        await pilot.press("enter")
        await pilot.pause()
        assert len(app.query(ReplyView)) == 50
        assert chat_text(app).splitlines()[:2] == ["prompt 0", "reply 0"]


async def test_the_sessions_screen_finds_resumes_and_deletes() -> None:
    stored_turn("Which birds sing?", "The nightingale.")
    stored_turn("Which fish swim?", "All of them.")
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("ctrl+s")
        await pilot.pause()
        rows = app.screen.query_one(OptionList)
        assert rows.option_count == 2
        await pilot.press(*"nighting")
        await until(pilot, lambda: rows.option_count == 1)
        await pilot.press("enter")
        await until(pilot, lambda: "nightingale" in chat_text(app))
        await pilot.press("ctrl+s")
        await pilot.pause()
        await pilot.press("down", "ctrl+x")
        await pilot.pause()
        assert app.screen.query_one(OptionList).option_count == 2, "one press only asks"
        await pilot.press("ctrl+x")
        await until(pilot, lambda: app.screen.query_one(OptionList).option_count == 1)
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, Picker))
        assert "nightingale" not in chat_text(app), "the conversation that was open is gone"
    with Store(paths.database()) as store:
        assert [summary.title for summary in store.conversations()] == ["Which fish swim?"]


async def test_ctrl_n_starts_afresh_and_stops_a_reply_first() -> None:
    session = ScriptedSession(text="word " * 400, hold_after=1)
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "Talk")
        await until(pilot, lambda: "word" in app.query_one(ReplyView).markdown.source)
        await pilot.press("ctrl+n")
        session.go.set()
        await ready(pilot)
        assert chat_text(app) == ""
        await ask(pilot, "Again")
        await ready(pilot)
        assert [m.content for m in session.requests[-1][0]] == ["Again"]
    with Store(paths.database()) as store:
        assert len(store.conversations()) == 2


async def test_what_is_sent_while_loading_waits_for_the_models() -> None:
    go = threading.Event()
    session = ScriptedSession()

    def open_session(progress):
        assert go.wait(20)
        return session

    app = open_app(open_session=open_session)
    async with app.run_test() as pilot:
        await ask(pilot, "Early bird")
        assert session.requests == []
        await ask(pilot, "Second bird")
        assert app.query_one(Composer).text == "Second bird", "it stays in the line"
        go.set()
        await ready(pilot)
        await until(pilot, lambda: session.text in chat_text(app))
        assert [m.content for m in session.requests[0][0]] == ["Early bird"]


async def test_the_prompt_of_the_command_line_is_sent() -> None:
    session = ScriptedSession()
    app = open_app(session, prompt="From outside")
    async with app.run_test() as pilot:
        await until(pilot, lambda: session.text in chat_text(app))
        assert session.requests[0][0][0].content == "From outside"


async def test_a_load_that_fails_is_a_sentence_and_the_app_can_be_left() -> None:
    def open_session(progress):
        raise ModelError("big.gguf is cut off or damaged; remove it and fetch it again.")

    app = open_app(open_session=open_session)
    async with app.run_test() as pilot:
        await until(pilot, lambda: "cut off or damaged" in chat_text(app))
        await ask(pilot, "Hello?")
        assert "No model is loaded" in chat_text(app)
        await pilot.press("ctrl+q")
    assert app.return_value == 2


@pytest.mark.parametrize("error", [SessionError("The conversation is too long."), ZeroDivisionError("by zero")])
async def test_an_error_in_a_reply_is_a_sentence_and_the_next_prompt_is_answered(error: Exception) -> None:
    session = ScriptedSession(fail_after=0, error=error)
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "Fail")
        await ready(pilot)
        assert str(error) in chat_text(app)
        assert app.query_one(Composer).text == "Fail", "the prompt comes back"
        session.fail_after = None
        await ask(pilot, "Work")
        await ready(pilot)
        assert session.text in chat_text(app)
        assert [m.content for m in session.requests[1][0]] == ["Work"]


async def test_without_a_database_the_chat_works_and_says_so(localspec_home: Path) -> None:
    paths.database().mkdir(parents=True)
    session = ScriptedSession()
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        assert "cannot be saved" in chat_text(app)
        await ask(pilot, "Hi")
        await ready(pilot)
        assert session.text in chat_text(app)
        await pilot.press("ctrl+s")
        await pilot.pause()
        assert app.screen.query_one(OptionList).option_count == 1, "it can be resumed as long as the app runs"


async def test_scrolling_back_stops_following_and_the_end_resumes_it() -> None:
    session = ScriptedSession(text="line\n\n" * 120, hold_after=20)
    app = open_app(session)
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await ask(pilot, "Talk")
        chat = app.query_one(ChatLog)
        await until(pilot, lambda: chat.max_scroll_y > 60)
        await until(pilot, lambda: chat.scroll_y == chat.max_scroll_y)
        await pilot.press("pageup")
        await pilot.pause()
        place = chat.scroll_y
        assert place < chat.max_scroll_y
        session.hold_after = None
        session.go.set()
        await ready(pilot)
        assert chat.scroll_y == place, "it does not run away from the reader"
        for _ in range(30):
            await pilot.press("pagedown")
        await pilot.pause()
        assert chat.scroll_y == chat.max_scroll_y
        await ask(pilot, "More")
        await ready(pilot)
        await until(pilot, lambda: chat.scroll_y == chat.max_scroll_y)


async def test_a_short_chat_begins_at_the_top() -> None:
    app = open_app()
    async with app.run_test(size=(80, 40)) as pilot:
        await ready(pilot)
        await ask(pilot, "Hi")
        await ready(pilot)
        assert "Hi" in screen_text(app).splitlines()[2]


async def test_settings_change_from_the_next_reply_on() -> None:
    session = ScriptedSession()
    app = open_app(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        for line in ("/draft-max 5", "/temp 0", "/seed 42", "/verify rejection", "/system Be brief."):
            await ask(pilot, line)
        assert app.query_one(Composer).text == ""
        await ask(pilot, "Hi")
        await ready(pilot)
        messages, settings = session.requests[0]
        assert (settings.draft_max, settings.temp, settings.seed, settings.verify) == (5, 0.0, 42, "rejection")
        assert messages[0].role == "system"
        assert "K 5" in screen_text(app).splitlines()[0]
        await ask(pilot, "/draft off")
        await ask(pilot, "/seed random")
        await ask(pilot, "/system")
        await ask(pilot, "Hi")
        await ready(pilot)
        messages, settings = session.requests[1]
        assert (settings.draft, settings.seed, messages[0].role) == ("none", None, "user")
        assert "dense" in screen_text(app)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("/draft-max 99", "--draft-max"),
        ("/draft-max", "--draft-max"),
        ("/temp warm", "--temp"),
        ("/temp -1", "--temp"),
        ("/seed x", "--seed"),
        ("/verify magic", "greedy, gumbel"),
        ("/draft sideways", "/draft lookup or /draft off"),
        ("/save", "where to"),
        ("/save /nowhere/at/all.md", "not saved"),
        ("/nonsense", "no command /nonsense"),
        ("/resume 99", "no conversation"),
    ],
)
async def test_a_bad_command_is_a_sentence(line: str, sentence: str) -> None:
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "Hi")
        await ready(pilot)
        before = app.settings
        await ask(pilot, line)
        await pilot.pause()
        assert sentence in app.query(Notice).last().text
        assert app.settings == before


async def test_settings_changed_in_mid_reply_act_on_its_next_round() -> None:
    session = ScriptedSession(text="word " * 20, hold_after=2)
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "Hi")
        await until(pilot, lambda: app.query_one(Panel).readings.now.rounds == 2)
        await ask(pilot, "/draft off")
        assert "draft is none from the next round on." in chat_text(app)
        session.go.set()
        await ready(pilot)
        assert app.query_one(Panel).readings.now.drafted == 6
        assert app.query_one(ReplyView).markdown.source.split() == ["word"] * 20


async def test_the_panel_says_why_k_is_what_it_is() -> None:
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await ask(pilot, "Hi")
        await ready(pilot)
        await pilot.pause(0.1)
        shown = screen_text(app)
        for words in ("draft costs 0.25 of a target", "dense, estimated", "speed-up", "K auto 3"):
            assert words in shown, words


async def test_draft_on_without_a_draft_model_is_a_sentence() -> None:
    app = open_app(ScriptedSession(draft=None))
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "/draft model")
        assert "No draft model is loaded" in chat_text(app)


async def test_a_path_is_no_command() -> None:
    session = ScriptedSession()
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "/etc/hosts is what?")
        await ready(pilot)
        assert session.requests[0][0][0].content == "/etc/hosts is what?"


async def test_save_writes_markdown_and_never_over_a_file(in_folder: Path) -> None:
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "/save chat.md")
        assert "not saved" in chat_text(app), "there is nothing yet"
        await ask(pilot, "Hi")
        await ready(pilot)
        await ask(pilot, "/save chat.md")
        written = (in_folder / "chat.md").read_text()
        assert written.startswith("# Hi")
        await ask(pilot, "/save chat.md")
        assert "exists already" in chat_text(app)


async def test_the_palette_offers_every_command() -> None:
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("ctrl+p")
        await pilot.pause()
        await pilot.press(*"/draft-max")
        await until(pilot, lambda: "most tokens drafted" in screen_text(app))
        await pilot.press("down", "enter")
        await until(pilot, lambda: app.query_one(Composer).text == "/draft-max ")


@pytest.mark.parametrize("key", ["f1", "question_mark"])
async def test_help_opens_and_closes(key: str) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press(key)
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        assert "new line" in screen_text(app)
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, HelpScreen))
        assert app.query_one(Composer).text == ""


async def test_a_question_mark_within_a_prompt_is_text() -> None:
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("w", "h", "y", "question_mark")
        assert app.query_one(Composer).text == "why?"


async def test_ctrl_c_stops_a_reply_and_quits_only_when_pressed_twice() -> None:
    session = ScriptedSession(text="word " * 400, hold_after=1)
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "Talk")
        await until(pilot, lambda: "word" in app.query_one(ReplyView).markdown.source)
        await pilot.press("ctrl+c")
        session.go.set()
        await ready(pilot)
        assert session.cancelled
        assert app.is_running
        app._interrupted = time.monotonic() - 60
        await pilot.press("ctrl+c")
        assert app.is_running
        await pilot.press("ctrl+c")
        await until(pilot, lambda: not app.is_running)
    assert app.return_value == 0


async def test_ctrl_d_quits_on_an_empty_line_only() -> None:
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("x", "home", "ctrl+d")
        assert app.query_one(Composer).text == ""
        assert app.is_running
        await pilot.press("ctrl+d")
        await until(pilot, lambda: not app.is_running)


@pytest.mark.parametrize("theme", ["dark", "light", "nord", "ansi-light"])
async def test_every_theme_paints(theme: str) -> None:
    app = open_app(settings=config.load({"theme": theme}).settings)
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "Hi")
        await ready(pilot)
        assert "acceptance" in screen_text(app)
        assert app.current_theme.dark is (theme not in ("light", "ansi-light"))


async def test_the_theme_can_be_changed_while_it_runs() -> None:
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        for theme in ("localspec-light", "ansi-dark", "dracula", "localspec-dark"):
            app.theme = theme
            await pilot.pause()
            assert "acceptance" in screen_text(app)


async def test_no_color_paints_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "Hi")
        await ready(pilot)
        styles = {
            segment.style
            for strip in app.screen._compositor.render_strips()
            for segment in strip.apply_filter(app._filters[-1], app.screen.background_colors[1])
            if segment.style is not None
        }
        assert all(style.color is None or style.color.is_default for style in styles)
        assert all(style.bgcolor is None or style.bgcolor.is_default for style in styles)


async def test_the_screen_follows_the_terminals_size() -> None:
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await ask(pilot, "Hi")
        await ready(pilot)
        for width, height in [*WIDTHS, (1, 1), (10, 5), (80, 24)]:
            await pilot.resize_terminal(width, height)
            await pilot.pause(0.1)
            assert app.query_one(Panel).display is (width >= 100)
            if width >= 40:
                assert app.query_one("#status", Line).region.bottom == height
                assert "words" in screen_text(app)


async def test_the_picker_can_be_left_without_a_choice() -> None:
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        for key in ("ctrl+s", "ctrl+r"):
            await pilot.press(key)
            await until(pilot, lambda: isinstance(app.screen, Picker))
            await pilot.press("ctrl+x", "down", "up", "enter")
            await until(pilot, lambda: not isinstance(app.screen, Picker))
        assert app.query_one(Composer).has_focus
        assert len(app.screen_stack) == 1
