"""A session that says what it is told, so that the app can be tested without a model."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localspec.tui.app import LocalspecApp
from localspec.tui.chat import ChatLog, Notice, PromptView, ReplyView
from localspec.tui.composer import Composer
from textual.pilot import Pilot

from localspec import config, paths
from localspec.chat_template import Message
from localspec.config import Settings
from localspec.events import Event, Finish, FinishReason, Origin, Prefill, Round, Token
from localspec.session import ModelInfo

DRAFT_S, VERIFY_S, HOST_S = 0.010, 0.030, 0.010
REASON = "draft costs 0.25 of a target step, 0.90 accepted: K 3"


@dataclass
class ScriptedSession:
    """Says ``text``, word by word: rounds of up to K drafts of which all but every third round's last are accepted."""

    text: str = "Plain **words** come one after the other."
    k: int = 3
    hold_after: int | None = None
    """Wait for ``go`` after this many rounds, so that a test can act in mid-reply."""
    fail_after: int | None = None
    """Raise ``error`` after this many rounds."""
    error: Exception = field(default_factory=lambda: RuntimeError("the sky fell"))
    go: threading.Event = field(default_factory=threading.Event)
    requests: list[tuple[list[Message], Settings]] = field(default_factory=list)
    cancelled: bool = False
    closed: bool = False
    n_ctx: int = 512
    seed: int = 7
    target: ModelInfo = field(default_factory=lambda: _model("big", 3 << 30))
    draft: ModelInfo | None = field(default_factory=lambda: _model("small", 1 << 30))

    def reply(
        self, messages: Sequence[Message], settings: Settings, *, current: Callable[[], Settings] | None = None
    ) -> Iterator[Event]:
        self.requests.append((list(messages), settings))
        try:
            yield from self._events(current or (lambda: settings))
        except GeneratorExit:
            self.cancelled = True
            raise

    def close(self) -> None:
        self.closed = True

    def _events(self, current: Callable[[], Settings]) -> Iterator[Event]:
        yield Prefill(0, 20, 0, 0.0)
        yield Prefill(20, 20, 0, 0.2)
        words = re.findall(r"\s*\S+|\s+$", self.text)
        seconds, place, index = 0.2, 0, 0
        while place < len(words):
            if index == self.fail_after:
                raise self.error
            if index == self.hold_after:
                assert self.go.wait(20)
            settings = current()
            adaptive = settings.draft_max == "auto"
            k = 0 if not settings.drafts else self.k if adaptive else settings.draft_max
            accepted = max(0, k - 1) if index % 3 == 2 else k
            said = words[place : place + accepted + 1]
            place += len(said)
            seconds += DRAFT_S + VERIFY_S + HOST_S
            tokens = tuple(Token(i, word, Origin.DRAFT, 0.9, 0.8) for i, word in enumerate(said))
            yield Round(
                index,
                tokens,
                "".join(said),
                k,
                k,
                accepted,
                (),
                (0.8,) * k,
                DRAFT_S,
                VERIFY_S,
                HOST_S,
                seconds,
                20 + place,
                "draft-model" if k else "none",
                VERIFY_S + HOST_S,
                REASON if adaptive else "",
            )
            index += 1
        yield Finish(FinishReason.STOP, "", 20, place, seconds)


def _model(name: str, size: int) -> ModelInfo:
    return ModelInfo(name, Path(f"{name}.gguf"), name, size, 1000, 2048, size + (1 << 28))


def open_app(session: ScriptedSession | None = None, **options: Any) -> LocalspecApp:
    """The app around a session; conversations go to the test's own database."""
    session = session or ScriptedSession()
    arguments = {
        "settings": config.load().settings,
        "open_session": lambda progress: session,
        "pair": "big + small",
        "database": paths.database(),
        **options,
    }
    return LocalspecApp(**arguments)


async def until(pilot: Pilot[int], condition: Callable[[], object], seconds: float = 30) -> None:
    """Wait until something is true of the app."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        await pilot.pause(0.02)
    await pilot.pause()


async def ready(pilot: Pilot[int]) -> None:
    """Wait until the models are loaded and no reply is under way."""
    app = pilot.app
    assert isinstance(app, LocalspecApp)
    await until(pilot, lambda: app.phase == "ready")


async def ask(pilot: Pilot[int], text: str) -> None:
    """Type a line and send it."""
    pilot.app.query_one(Composer).put(text)
    await pilot.press("enter")
    await pilot.pause()


def chat_text(app: LocalspecApp) -> str:
    """What the chat holds, views in order."""
    parts = []
    for view in app.query_one(ChatLog).children:
        if isinstance(view, ReplyView):
            parts.append(view.markdown.source)
        elif isinstance(view, Notice):
            parts.append(view.text)
        elif isinstance(view, PromptView):
            parts.append(str(view.content))
    return "\n".join(parts)


def screen_text(app: LocalspecApp) -> str:
    """What is on the screen, cell by cell."""
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())
