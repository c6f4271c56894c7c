"""The thought that a reasoning model writes before its answer, between ``<think>`` and ``</think>``."""

from __future__ import annotations

from dataclasses import dataclass

from localspec.events import Round

OPEN, CLOSE = "<think>", "</think>"


@dataclass(frozen=True, slots=True)
class Thinking:
    """A reply taken apart."""

    thought: str
    """Empty where the model did not think."""
    answer: str
    over: bool = True
    """False while the thought, or the tag that begins it, is not complete."""


def split(reply: str) -> Thinking:
    """Take the thought at the beginning of a reply off its answer; the reply may still grow.

    Some chat templates open the thought themselves, so that the reply begins inside it: a closing tag at the beginning
    of a line then ends a thought that nothing opened.
    """
    text = reply.lstrip()
    if text.startswith(OPEN):
        thought, closed, answer = text[len(OPEN) :].partition(CLOSE)
        return Thinking(thought.strip(), answer.lstrip(), bool(closed))
    if text and OPEN.startswith(text):
        return Thinking("", "", over=False)
    thought, closed, answer = reply.partition("\n" + CLOSE)
    if closed and OPEN not in thought:
        return Thinking(thought.strip(), answer.lstrip())
    return Thinking("", reply)


def without_thought(reply: str) -> str:
    """The answer alone: what chat templates of reasoning models expect of earlier turns."""
    return split(reply).answer


class ThoughtCount:
    """Counts the tokens of a thought, its tags included, over the rounds of a reply.

    A thought that the chat template opened is not known to be one while it streams, and counts nothing.
    """

    def __init__(self) -> None:
        self.tokens = 0
        self._text = ""
        self._over = False

    def add(self, event: Round) -> None:
        for token in event.tokens:
            if self._over:
                return
            self.tokens += 1
            self._text += token.text
            parts = split(self._text)
            self._over = parts.over
            if parts.over and parts.answer == self._text:
                self.tokens = 0
