"""Commands of the user's shell, and the user's editor."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from localspec.tui.chat import Notice
from localspec.tui.composer import Composer
from localspec.tui.editor import editor_of
from localspec.tui.entry import Chips
from localspec.tui.shell import ShellView
from scripted import ScriptedSession, ask, open_app, ready, screen_text, until
from textual.drivers.headless_driver import HeadlessDriver

from localspec.errors import LocalspecError


async def test_a_command_is_run_shown_and_attached() -> None:
    session = ScriptedSession()
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "!echo hello; echo wrong >&2; exit 3")
        view = app.query_one(ShellView)
        await until(pilot, lambda: "exit code 3" in screen_text(app))
        assert view.output == "hello\nwrong"
        assert session.requests == [], "no model is asked"
        await ask(pilot, "/attach")
        assert app.query_one(Chips).display
        await ask(pilot, "What is wrong?")
        await until(pilot, lambda: session.requests)
        text = session.requests[0][0][0].content
        assert text == "What is wrong?\n\n$ echo hello; echo wrong >&2; exit 3:\n```\nhello\nwrong\n```"


async def test_keys_of_an_output_attach_copy_and_unfold_it() -> None:
    app = open_app()
    async with app.run_test(size=(80, 60)) as pilot:
        await ready(pilot)
        await ask(pilot, f"!{sys.executable} -c 'for i in range(30): print(chr(27) + \"[31mline\", i)'")
        await until(pilot, lambda: "… 10 more lines" in screen_text(app))
        assert "line 29" not in screen_text(app)
        await pilot.press("shift+tab", "enter")
        await pilot.pause()
        assert "line 29" in screen_text(app)
        await pilot.press("y")
        assert app.clipboard.startswith("line 0\nline 1\n")
        await pilot.press("a")
        await pilot.pause()
        assert app.query_one(Chips).display
        assert app.focused is app.query_one(Composer)


async def test_what_is_for_a_terminal_alone_is_left_out() -> None:
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, r"!printf '\033]0;title\007 10%%\r100%%\r\n\033[1;31mred\033[0m\tb\a\n'")
        view = app.query_one(ShellView)
        await until(pilot, lambda: view.output and not view.is_running)
        assert view.output == "100%\nred\tb"


async def test_esc_stops_a_command_that_prints_without_end() -> None:
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "!yes")
        view = app.query_one(ShellView)
        await until(pilot, lambda: "more, not kept" in view.output)
        assert len(view.output) < 250_000
        await pilot.press("escape")
        await until(pilot, lambda: not view.is_running)
        assert "stopped by signal 9" in screen_text(app)


async def test_a_bare_exclamation_mark_is_a_sentence() -> None:
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "!")
        assert "which command" in app.query_one(Notice).text


async def test_nothing_that_a_model_says_is_run(in_folder: Path) -> None:
    app = open_app(ScriptedSession(text="!touch owned\n\n```sh\ntouch owned\n```\n\n/attach owned @owned"))
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "Hi")
        await ready(pilot)
        await ask(pilot, "Again")
        await ready(pilot)
        assert not app.query(ShellView)
    assert list(in_folder.iterdir()) == []


async def test_ctrl_g_opens_the_editor_with_the_whole_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "editor.py"
    script.write_text("import sys; p = sys.argv[1]; t = open(p).read(); open(p, 'w').write(t.upper() + '\\nmore\\n')")
    monkeypatch.setenv("VISUAL", f"{sys.executable} {script}")
    monkeypatch.setattr(HeadlessDriver, "can_suspend", True)
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press(*"abc", "ctrl+g")
        await until(pilot, lambda: app.query_one(Composer).text == "ABC\nmore")
        monkeypatch.setenv("VISUAL", "false")
        await pilot.press("ctrl+g")
        await until(pilot, lambda: "ended with code 1" in screen_text(app))
        monkeypatch.setenv("VISUAL", "no-such-editor")
        await pilot.press("ctrl+g")
        await until(pilot, lambda: "cannot be started" in screen_text(app))
        assert app.query_one(Composer).text == "ABC\nmore"


async def test_without_a_terminal_there_is_no_editor() -> None:
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("ctrl+g")
        assert "no terminal" in app.query_one(Notice).text


def test_visual_comes_before_editor_and_may_have_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    assert editor_of({"VISUAL": "code --wait", "EDITOR": "vi"}) == ["code", "--wait"]
    assert editor_of({"EDITOR": "vi"}) == ["vi"]
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(LocalspecError, match="set EDITOR"):
        editor_of({})
