"""Prompts on their way to the model."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from localspec.errors import AttachmentError

from .replying import Phase

if TYPE_CHECKING:
    from .app import LocalspecApp
    from .conversation import Turn


class Sending:
    """Turns what is submitted into turns of the open conversation, and has them answered."""

    def __init__(self, app: LocalspecApp, prompt: str | None) -> None:
        self._app = app
        self._queued = prompt
        """What is sent as soon as the models are loaded."""

    async def ask(self, prompt: str) -> None:
        """Send a prompt with what goes along with it, now or as soon as the models are loaded."""
        app = self._app
        hindrance = self._hindrance()
        try:
            text = app.entry.whole(prompt) if hindrance is None else ""
        except AttachmentError as problem:
            hindrance = str(problem)
        if hindrance is not None:
            app.complain(hindrance)
            return
        edited = app.composer.edited and app.conversation.current(app.composer.edited)
        app.entry.accept()
        if app.phase is Phase.LOADING:
            self._queued = text
            app.tell("Sent as soon as the models are loaded.")
        else:
            await self._send(text, edited)

    async def send_queued(self) -> None:
        """Send what waited for the models."""
        queued, self._queued = self._queued, None
        if queued is not None:
            await self._send(queued)

    async def again(self, turn: Turn) -> None:
        """Reply to the prompt of a turn again; the earlier reply stays as a version."""
        app = self._app
        if app.stop_first(partial(self.again, turn)):
            return
        if app.phase is not Phase.READY:
            app.complain("No model is loaded, so there is no other reply.")
            return
        shown = app.conversation.current(turn)
        if shown is None:
            return
        await app.chat.cut(shown)
        await self._begin(app.conversation.begin_again(shown, app.pair, app.settings.model_dump(mode="json")))

    def _hindrance(self) -> str | None:
        """Why nothing can be sent now."""
        if self._app.phase is Phase.FAILED:
            return "No model is loaded, so there is no reply: Ctrl+Q quits."
        if self._app.phase is Phase.REPLYING:
            return "The reply is not over: Esc stops it."
        if self._app.phase is Phase.LOADING and self._queued is not None:
            return "One prompt waits already until the models are loaded."
        return None

    async def _send(self, text: str, instead_of: Turn | None = None) -> None:
        app = self._app
        if instead_of is not None:
            await app.chat.cut(instead_of)
        settings = app.settings.model_dump(mode="json")
        await self._begin(app.conversation.begin(text, app.pair, settings, instead_of=instead_of))

    async def _begin(self, turn: Turn) -> None:
        app = self._app
        view = await app.chat.begin(turn)
        app.composer.focus()
        app.replying.begin(view, app.conversation.messages(app.settings.system))
