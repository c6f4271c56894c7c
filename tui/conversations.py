"""The open conversation, the ones on disk, and how one gets from one to another."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from localspec.errors import StoreError
from localspec.export import export
from localspec.store import Store

from .chat import Kind
from .conversation import Conversation
from .picker import Picker
from .rows import prompt_rows, session_rows

if TYPE_CHECKING:
    from .app import LocalspecApp


class Conversations:
    """Opens and leaves conversations. What cannot be saved goes on in memory, and is complained about once."""

    def __init__(self, app: LocalspecApp) -> None:
        self.store: Store | None = None
        self.open = Conversation(None, self._problem)
        self._app = app
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
        if self.store is not None:
            self.store.close()

    async def new(self) -> None:
        if not self._app.stop_first(self.new):
            await self._show(Conversation(self.store, self._problem))

    async def resume(self, which: str) -> None:
        """Go on with a past conversation: its number, or ``last``."""
        if self._app.stop_first(partial(self.resume, which)):
            return
        try:
            if self.store is None:
                raise StoreError("Past conversations cannot be read, so none can be resumed.")
            stored = self.store.load(self.store.number(which))
        except StoreError as problem:
            self._app.complain(str(problem))
            return
        await self._show(Conversation.resume(stored, self.store, self._problem))
        if self.open.system:
            self._app.settings = self._app.settings.changed(system=self.open.system)

    def save(self, path: Path) -> None:
        """Write the conversation to a new file, as the suffix asks; raises OSError and StoreError."""
        if self.store is None or self.open.id is None:
            raise StoreError("nothing of it is on disk yet.")
        text = export(self.store.load(self.open.id), path)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)

    async def pick(self) -> None:
        """Let the user pick a past conversation, or delete some."""
        store = self.store
        if store is None:
            self._app.complain("Past conversations cannot be read.")
            return

        def delete(key: str) -> None:
            store.delete(int(key))
            if int(key) == self.open.id:
                self._app.call_later(self.new)

        async def picked(key: str | None) -> None:
            if key is not None:
                await self.resume(key)

        await self._app.push_screen(Picker("Past conversations", partial(session_rows, store), delete), picked)

    async def pick_prompt(self) -> None:
        """Let the user pick a past prompt."""
        composer = self._app.composer

        def picked(text: str | None) -> None:
            if text is not None:
                composer.put(text)

        await self._app.push_screen(Picker("Past prompts", partial(prompt_rows, composer.prompts)), picked)

    async def _show(self, conversation: Conversation) -> None:
        self.open = conversation
        await self._app.conversation_opened()

    def _problem(self, sentence: str) -> None:
        if sentence not in self._problems:
            self._problems.add(sentence)
            self._app.tell(f"{sentence} Until then the chat is kept in memory only.", Kind.WARNING)
