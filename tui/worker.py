"""The thread that owns the session: it loads the models and decodes, and reports to the app through a queue.

The app never touches the session itself. It submits a request, drains the reports on its own clock, and cancels by a
flag that is looked at after every event, that is within one round.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from localspec.errors import LocalspecError
from localspec.events import Event, Finish

if TYPE_CHECKING:
    from localspec.config import Settings
    from localspec.session import LoadProgress, Message, ModelInfo, Session

    OpenSession = Callable[[Callable[[LoadProgress], None]], Session]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Loading:
    """A model is being loaded."""

    progress: LoadProgress


@dataclass(frozen=True, slots=True)
class Loaded:
    """The pair is ready."""

    target: ModelInfo
    draft: ModelInfo | None
    n_ctx: int


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """The pair cannot be loaded; no request will be answered."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Streamed:
    """An event of the reply to a request."""

    event: Event


@dataclass(frozen=True, slots=True)
class Ended:
    """The reply to a request is over; nothing more comes of it."""

    cancelled: bool
    error: str | None
    seed: int | None


Report = Loading | Loaded | LoadFailed | Streamed | Ended


@dataclass(frozen=True, slots=True)
class Request:
    """A conversation to be answered."""

    messages: Sequence[Message]
    settings: Settings
    current: Callable[[], Settings]
    """The settings in force now."""
    cancelled: threading.Event = field(default_factory=threading.Event)


class Decoder:
    """Owns the decoding thread and, through it, the session."""

    def __init__(self, open_session: OpenSession) -> None:
        self._open_session = open_session
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._reports: deque[Report] = deque()
        self._current: Request | None = None
        self._settings: Settings | None = None
        self._closing = threading.Event()
        # A daemon, so that a load that hangs in native code cannot keep the process alive.
        self._thread = threading.Thread(target=self._run, name="decode", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, messages: Sequence[Message], settings: Settings) -> None:
        """Ask for a reply; the previous one must have ended."""
        self._settings = settings
        self._current = Request(messages, settings, lambda: self._settings or settings)
        self._requests.put(self._current)

    def change(self, settings: Settings) -> None:
        """Let the reply that streams go on with these settings, from its next round on."""
        self._settings = settings

    def cancel(self) -> None:
        """Stop the reply within one round. ``Ended`` still comes."""
        if self._current is not None:
            self._current.cancelled.set()

    def drain(self) -> list[Report]:
        """All reports since the last call, oldest first."""
        reports = []
        while self._reports:
            reports.append(self._reports.popleft())
        return reports

    def close(self, timeout: float) -> bool:
        """Cancel, free the models and end the thread; False if it is still busy after ``timeout`` seconds."""
        self._closing.set()
        self.cancel()
        self._requests.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            session = self._open_session(self._on_progress)
        except _NobodyWaitsError:
            return
        except Exception as error:
            self._reports.append(LoadFailed(_sentence("The models could not be loaded", error)))
            return
        try:
            self._reports.append(Loaded(session.target, session.draft, session.n_ctx))
            while (request := self._requests.get()) is not None and not self._closing.is_set():
                self._reports.append(self._answer(session, request))
        finally:
            session.close()

    def _answer(self, session: Session, request: Request) -> Ended:
        cancelled, error = False, None
        try:
            events = session.reply(request.messages, request.settings, current=request.current)
            for event in events:
                self._reports.append(Streamed(event))
                if request.cancelled.is_set() and not isinstance(event, Finish):
                    cancelled = True
                    break
            close = getattr(events, "close", None)
            if close is not None:
                close()
        except Exception as problem:
            error = _sentence("The reply failed", problem)
        return Ended(cancelled, error, getattr(session, "seed", None))

    def _on_progress(self, progress: LoadProgress) -> None:
        if self._closing.is_set():
            raise _NobodyWaitsError
        self._reports.append(Loading(progress))


class _NobodyWaitsError(Exception):
    """Unwinds a load that nobody waits for any more."""


def _sentence(what: str, error: Exception) -> str:
    """A user's error speaks for itself; anything else is a defect, told in short and logged in full."""
    if isinstance(error, LocalspecError):
        return str(error)
    log.error("%s", what, exc_info=error)
    return f"{what} because of a defect in localspec ({type(error).__name__}: {error}); please report it."
