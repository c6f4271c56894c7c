"""What kind of task a prompt is, because acceptance differs by task more than by anything else.

A guess from the words of the prompt: cheap, the same every time, and only ever used to group figures and to start from
what was learned on like prompts. A user can say better.
"""

from __future__ import annotations

import re
from enum import StrEnum

LOOKED_AT = 4000
"""Characters at each end of a prompt that the guess reads."""


class Task(StrEnum):
    """Kinds of task, with the category names of Spec-Bench where it has one."""

    CHAT = "chat"
    CODE = "code"
    EDIT = "edit"
    MATH = "math"
    REASONING = "reasoning"
    SUMMARY = "summary"
    QA = "qa"
    TRANSLATION = "translation"
    EXTRACTION = "extraction"
    WRITING = "writing"


# The first that fits wins, so the specific come before the general.
_SIGNS: tuple[tuple[Task, str], ...] = (
    (
        Task.TRANSLATION,
        r"\btranslat(e|ion|ing)\b|\b(in|into|to) (french|german|spanish|italian|chinese|japanese|english)\b",
    ),
    (Task.SUMMARY, r"\bsummar(y|ies|i[sz]e|i[sz]ing)\b|\btl;?dr\b|\bkey points\b"),
    (
        Task.EXTRACTION,
        r"\bextract\b|\b(as|into|valid|return|output) (a )?(json|yaml|csv)\b|\bjson (object|array|schema)\b",
    ),
)
_CODE = (
    r"```|\b(function|class|method|python|javascript|typescript|rust|c\+\+|java|sql|regex|bash|script|unit tests?)\b"
    r"|\b(code|bug)\b"
)
_CODE_LINE = r"(?m)^\s*(def |class |import |from \w+ import|fn |func |#include|public |const |let |var |return\b|if \()"
_CHANGE = r"\b(rename|refactor|rewrite|fix|edit|change|modify|update|replace|add|remove|correct|proofread|convert)\b"
_MATH = (
    r"\b(solve|equation|integral|derivative|probability|percent|how many|how much|sum of|prove|calculate|compute)\b"
    r"|\d\s*[-+*/=^]\s*\d"
)
_REASONING = r"\b(step by step|logic|puzzle|riddle|deduce|reason(ing)?|which of the following)\b"
_WRITING = r"\b(poem|haiku|story|essay|limerick|song|lyrics|novel|slogan|blog post|letter)\b"
_QA = r"\b(according to|based on|given) (the|this|these)\b|\bcontext:|\bpassage\b"


def guess(prompt: str) -> Task:
    """The kind of task that a user's message looks like."""
    text = prompt if len(prompt) <= 2 * LOOKED_AT else f"{prompt[:LOOKED_AT]}\n{prompt[-LOOKED_AT:]}"
    text = text.lower()

    def says(signs: str) -> bool:
        return re.search(signs, text) is not None

    for task, signs in _SIGNS:
        if says(signs):
            return task
    holds_code = "```" in text or len(re.findall(_CODE_LINE, text)) > 1
    if says(_CHANGE) and (holds_code or "\n" in text.strip()):
        return Task.EDIT
    if holds_code or says(_CODE):
        return Task.CODE
    for task, signs in ((Task.WRITING, _WRITING), (Task.QA, _QA), (Task.REASONING, _REASONING), (Task.MATH, _MATH)):
        if says(signs):
            return task
    return Task.CHAT
