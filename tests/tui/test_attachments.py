"""What goes along with a prompt: files, large pastes, and completing their names."""

from __future__ import annotations

from pathlib import Path

import pytest
from localspec.tui.attachments import MOST_BYTES, read_file, size_of, with_attachments
from localspec.tui.chat import PromptView
from localspec.tui.completions import Completions
from localspec.tui.composer import Composer
from localspec.tui.entry import Chips
from localspec.tui.files import best_matches, files_below
from scripted import ScriptedSession, ask, chat_text, open_app, ready, screen_text, until
from textual import events
from textual.pilot import Pilot

from localspec.errors import AttachmentError


@pytest.fixture
def folder(in_folder: Path) -> Path:
    (in_folder / "notes.md").write_text("Buy milk.\n")
    (in_folder / "src" / "deep").mkdir(parents=True)
    (in_folder / "src" / "main.py").write_text("print('```')\n")
    (in_folder / "src" / "deep" / "mainframe.py").write_text("pass\n")
    (in_folder / ".git").mkdir()
    (in_folder / ".git" / "maintenance").write_text("x")
    (in_folder / "picture.png").write_bytes(b"\x89PNG\0\0")
    return in_folder


async def paste(pilot: Pilot[int], text: str) -> None:
    pilot.app.post_message(events.Paste(text))
    await pilot.pause()


async def sent(pilot: Pilot[int], session: ScriptedSession) -> str:
    """Press Enter and wait for the answer; returns what the model read."""
    await pilot.press("enter")
    await until(pilot, lambda: session.requests)
    await ready(pilot)
    return session.requests[-1][0][-1].content


async def test_a_file_is_completed_attached_and_sent(folder: Path) -> None:
    session = ScriptedSession()
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press(*"Explain @main")
        completions = app.query_one(Completions)
        await until(pilot, lambda: completions.is_open)
        assert completions.chosen is not None
        assert completions.chosen.path == Path("src/main.py")
        assert "maintenance" not in screen_text(app)
        await pilot.press("down", "up", "enter")
        await pilot.pause()
        assert app.query_one(Composer).text == "Explain src/main.py "
        assert not completions.is_open
        assert "src/main.py 13 B" in screen_text(app).replace("\N{NO-BREAK SPACE}", " ")
        assert await sent(pilot, session) == "Explain src/main.py\n\nsrc/main.py:\n````py\nprint('```')\n````"
        assert not app.query_one(Chips).display


async def test_esc_closes_the_completions_and_tab_takes_one(folder: Path) -> None:
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("at")
        await pilot.press(*"notes")
        completions = app.query_one(Completions)
        await until(pilot, lambda: completions.is_open)
        await pilot.press("escape")
        assert not completions.is_open
        await pilot.press("backspace")
        await until(pilot, lambda: completions.is_open)
        await pilot.press("tab")
        await pilot.pause()
        assert app.query_one(Composer).text == "notes.md "


async def test_a_completion_can_be_clicked(folder: Path) -> None:
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press(*"@note")
        completions = app.query_one(Completions)
        await until(pilot, lambda: completions.is_open)
        await pilot.click(completions, offset=(3, 0))
        await until(pilot, lambda: "notes.md" in screen_text(app) and not completions.is_open)
        assert app.query_one(Composer).text == "notes.md "


async def test_a_typed_name_of_a_file_is_attached_and_other_words_are_left(folder: Path) -> None:
    session = ScriptedSession()
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        app.query_one(Composer).put("Ask @me about @notes.md, please")
        text = await sent(pilot, session)
        assert text == "Ask @me about @notes.md, please\n\nnotes.md:\n```md\nBuy milk.\n```"


async def test_an_attachment_is_removed_by_key_and_by_mouse(folder: Path) -> None:
    session = ScriptedSession()
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        for line in ("/attach notes.md", "/attach src/main.py", "/attach notes.md"):
            await ask(pilot, line)
        chips = app.query_one(Chips)
        assert screen_text(app).count("notes.md") == 1
        await pilot.press("backspace")
        await pilot.pause()
        assert "notes.md" not in screen_text(app)
        assert chips.display
        await pilot.click(chips, offset=(2 + len("▪ src/main.py 13 B "), 0))
        await pilot.pause()
        assert not chips.display
        await pilot.press("x")
        assert await sent(pilot, session) == "x"


@pytest.mark.parametrize(
    ("name", "words"), [("nowhere.txt", "does not exist"), ("src", "is a folder"), ("picture.png", "is not text")]
)
async def test_what_cannot_be_attached_is_a_sentence(folder: Path, name: str, words: str) -> None:
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, f"/attach {name}")
        assert words in chat_text(app)


async def test_a_file_that_cannot_be_read_keeps_the_prompt_in_the_line(folder: Path) -> None:
    session = ScriptedSession()
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "See @picture.png")
        assert "is not text" in chat_text(app)
        assert app.query_one(Composer).text == "See @picture.png"
        assert session.requests == []


async def test_attach_without_a_name_asks_for_one() -> None:
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "/attach")
        assert "Say which file" in chat_text(app)


async def test_a_large_paste_is_one_label_and_sent_whole() -> None:
    session = ScriptedSession()
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        lines = "\n".join(f"line {index}" for index in range(1204))
        await pilot.press(*"See ")
        await paste(pilot, lines)
        composer = app.query_one(Composer)
        assert composer.text == "See [pasted 1 204 lines]"
        await paste(pilot, lines)
        assert composer.text == "See [pasted 1 204 lines][pasted 1 204 lines, 2]"
        await pilot.press("backspace")
        assert composer.text == "See [pasted 1 204 lines]"
        assert await sent(pilot, session) == f"See {lines}"
        await pilot.press("up")
        assert composer.text == f"See {lines}", "what is short enough to be edited comes back as text"


async def test_a_long_line_is_pasted_as_a_label_and_a_short_paste_as_it_is() -> None:
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await paste(pilot, "short\npaste ")
        await paste(pilot, "x" * 3000)
        assert app.query_one(Composer).text == "short\npaste [pasted 3 000 characters]"


async def test_a_megabyte_is_pasted_sent_and_recalled_without_ever_being_drawn() -> None:
    session = ScriptedSession()
    app = open_app(session)
    async with app.run_test() as pilot:
        await ready(pilot)
        megabyte = "0123456789abcde\n" * 65536
        await paste(pilot, megabyte)
        composer = app.query_one(Composer)
        assert composer.text == "[pasted 65 537 lines]"
        assert await sent(pilot, session) == megabyte.strip()
        assert len(str(app.query_one(PromptView).content)) < 2000
        await pilot.press("shift+tab", "up", "enter")
        assert len(str(app.query_one(PromptView).content)) < 50_000
        await pilot.press("e")
        assert composer.text == "[pasted 65 536 lines]"
        await pilot.press("escape", "up")
        assert composer.text == "[pasted 65 536 lines]"
        assert composer.whole == megabyte.strip()


async def test_commands_are_offered_while_one_is_typed() -> None:
    app = open_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("slash")
        completions = app.query_one(Completions)
        await until(pilot, lambda: completions.is_open)
        await pilot.press(*"hel")
        await until(pilot, lambda: completions.option_count == 1)
        assert "keys, commands and words" in screen_text(app)
        await pilot.press("enter")
        await until(pilot, lambda: len(app.screen_stack) == 2)
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        await pilot.press(*"/tit", "enter")
        assert app.query_one(Composer).text == "/title ", "what needs an argument is only completed"


@pytest.mark.parametrize("size", [(40, 20), (80, 24)])
async def test_completions_and_chips_leave_the_input_line_in_view(folder: Path, size: tuple[int, int]) -> None:
    app = open_app()
    async with app.run_test(size=size) as pilot:
        await ready(pilot)
        await ask(pilot, "/attach notes.md")
        await pilot.press("slash")
        await until(pilot, lambda: app.query_one(Completions).is_open)
        await pilot.pause()
        assert app.query_one(Composer).region.bottom < size[1]
        assert "notes.md" in screen_text(app)


def test_files_are_listed_without_hidden_and_generated_folders(folder: Path) -> None:
    (folder / "node_modules").mkdir()
    (folder / "node_modules" / "left-pad.js").write_text("")
    assert files_below(folder) == ["notes.md", "picture.png", "src/main.py", "src/deep/mainframe.py"]


def test_a_file_is_found_by_a_part_of_its_path_or_by_something_like_it() -> None:
    paths = ["docs/conversation.md", "tui/composer.py", "tui/conversation.py", "tests/tui/test_composer.py"]
    assert best_matches("compo", paths)[:2] == ["tui/composer.py", "tests/tui/test_composer.py"]
    assert best_matches("tui/conv", paths)[0] == "tui/conversation.py"
    assert "tui/composer.py" in best_matches("compsoer", paths)
    assert best_matches("", paths, limit=2) == paths[:2]


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.txt"
    with path.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(AttachmentError, match="too large"):
        read_file(path)


def test_texts_are_fenced_so_that_they_cannot_break_out(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("````\ncode\n````\n", encoding="utf-8-sig")
    assert with_attachments("", [read_file(path)]) == f"{path}:\n`````md\n````\ncode\n````\n`````"


def test_sizes_are_short() -> None:
    assert [size_of(n) for n in (0, 999, 4_200, 32_000, 1_200_000)] == ["0 B", "999 B", "4.2 kB", "32 kB", "1.2 MB"]
