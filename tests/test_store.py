"""Conversations on disk: nothing is lost, several processes may write, a bad file ends in a sentence."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from localspec.errors import StoreError
from localspec.store import MIGRATIONS, State, Store, title_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "conversations.db"


def turn(store: Store, prompt: str, reply: str, conversation: int | None = None) -> int:
    begun = store.begin_turn(conversation, prompt, pair="big + small", settings={"temp": 0.8})
    store.finish(begun.reply, reply, State.COMPLETE, {"acceptance_rate": 0.5})
    return begun.conversation


def contents(store: Store, conversation: int) -> list[str]:
    return [message.content for message in store.load(conversation).messages]


def in_another_process(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_conversation_comes_back_as_it_was(path: Path) -> None:
    with Store(path) as store:
        conversation = turn(store, "How tall is it?", "Tall.")
        turn(store, "And how wide?", "Wide.", conversation)
    with Store(path) as store:
        stored = store.load(conversation)
    assert stored.title == "How tall is it?"
    assert stored.pair == "big + small"
    assert [(m.role, m.content, m.state) for m in stored.messages] == [
        ("user", "How tall is it?", State.COMPLETE),
        ("assistant", "Tall.", State.COMPLETE),
        ("user", "And how wide?", State.COMPLETE),
        ("assistant", "Wide.", State.COMPLETE),
    ]
    assert stored.messages[1].settings == {"temp": 0.8}
    assert stored.messages[1].figures == {"acceptance_rate": 0.5}


def test_the_prompt_and_an_empty_reply_are_on_disk_before_the_reply_starts(path: Path) -> None:
    with Store(path) as store, Store(path) as reader:
        begun = store.begin_turn(None, "Hello", pair="p")
        messages = reader.load(begun.conversation).messages
        assert [(m.role, m.content, m.state) for m in messages] == [
            ("user", "Hello", State.COMPLETE),
            ("assistant", "", State.STREAMING),
        ]


def test_kill_9_in_mid_reply_keeps_the_flushed_text_and_marks_it_interrupted(path: Path) -> None:
    writer = in_another_process(
        """
        import sys, time
        from pathlib import Path
        from localspec.store import Store
        store = Store(Path(sys.argv[1]))
        begun = store.begin_turn(None, "Tell me a story", pair="p")
        store.flush(begun.reply, "Once upon")
        store.flush(begun.reply, "Once upon a time")
        print(begun.conversation, flush=True)
        time.sleep(600)
        """,
        path,
    )
    assert writer.stdout is not None
    conversation = int(writer.stdout.readline())
    with Store(path) as store:
        assert store.load(conversation).messages[-1].state is State.STREAMING, "its process still lives"
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait()
    with Store(path) as store:
        prompt, reply = store.load(conversation).messages
        assert prompt.content == "Tell me a story"
        assert (reply.content, reply.state) == ("Once upon a time", State.INTERRUPTED)
        assert [hit.id for hit in store.search("upon")] == [conversation]


def test_processes_that_open_and_write_at_once_lose_nothing(path: Path) -> None:
    code = """
        import sys
        from pathlib import Path
        from localspec.store import State, Store
        with Store(Path(sys.argv[1])) as store:
            conversation = None
            for index in range(20):
                begun = store.begin_turn(conversation, f"{sys.argv[2]} asks {index}", pair="p")
                conversation = begun.conversation
                store.flush(begun.reply, "par")
                store.finish(begun.reply, "parrot", State.COMPLETE)
        """
    writers = [in_another_process(code, path, name) for name in "abcd"]
    for writer in writers:
        _, errors = writer.communicate(timeout=60)
        assert writer.returncode == 0, errors
    with Store(path) as store:
        listed = store.conversations()
        assert len(listed) == 4
        for summary in listed:
            messages = store.load(summary.id).messages
            assert len(messages) == summary.messages == 40
            assert {m.state for m in messages} == {State.COMPLETE}


def test_conversations_are_listed_with_the_last_used_first(path: Path) -> None:
    with Store(path) as store:
        first = turn(store, "first", "1")
        second = turn(store, "second", "2")
        turn(store, "again", "3", first)
        assert [summary.id for summary in store.conversations()] == [first, second]
        assert store.latest() == first


def test_an_empty_store_has_no_latest_conversation(path: Path) -> None:
    with Store(path) as store:
        assert store.latest() is None
        assert store.conversations() == []
        with pytest.raises(StoreError, match="no conversation to resume"):
            store.number("last")


def test_a_conversation_is_named_by_its_number_or_as_the_last(path: Path) -> None:
    with Store(path) as store:
        first = turn(store, "first", "1")
        second = turn(store, "second", "2")
        assert store.number(str(first)) == first
        assert store.number("last") == second
        for nonsense in ("first", "-1", "", "1.5", "9" * 30):
            with pytest.raises(StoreError, match="is no conversation"):
                store.number(nonsense)


def test_search_finds_words_by_their_beginning_in_prompts_and_replies(path: Path) -> None:
    with Store(path) as store:
        birds = turn(store, "Which birds sing?", "The *nightingale* sings at night.")
        turn(store, "Which fish swim?", "All of them.")
        assert [hit.id for hit in store.search("nightin")] == [birds]
        assert "nightingale" in store.search("nightin")[0].excerpt
        assert [hit.id for hit in store.search("SING birds")] == [birds]
        assert store.search("birds swim") == []
        assert len(store.search("which")) == 2


@pytest.mark.parametrize("text", ['"', "NEAR(", "a AND", "content:x", "*", "^", "-", "a-b'c", "\udcff", "(((", ""])
def test_search_takes_any_text(path: Path, text: str) -> None:
    with Store(path) as store:
        turn(store, "hello", "world")
        store.search(text)


def test_a_deleted_conversation_is_gone_from_list_and_search(path: Path) -> None:
    with Store(path) as store:
        gone = turn(store, "secret plans", "noted")
        kept = turn(store, "public plans", "noted")
        store.delete(gone)
        assert [summary.id for summary in store.conversations()] == [kept]
        assert [hit.id for hit in store.search("plans")] == [kept]
        with pytest.raises(StoreError, match="no conversation"):
            store.load(gone)
        with pytest.raises(StoreError, match="no conversation"):
            store.delete(gone)
        with pytest.raises(StoreError, match="no conversation"):
            store.begin_turn(gone, "hello?", pair="p")


def test_prompts_come_back_oldest_first_without_repeats(path: Path) -> None:
    with Store(path) as store:
        for prompt in ("one", "two", "one", "three"):
            turn(store, prompt, "-")
        assert store.prompts() == ["two", "one", "three"]
        assert store.prompts(limit=2) == ["one", "three"]


def test_an_edited_prompt_stands_beside_the_earlier_one_and_is_shown(path: Path) -> None:
    with Store(path) as store:
        conversation = turn(store, "one", "1")
        turn(store, "two", "2", conversation)
        second = store.load(conversation).messages[2]
        begun = store.begin_turn(conversation, "deux", pair="p", instead_of=second.id)
        store.finish(begun.reply, "II", State.COMPLETE)
        assert contents(store, conversation) == ["one", "1", "deux", "II"]
        assert store.load(conversation).messages[2].versions == (second.id, begun.prompt)
        turn(store, "three", "3", conversation)
        assert contents(store, conversation) == ["one", "1", "deux", "II", "three", "3"]
        store.switch(second.id)
        assert contents(store, conversation) == ["one", "1", "two", "2"]
        store.switch(begun.prompt)
        assert contents(store, conversation) == ["one", "1", "deux", "II", "three", "3"]
        assert [hit.id for hit in store.search("two")] == [conversation], "what is not shown is found all the same"


def test_the_first_prompt_can_be_edited_too(path: Path) -> None:
    with Store(path) as store:
        conversation = turn(store, "one", "1")
        first = store.load(conversation).messages[0].id
        store.begin_turn(conversation, "uno", pair="p", instead_of=first)
        assert contents(store, conversation) == ["uno", ""]
        assert len(store.load(conversation).messages[0].versions) == 2


def test_another_reply_to_a_prompt_keeps_the_earlier_ones(path: Path) -> None:
    with Store(path) as store:
        conversation = turn(store, "one", "1")
        asked, first = store.load(conversation).messages
        for text in ("I", "eins"):
            again = store.begin_reply(asked.id, pair="p", settings={"temp": 0})
            store.finish(again.reply, text, State.COMPLETE)
        stored = store.load(conversation)
        assert [message.content for message in stored.messages] == ["one", "eins"]
        assert stored.messages[1].versions[0] == first.id
        assert len(stored.messages[1].versions) == 3
        assert stored.settings == {"temp": 0}
        store.switch(first.id)
        assert contents(store, conversation) == ["one", "1"]


def test_a_branch_is_a_conversation_of_its_own_up_to_the_message(path: Path) -> None:
    with Store(path) as store:
        conversation = turn(store, "one", "1")
        turn(store, "two", "2", conversation)
        branch = store.branch(store.load(conversation).messages[1].id)
        assert contents(store, branch) == ["one", "1"]
        assert store.load(branch).messages[1].figures == {"acceptance_rate": 0.5}
        assert store.load(branch).settings == {"temp": 0.8}
        turn(store, "else", "E", branch)
        assert contents(store, branch) == ["one", "1", "else", "E"]
        assert contents(store, conversation) == ["one", "1", "two", "2"]
        store.delete(conversation)
        assert contents(store, branch) == ["one", "1", "else", "E"]


@pytest.mark.parametrize("act", ["begin_reply", "switch", "branch"])
def test_a_message_that_is_not_there_is_a_sentence(path: Path, act: str) -> None:
    with Store(path) as store, pytest.raises(StoreError, match="not on disk"):
        getattr(store, act)(99, **({"pair": "p"} if act == "begin_reply" else {}))


def test_settings_and_title_are_saved_with_the_conversation(path: Path) -> None:
    with Store(path) as store:
        conversation = turn(store, "one", "1")
        store.configure(conversation, {"temp": 0, "system": "Be brief."})
        store.rename(conversation, "Numbers\nand more")
        stored = store.load(conversation)
        assert (stored.settings, stored.title) == ({"temp": 0, "system": "Be brief."}, "Numbers")
        for act in (lambda: store.configure(99, {}), lambda: store.rename(99, "x")):
            with pytest.raises(StoreError, match="no conversation 99"):
                act()


def test_a_search_says_in_which_message_it_found_the_words(path: Path) -> None:
    with Store(path) as store:
        conversation = turn(store, "Which birds sing?", "Robins.")
        turn(store, "And at night?", "The nightingale.", conversation)
        assert store.search("nightingale")[0].hit == store.load(conversation).messages[3].id
        assert store.conversations()[0].hit is None


def test_a_file_of_the_first_format_opens_with_everything_in_place(path: Path) -> None:
    path.parent.mkdir()
    db = sqlite3.connect(path)
    db.executescript(MIGRATIONS[0])
    db.execute("PRAGMA user_version = 1")
    for number in (1, 2):
        db.execute("INSERT INTO conversations VALUES (?, ?, 1, ?, 'p')", (number, f"title {number}", number))
    rows = [(1, "user", "one"), (2, "user", "un"), (1, "assistant", "1"), (2, "assistant", "I"), (1, "user", "two"),
            (1, "assistant", "2")]  # fmt: skip
    for conversation, role, text in rows:
        db.execute(
            "INSERT INTO messages (conversation, role, content, created, pair, settings, figures, state) "
            "VALUES (?, ?, ?, 1, 'p', ?, '{}', 'complete')",
            (conversation, role, text, f'{{"temp": {len(text)}}}'),
        )
    db.commit()
    db.close()
    for _ in range(2):
        with Store(path) as store:
            assert contents(store, 1) == ["one", "1", "two", "2"]
            assert contents(store, 2) == ["un", "I"]
            assert [message.versions for message in store.load(2).messages] == [(2,), (4,)]
            assert store.load(1).settings == {"temp": 1}
            assert [hit.id for hit in store.search("two")] == [1]
    with Store(path) as store:
        turn(store, "three", "3", 1)
        assert contents(store, 1) == ["one", "1", "two", "2", "three", "3"]


def test_a_very_long_conversation_can_be_loaded_and_deleted(path: Path) -> None:
    with Store(path) as store:
        conversation = turn(store, "0", "0")
        for index in range(1, 800):
            turn(store, str(index), "-", conversation)
        assert len(store.load(conversation).messages) == 1600
        store.delete(conversation)
        assert store.conversations() == []


def test_without_a_path_nothing_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Store(None) as store:
        assert contents(store, turn(store, "one", "1")) == ["one", "1"]
    assert list(tmp_path.iterdir()) == []


def test_text_that_utf8_cannot_hold_is_saved_all_the_same(path: Path) -> None:
    with Store(path) as store:
        begun = store.begin_turn(None, "broken \udcff paste\x00", pair="p")
        store.finish(begun.reply, "ok \ud800", State.COMPLETE)
        assert store.load(begun.conversation).messages[0].content == "broken ? paste\x00"


def test_a_title_is_the_first_line_cut_short() -> None:
    assert title_of("\n  hello \nworld") == "hello"
    assert title_of("") == "Untitled"
    assert len(title_of("x" * 500)) == 60


def test_the_file_is_private(path: Path) -> None:
    Store(path).close()
    assert path.stat().st_mode & 0o077 == 0


def test_the_schema_version_is_written_and_a_newer_one_refused(path: Path) -> None:
    Store(path).close()
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(StoreError, match="newer localspec"):
        Store(path)


def test_a_file_that_is_no_database_is_a_sentence_and_is_left_alone(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"these are not the rows you are looking for" * 100)
    with pytest.raises(StoreError, match="damaged"):
        Store(path)
    assert path.read_bytes().startswith(b"these are not")


def test_a_damaged_database_is_a_sentence(path: Path) -> None:
    with Store(path) as store:
        for index in range(50):
            turn(store, f"prompt {index}", "reply " * 200)
    data = bytearray(path.read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(StoreError, match="damaged"), Store(path) as store:
        store.load(1)


def test_a_place_that_cannot_hold_a_file_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for bad in (tmp_path, tmp_path / "file" / "conversations.db"):
        with pytest.raises(StoreError, match="cannot be saved"):
            Store(bad)


def test_a_locked_database_is_a_sentence(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localspec.store.BUSY_TIMEOUT_S", 0.05)
    with Store(path) as store:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match="held by another program"):
            store.begin_turn(None, "hello", pair="p")
        other.execute("ROLLBACK")
        other.close()
        assert store.begin_turn(None, "hello", pair="p").conversation == 1
