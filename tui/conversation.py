"""The open conversation: its turns in memory, and their copy on disk kept in step."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from localspec.chat_template import Message
from localspec.errors import StoreError
from localspec.store import State, Store, StoredConversation

FLUSH_S = 0.25
"""The partial reply on disk is at most this old, in seconds."""


@dataclass(slots=True)
class Turn:
    """A prompt and the reply to it, which grows while it streams."""

    prompt: str
    reply: str = ""
    state: State = State.STREAMING
    figures: Mapping[str, Any] = field(default_factory=dict)


class Conversation:
    """Turns, oldest first.

    A conversation that cannot be saved goes on in memory; ``on_problem`` is told the sentence.
    """

    def __init__(self, store: Store | None, on_problem: Callable[[str], None]) -> None:
        self.turns: list[Turn] = []
        self.id: int | None = None
        self.system: str | None = None
        """The system prompt that the conversation was resumed with."""
        self._store = store
        self._on_problem = on_problem
        self._row: int | None = None
        self._flushed = 0.0

    @classmethod
    def resume(cls, stored: StoredConversation, store: Store, on_problem: Callable[[str], None]) -> Conversation:
        """A conversation from disk, to be continued."""
        conversation = cls(store, on_problem)
        conversation.id = stored.id
        for message in stored.messages:
            if message.role == "user":
                conversation.turns.append(Turn(message.content, state=State.COMPLETE))
            elif message.role == "assistant" and conversation.turns:
                turn = conversation.turns[-1]
                turn.reply, turn.state, turn.figures = message.content, message.state, message.figures
                conversation.system = message.settings.get("system")
        return conversation

    def begin(self, prompt: str, pair: str, settings: Mapping[str, Any]) -> Turn:
        """Add a turn, on disk first."""
        turn = Turn(prompt)
        self.turns.append(turn)
        self._row = None
        if self._store is not None:
            try:
                begun = self._store.begin_turn(self.id, prompt, pair=pair, settings=settings)
            except StoreError as problem:
                self._on_problem(str(problem))
            else:
                self.id, self._row = begun.conversation, begun.reply
        self._flushed = time.monotonic()
        return turn

    def grow(self, turn: Turn, text: str) -> None:
        """Add streamed text to the reply; on disk every ``FLUSH_S`` seconds."""
        turn.reply += text
        now = time.monotonic()
        if self._store is None or self._row is None or now - self._flushed < FLUSH_S:
            return
        self._flushed = now
        try:
            self._store.flush(self._row, turn.reply)
        except StoreError as problem:
            self._on_problem(str(problem))

    def finish(self, turn: Turn, state: State, figures: Mapping[str, Any]) -> None:
        """The reply is over."""
        turn.state, turn.figures = state, figures
        if self._store is None or self._row is None:
            return
        try:
            self._store.finish(self._row, turn.reply, state, figures)
        except StoreError as problem:
            self._on_problem(str(problem))
        self._row = None

    def messages(self, system: str | None) -> list[Message]:
        """What the model reads: the system prompt, the answered turns, and the prompt to answer now.

        A turn that was stopped or failed before its first word is left out: roles must alternate.
        """
        messages = [Message("system", system)] if system else []
        for turn in self.turns[:-1]:
            if turn.reply:
                messages += [Message("user", turn.prompt), Message("assistant", turn.reply)]
        return [*messages, Message("user", self.turns[-1].prompt)]
