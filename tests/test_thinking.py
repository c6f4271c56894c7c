"""Thoughts at the beginning of a reply."""

from __future__ import annotations

import pytest

from localspec.thinking import Thinking, split, without_thought


@pytest.mark.parametrize(
    ("reply", "parts"),
    [
        ("<think>\nHm.\n</think>\n\nYes.", Thinking("Hm.", "Yes.")),
        ("\n<think></think>Yes.", Thinking("", "Yes.")),
        ("<think>\nHm", Thinking("Hm", "", over=False)),
        ("<thi", Thinking("", "", over=False)),
        ("<th is no tag", Thinking("", "<th is no tag")),
        ("Hm.\n</think>\n\nYes.", Thinking("Hm.", "Yes.")),
        ("Yes.", Thinking("", "Yes.")),
        ("", Thinking("", "")),
        ("The tag `<think>` opens,\n</think> closes.", Thinking("", "The tag `<think>` opens,\n</think> closes.")),
        ("Write `</think>` to end.", Thinking("", "Write `</think>` to end.")),
    ],
)
def test_a_reply_is_taken_apart(reply: str, parts: Thinking) -> None:
    assert split(reply) == parts


def test_the_answer_only_grows_while_a_reply_streams() -> None:
    reply, answer = "<think>\nWell, <b>.\n</think>\n\nIt is **so**.", ""
    for end in range(len(reply) + 1):
        grown = without_thought(reply[:end])
        assert grown.startswith(answer)
        answer = grown
    assert answer == "It is **so**."
