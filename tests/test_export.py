"""Documents made of a conversation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from localspec.export import export
from localspec.store import State, Store, StoredConversation


@pytest.fixture
def conversation() -> Iterator[StoredConversation]:
    with Store(None) as store:
        begun = store.begin_turn(None, "Say **hi**", pair="big + small", settings={"temp": 0.8})
        store.finish(begun.reply, "Hi.", State.COMPLETE, {"tokens": 2})
        again = store.begin_reply(begun.prompt, pair="big + small", settings={"temp": 0.9})
        store.finish(again.reply, "Hello.", State.COMPLETE, {"tokens": 3})
        cut = store.begin_turn(begun.conversation, "More", pair="big + small", settings={"temp": 1.0})
        store.finish(cut.reply, "Well, I", State.CANCELLED)
        yield store.load(begun.conversation)


def test_markdown_has_a_section_for_each_message_and_says_what_was_cut_short(conversation: StoredConversation) -> None:
    text = export(conversation, Path("chat.md"))
    assert text.startswith("# Say **hi**\n\n*")
    assert text.endswith(
        "## You\n\nSay **hi**\n\n## Assistant\n\nHello.\n\n## You\n\nMore\n\n## Assistant (cancelled)\n\nWell, I\n"
    )


def test_json_has_figures_settings_and_versions(conversation: StoredConversation) -> None:
    document = json.loads(export(conversation, Path("chat.JSON")))
    assert document["format"] == 1
    assert (document["title"], document["pair"], document["settings"]) == ("Say **hi**", "big + small", {"temp": 1.0})
    assert [(m["role"], m["content"], m["state"]) for m in document["messages"]] == [
        ("user", "Say **hi**", "complete"),
        ("assistant", "Hello.", "complete"),
        ("user", "More", "complete"),
        ("assistant", "Well, I", "cancelled"),
    ]
    reply = document["messages"][1]
    assert (reply["figures"], reply["settings"]) == ({"tokens": 3}, {"temp": 0.9})
    assert (reply["version"], reply["versions"]) == (2, 2)
    assert set(reply) == {
        "role", "content", "created", "pair", "settings", "figures", "state", "version", "versions",
    }  # fmt: skip
    assert document["created"].endswith("+00:00")
