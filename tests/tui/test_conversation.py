"""A conversation: what the model reads of it, and its copy on disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from localspec.tui import conversation as module
from localspec.tui.conversation import Conversation

from localspec.store import State, Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "conversations.sqlite3")


def say(conversation: Conversation, prompt: str, reply: str, state: State = State.COMPLETE) -> None:
    turn = conversation.begin(prompt, "p", {})
    conversation.grow(turn, reply)
    conversation.finish(turn, state, {})


def test_the_model_reads_the_system_prompt_and_the_answered_turns() -> None:
    conversation = Conversation(Store(None), pytest.fail)
    say(conversation, "one", "1")
    say(conversation, "stopped at once", "", State.CANCELLED)
    say(conversation, "two", "2, cut sh", State.CANCELLED)
    conversation.begin("three", "p", {})
    assert [(m.role, m.content) for m in conversation.messages("Be brief.")] == [
        ("system", "Be brief."),
        ("user", "one"),
        ("assistant", "1"),
        ("user", "two"),
        ("assistant", "2, cut sh"),
        ("user", "three"),
    ]


def test_a_resumed_conversation_goes_on_where_it_was(store: Store) -> None:
    conversation = Conversation(store, pytest.fail)
    turn = conversation.begin("one", "p", {"system": "Be brief."})
    conversation.finish(turn, State.COMPLETE, {"tokens": 3})
    assert conversation.id is not None
    resumed = Conversation.resume(store.load(conversation.id), store, pytest.fail)
    assert resumed.settings["system"] == "Be brief."
    assert resumed.turns == conversation.turns
    say(resumed, "two", "2")
    assert len(store.load(conversation.id).messages) == 4


def test_the_partial_reply_is_on_disk_while_it_grows(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FLUSH_S", 0.0)
    conversation = Conversation(store, pytest.fail)
    turn = conversation.begin("one", "p", {})
    conversation.grow(turn, "so ")
    conversation.grow(turn, "far")
    assert conversation.id is not None
    message = store.load(conversation.id).messages[-1]
    assert (message.content, message.state) == ("so far", State.STREAMING)


def test_a_conversation_that_cannot_be_saved_goes_on_in_memory(store: Store) -> None:
    problems: list[str] = []
    conversation = Conversation(store, problems.append)
    say(conversation, "one", "1")
    assert conversation.id is not None
    store.delete(conversation.id)
    say(conversation, "two", "2")
    assert len(problems) == 1
    assert [turn.reply for turn in conversation.turns] == ["1", "2"]
