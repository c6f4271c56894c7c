"""The open conversation: its turns in memory, and their copy on disk kept in step."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from localspec.chat_template import Message
from localspec.errors import StoreError
from localspec.store import State, Store, StoredConversation
from localspec.thinking import without_thought

FLUSH_S = 0.25
"""The partial reply on disk is at most this old, in seconds."""

T = TypeVar("T")


@dataclass(slots=True)
class Turn:
    """A prompt and the reply to it, which grows while it streams.

    ``prompt_id`` and ``reply_id`` are their ids on disk, among those of their versions; None for what is not there.
    """

    prompt: str
    reply: str = ""
    state: State = State.STREAMING
    figures: Mapping[str, Any] = field(default_factory=dict)
    thought_tokens: int = 0
    prompt_id: int | None = None
    reply_id: int | None = None
    prompts: tuple[int, ...] = ()
    replies: tuple[int, ...] = ()

    @property
    def prompt_place(self) -> tuple[int, int]:
        """Which version of the prompt this is, counted from 1, and of how many."""
        return _place(self.prompt_id, self.prompts)

    @property
    def reply_place(self) -> tuple[int, int]:
        """The same of the reply."""
        return _place(self.reply_id, self.replies)


class Conversation:
    """The turns that are shown, oldest first; other versions of them are in the store.

    A conversation that cannot be saved goes on in memory; ``on_problem`` is told the sentence.
    """

    def __init__(self, store: Store, on_problem: Callable[[str], None]) -> None:
        self.turns: list[Turn] = []
        self.id: int | None = None
        self.settings: Mapping[str, Any] = {}
        """Those it was resumed with."""
        self._store = store
        self._on_problem = on_problem
        self._flushed = 0.0

    @classmethod
    def resume(cls, stored: StoredConversation, store: Store, on_problem: Callable[[str], None]) -> Conversation:
        """A conversation from disk, to be continued."""
        conversation = cls(store, on_problem)
        conversation._take(stored)
        return conversation

    def begin(self, prompt: str, pair: str, settings: Mapping[str, Any], *, instead_of: Turn | None = None) -> Turn:
        """Add a turn, on disk first; ``instead_of`` a turn, its prompt becomes another version of that one's."""
        earlier = instead_of.prompts if instead_of is not None else ()
        edited = instead_of.prompt_id if instead_of is not None else None
        if instead_of is not None:
            self._cut(instead_of)
        turn = Turn(prompt)
        begun = self._saved(
            lambda: self._store.begin_turn(self.id, prompt, pair=pair, settings=settings, instead_of=edited)
        )
        if begun is not None:
            self.id, turn.prompt_id, turn.reply_id = begun.conversation, begun.prompt, begun.reply
            turn.prompts, turn.replies = (*earlier, begun.prompt), (begun.reply,)
        return self._add(turn)

    def begin_again(self, turn: Turn, pair: str, settings: Mapping[str, Any]) -> Turn:
        """Another reply to the prompt of a turn, in its place; on disk first."""
        asked = turn.prompt_id
        if asked is None:
            return self.begin(turn.prompt, pair, settings, instead_of=turn)
        self._cut(turn)
        again = Turn(turn.prompt, prompt_id=asked, prompts=turn.prompts)
        begun = self._saved(lambda: self._store.begin_reply(asked, pair=pair, settings=settings))
        if begun is not None:
            again.reply_id, again.replies = begun.reply, (*turn.replies, begun.reply)
        return self._add(again)

    def grow(self, turn: Turn, text: str) -> None:
        """Add streamed text to the reply; on disk every ``FLUSH_S`` seconds."""
        turn.reply += text
        reply, now = turn.reply_id, time.monotonic()
        if reply is not None and now - self._flushed >= FLUSH_S:
            self._flushed = now
            self._saved(lambda: self._store.flush(reply, turn.reply))

    def finish(self, turn: Turn, state: State, figures: Mapping[str, Any]) -> None:
        """The reply is over."""
        thought = {"thought_tokens": turn.thought_tokens} if turn.thought_tokens else {}
        turn.state, turn.figures = state, {**figures, **thought}
        reply = turn.reply_id
        if reply is not None:
            self._saved(lambda: self._store.finish(reply, turn.reply, state, turn.figures))

    def switch(self, turn: Turn, role: str, by: int) -> int | None:
        """Show the version of a prompt or a reply that is ``by`` places later.

        Returns the index of the first turn that changed, None if there is no such version.
        """
        chosen, versions = (turn.prompt_id, turn.prompts) if role == "user" else (turn.reply_id, turn.replies)
        conversation = self.id
        if chosen is None or conversation is None:
            return None
        place = versions.index(chosen) + by
        if not 0 <= place < len(versions):
            return None
        index = self.index(turn)

        def load() -> StoredConversation:
            self._store.switch(versions[place])
            return self._store.load(conversation)

        stored = self._saved(load)
        if stored is None:
            return None
        kept = self.turns[:index]
        self._take(stored)
        self.turns[:index] = kept
        return index

    def branch(self, turn: Turn, role: str) -> int | None:
        """A new conversation on disk with everything up to this message; a prompt itself is left out.

        Returns its id, None if it would be empty or could not be saved.
        """
        index = self.index(turn)
        last = turn.reply_id if role == "assistant" else self.turns[index - 1].reply_id if index else None
        return None if last is None else self._saved(lambda: self._store.branch(last))

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Save the settings to go on with."""
        conversation = self.id
        if conversation is not None:
            self._saved(lambda: self._store.configure(conversation, settings))

    def current(self, turn: Turn) -> Turn | None:
        """The turn itself if it is shown, otherwise the version of its prompt that is shown; None without one."""
        shown = (other for other in self.turns if other is turn or (turn.prompt_id and turn.prompt_id in other.prompts))
        return next(shown, None)

    def index(self, turn: Turn) -> int:
        """Where a turn stands."""
        return next(index for index, other in enumerate(self.turns) if other is turn)

    def messages(self, system: str | None) -> list[Message]:
        """What the model reads: the system prompt, the answered turns, and the prompt to answer now.

        A turn that was stopped or failed before its first word is left out: roles must alternate. Thoughts are left
        out too, as the chat templates of reasoning models expect it of earlier turns.
        """
        messages = [Message("system", system)] if system else []
        for turn in self.turns[:-1]:
            answer = without_thought(turn.reply)
            if answer:
                messages += [Message("user", turn.prompt), Message("assistant", answer)]
        return [*messages, Message("user", self.turns[-1].prompt)]

    def _take(self, stored: StoredConversation) -> None:
        self.id, self.settings, self.turns = stored.id, stored.settings, []
        for message in stored.messages:
            if message.role == "user":
                turn = Turn(message.content, state=State.COMPLETE, prompt_id=message.id, prompts=message.versions)
                self.turns.append(turn)
            elif message.role == "assistant" and self.turns:
                turn = self.turns[-1]
                turn.reply, turn.state, turn.figures = message.content, message.state, message.figures
                turn.thought_tokens = message.figures.get("thought_tokens", 0)
                turn.reply_id, turn.replies = message.id, message.versions

    def _add(self, turn: Turn) -> Turn:
        self.turns.append(turn)
        self._flushed = time.monotonic()
        return turn

    def _cut(self, turn: Turn) -> None:
        del self.turns[self.index(turn) :]

    def _saved(self, write: Callable[[], T]) -> T | None:
        try:
            return write()
        except StoreError as problem:
            self._on_problem(str(problem))
            return None


def _place(chosen: int | None, versions: tuple[int, ...]) -> tuple[int, int]:
    return (versions.index(chosen) + 1, len(versions)) if chosen in versions else (1, 1)
