"""The open conversation, the ones on disk, and how one gets from one to another."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from localspec.errors import StoreError
from localspec.export import export
from localspec.kept_settings import kept, restored
from localspec.store import Store

from .chat import Kind
from .conversation import Conversation, Turn
from .messages import Wish
from .picker import Picker
from .rows import place_of, prompt_rows, session_rows

if TYPE_CHECKING:
    from .app import LocalspecApp


class Conversations:
    """Opens, changes and leaves conversations. What cannot be saved goes on in memory, and is complained about once."""

    def __init__(self, app: LocalspecApp) -> None:
        self.store = Store(None)
        self.open = Conversation(self.store, self._problem)
        self._app = app
        self._configured = app.settings
        """The settings of a new conversation."""
        self._problems: set[str] = set()

    def start(self, database: Path | None) -> None:
        """Open the file of the conversations; None keeps nothing on disk."""
        if database is None:
            return
        try:
            self.store = Store(database)
            self._app.composer.remember(self.store.prompts())
        except StoreError as problem:
            self._problem(str(problem))
        self.open = Conversation(self.store, self._problem)

    def close(self) -> None:
        self.store.close()

    async def new(self) -> None:
        """Start a new conversation, with the settings that localspec was started with."""
        if not self._app.stop_first(self.new):
            await self._show(Conversation(self.store, self._problem))

    async def resume(self, which: str, hit: int | None = None) -> None:
        """Go on with a past conversation: its number, or ``last``; ``hit`` is the message to show first."""
        if self._app.stop_first(partial(self.resume, which, hit)):
            return
        try:
            if hit is not None:
                self.store.switch(hit)
            stored = self.store.load(self.store.number(which))
        except StoreError as problem:
            self._app.complain(str(problem))
            return
        await self._show(Conversation.resume(stored, self.store, self._problem), hit)

    def settings_changed(self) -> None:
        """Save the settings in force with the conversation."""
        self.open.configure(kept(self._app.settings))

    def rename(self, title: str) -> None:
        """Give the conversation another title; raises StoreError."""
        if self.open.id is None:
            raise StoreError("There is nothing to name yet: ask something first.")
        self.store.rename(self.open.id, title)

    def save(self, path: Path) -> None:
        """Write the conversation to a new file, as the suffix asks; raises OSError and StoreError."""
        if self.open.id is None:
            raise StoreError("nothing of it is on disk yet.")
        text = export(self.store.load(self.open.id), path)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)

    async def grant(self, turn: Turn, role: str, wish: Wish) -> None:
        """Do what the user wants with a message."""
        if wish is Wish.EDIT:
            self._app.composer.edit_prompt(turn)
        elif wish is Wish.REGENERATE:
            await self._app.sending.again(turn)
        elif self._app.stop_first(partial(self.grant, turn, role, wish)) or self.open.current(turn) is not turn:
            return
        elif wish is Wish.BRANCH:
            await self._branch(turn, role)
        else:
            await self._switch(turn, role, -1 if wish is Wish.EARLIER else 1)

    async def pick(self) -> None:
        """Let the user pick a past conversation, or delete some."""

        def delete(key: str) -> None:
            number, _ = place_of(key)
            self.store.delete(number)
            if number == self.open.id:
                self._app.call_later(self.new)

        async def picked(key: str | None) -> None:
            if key is not None:
                number, hit = place_of(key)
                await self.resume(str(number), hit)

        rows = partial(session_rows, self.store)
        await self._app.push_screen(Picker("Past conversations", rows, delete), picked)

    async def pick_prompt(self) -> None:
        """Let the user pick a past prompt."""
        composer = self._app.composer

        def picked(text: str | None) -> None:
            if text is not None:
                composer.put(text)

        await self._app.push_screen(Picker("Past prompts", partial(prompt_rows, composer.prompts)), picked)

    async def _branch(self, turn: Turn, role: str) -> None:
        """Go on in a new conversation after a reply, or with a prompt in the input line."""
        first = role == "user" and self.open.index(turn) == 0
        branch = None if first else self.open.branch(turn, role)
        if branch is not None:
            await self.resume(str(branch))
        elif first:
            await self.new()
        else:
            self._app.complain("That message is not on disk, so no branch can begin there.")
            return
        if role == "user":
            self._app.composer.put(turn.prompt)
        self._app.composer.focus()
        self._app.notify("A new conversation; the other one stays as it is.", timeout=3)

    async def _switch(self, turn: Turn, role: str, by: int) -> None:
        index = self.open.switch(turn, role, by)
        if index is None:
            return
        chat, turns = self._app.chat, self.open.turns
        await chat.replace(turn, turns[index:])
        view = await chat.find(turns[index], role)
        if view is not None:
            chat.select(view)

    async def _show(self, conversation: Conversation, hit: int | None = None) -> None:
        self.open = conversation
        self._app.settings = restored(self._configured, conversation.settings)
        turn = next((t for t in conversation.turns if hit in (t.prompt_id, t.reply_id)), None) if hit else None
        await self._app.conversation_opened(turn)
        if turn is not None:
            view = await self._app.chat.find(turn, "user" if turn.prompt_id == hit else "assistant")
            if view is not None:
                self._app.chat.select(view)

    def _problem(self, sentence: str) -> None:
        if sentence not in self._problems:
            self._problems.add(sentence)
            self._app.tell(f"{sentence} Until then the chat is kept in memory only.", Kind.WARNING)
