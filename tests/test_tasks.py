"""The guess at a prompt's kind of task."""

from __future__ import annotations

import pytest

from localspec.tasks import Task, guess

PROMPTS = [
    ("Write a Python function that reverses a linked list.", Task.CODE),
    ("Why does this fail?\n```\nx = [1, 2\n```", Task.CODE),
    ("Rename foo to bar:\n\ndef foo():\n    return 1\n\nfoo()\nimport os", Task.EDIT),
    ("Proofread this:\nThe cat sit on the mat.", Task.EDIT),
    ("How many apples are 3 bags of 12?", Task.MATH),
    ("What is 17 * 23?", Task.MATH),
    ("Solve this riddle step by step: who owns the fish?", Task.REASONING),
    ("Summarize the text below.\n\nOnce there was a port.", Task.SUMMARY),
    ("According to the passage, who left first?", Task.QA),
    ("Translate to German: good morning", Task.TRANSLATION),
    ("Extract the names and dates as JSON.", Task.EXTRACTION),
    ("Write a haiku about caches.", Task.WRITING),
    ("Good morning, how are you?", Task.CHAT),
    ("", Task.CHAT),
]


@pytest.mark.parametrize(("prompt", "task"), PROMPTS)
def test_the_words_of_a_prompt_tell_its_task(prompt: str, task: Task) -> None:
    assert guess(prompt) is task


def test_a_huge_prompt_is_read_at_both_ends_only() -> None:
    assert guess("Summarize:\n" + "x " * 2_000_000) is Task.SUMMARY
    assert guess("x " * 2_000_000 + "\nSummarize this.") is Task.SUMMARY
