"""The decoding thread: it reports, it cancels within a round, and no exception leaves it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from localspec.tui.worker import Decoder, Ended, Loaded, LoadFailed, Loading, Report, Streamed
from scripted import ScriptedSession

from localspec.chat_template import Message
from localspec.config import Settings
from localspec.errors import ModelError, SessionError
from localspec.events import Finish, Round
from localspec.session import LoadProgress

HELLO = [Message("user", "hello")]


def collect(decoder: Decoder, last: type) -> list[Report]:
    reports: list[Report] = []
    deadline = time.monotonic() + 20
    while not (reports and isinstance(reports[-1], last)):
        assert time.monotonic() < deadline, reports
        reports += decoder.drain()
        time.sleep(0.005)
    return reports


def test_a_reply_is_reported_event_by_event(settings: Settings) -> None:
    session = ScriptedSession()

    def open_session(progress: Callable[[LoadProgress], None]) -> object:
        progress(LoadProgress("target", "big", 0.5))
        return session

    decoder = Decoder(open_session)  # type: ignore[arg-type]
    decoder.start()
    loading, loaded = collect(decoder, Loaded)
    assert isinstance(loading, Loading)
    assert loading.progress.fraction == 0.5
    assert isinstance(loaded, Loaded)
    assert (loaded.target, loaded.draft, loaded.n_ctx) == (session.target, session.draft, 512)
    decoder.submit(HELLO, settings)
    *streamed, ended = collect(decoder, Ended)
    assert ended == Ended(cancelled=False, error=None, seed=7)
    events = [report.event for report in streamed if isinstance(report, Streamed)]
    assert isinstance(events[-1], Finish)
    assert "".join(event.text for event in events if isinstance(event, Round)) == session.text
    assert decoder.close(10)
    assert session.closed


def test_a_cancelled_reply_ends_within_one_round(settings: Settings) -> None:
    session = ScriptedSession(text="word " * 400, hold_after=2)
    decoder = Decoder(lambda progress: session)
    decoder.start()
    collect(decoder, Loaded)
    decoder.submit(HELLO, settings)
    reports: list[Report] = []
    while sum(isinstance(r, Streamed) and isinstance(r.event, Round) for r in reports) < 2:
        reports += decoder.drain()
        time.sleep(0.005)
    decoder.cancel()
    session.go.set()
    reports += collect(decoder, Ended)
    assert reports[-1] == Ended(cancelled=True, error=None, seed=7)
    assert sum(isinstance(r, Streamed) and isinstance(r.event, Round) for r in reports) <= 3
    assert session.cancelled
    decoder.submit(HELLO, settings)
    assert collect(decoder, Ended)[-1] == Ended(cancelled=False, error=None, seed=7)
    decoder.close(10)


def test_a_load_that_fails_is_a_sentence() -> None:
    def open_session(progress: object) -> object:
        raise ModelError("There is no file x.gguf; check the path.")

    decoder = Decoder(open_session)  # type: ignore[arg-type]
    decoder.start()
    assert collect(decoder, LoadFailed) == [LoadFailed("There is no file x.gguf; check the path.")]
    assert decoder.close(10)


def test_a_users_error_in_a_reply_is_its_own_sentence(settings: Settings) -> None:
    decoder = Decoder(lambda progress: ScriptedSession(fail_after=0, error=SessionError("Too long.")))
    decoder.start()
    collect(decoder, Loaded)
    decoder.submit(HELLO, settings)
    assert collect(decoder, Ended)[-1] == Ended(cancelled=False, error="Too long.", seed=7)
    decoder.close(10)


def test_a_defect_in_a_reply_is_a_sentence_and_the_next_reply_is_answered(settings: Settings) -> None:
    session = ScriptedSession(fail_after=1)
    decoder = Decoder(lambda progress: session)
    decoder.start()
    collect(decoder, Loaded)
    decoder.submit(HELLO, settings)
    ended = collect(decoder, Ended)[-1]
    assert isinstance(ended, Ended)
    assert ended.error is not None
    assert "defect" in ended.error
    assert "the sky fell" in ended.error
    session.fail_after = None
    decoder.submit(HELLO, settings)
    assert collect(decoder, Ended)[-1] == Ended(cancelled=False, error=None, seed=7)
    decoder.close(10)


def test_closing_unwinds_a_load() -> None:
    begun = threading.Event()

    def open_session(progress: Callable[[LoadProgress], None]) -> object:
        while True:
            progress(LoadProgress("target", "big", 0.1))
            begun.set()
            time.sleep(0.005)

    decoder = Decoder(open_session)  # type: ignore[arg-type]
    decoder.start()
    assert begun.wait(10)
    assert decoder.close(10)
