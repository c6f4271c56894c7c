"""The app with real weights: SmolLM2, drafted for by a worse copy of itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from localspec.tui.app import LocalspecApp
from localspec.tui.chat import ReplyView
from localspec.tui.panel import Panel
from scripted import ask, chat_text, open_app, ready, screen_text, until

from localspec import config, paths
from localspec.session import Session
from localspec.store import State, Store

PROMPT = "List three colours."


SETTINGS = {"temp": 0, "ctx_size": 512, "n_predict": 24, "threads": 1, "draft": "draft-model", "draft_max": 3}
"""One thread: two that wait for each other crawl on a busy machine."""


@pytest.fixture(scope="module")
def session(smollm2: Path, smollm2_q2k: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """The pair, loaded once for all tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCALSPEC_HOME", str(tmp_path_factory.mktemp("home")))
        with Session.open(config.load(SETTINGS).settings, smollm2, smollm2_q2k) as session:
            yield session


class Kept:
    """A session that outlives the app."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __getattr__(self, name: str) -> object:
        return getattr(self._session, name)

    def close(self) -> None:
        pass


@pytest.fixture
def real_app(session: Session) -> Callable[..., LocalspecApp]:
    def make(**options: object) -> LocalspecApp:
        settings = config.load(SETTINGS).settings
        return open_app(settings=settings, open_session=lambda progress: Kept(session), **options)

    return make


@pytest.mark.parametrize("size", [(40, 24), (80, 24), (200, 50)])
async def test_a_reply_streams_and_the_instruments_show_its_figures(
    size: tuple[int, int], real_app: Callable[..., LocalspecApp]
) -> None:
    app = real_app(prompt=PROMPT)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.query(ReplyView) and app.query_one(ReplyView).turn.state is State.COMPLETE)
        turn = app.query_one(ReplyView).turn
        assert turn.reply
        assert app.query_one(ReplyView).markdown.source == turn.reply
        figures = turn.figures
        assert figures["drafted"] > 0
        assert 0 < figures["accepted"] / figures["drafted"] == figures["acceptance_rate"]
        assert f"{figures['acceptance_rate']:.2f}" in screen_text(app)
        readings = app.query_one(Panel).readings
        assert readings.total.tokens == figures["tokens"]
        assert readings.n_ctx == 512
        assert readings.target_bytes is not None
        assert readings.target_bytes > 90_000_000
        with Store(paths.database()) as store:
            stored = store.load(1).messages
        assert [m.content for m in stored] == [PROMPT, turn.reply]


async def test_esc_stops_keeps_the_text_and_a_restart_goes_on_from_it(real_app: Callable[..., LocalspecApp]) -> None:
    app = real_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        app.change(n_predict=-1, ignore_eos=True)
        await ask(pilot, PROMPT)
        await until(pilot, lambda: len(app.query_one(ReplyView).markdown.source) > 40)
        await pilot.press("escape")
        await ready(pilot)
        partial = app.query_one(ReplyView).markdown.source
    with Store(paths.database()) as store:
        message = store.load(1).messages[-1]
    assert (message.content, message.state) == (partial, State.CANCELLED)

    again = real_app(resume="last")
    async with again.run_test() as pilot:
        await ready(pilot)
        assert partial in chat_text(again)
        await ask(pilot, "Thank you.")
        await ready(pilot)
        assert again.query(ReplyView).last().turn.reply
        assert again.query(ReplyView).last().turn.figures["prompt_tokens"] > len(partial.split())
    with Store(paths.database()) as store:
        assert len(store.load(1).messages) == 4


async def test_k_acts_from_the_next_reply_on_and_leaves_the_text_alone(real_app: Callable[..., LocalspecApp]) -> None:
    app = real_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        for command in ("/draft-max 1", "/draft-max 6", "/draft off"):
            await pilot.press("ctrl+n")
            await ask(pilot, command)
            await ask(pilot, PROMPT)
            await ready(pilot)
    with Store(paths.database()) as store:
        one, six, dense = (store.load(number).messages[-1] for number in (1, 2, 3))
    assert [m.figures["draft_max"] for m in (one, six, dense)] == [1, 6, 0]
    assert len(six.figures["survival"]) == 6
    assert dense.figures["drafted"] == 0
    assert one.content == six.content == dense.content


@pytest.mark.parametrize("bad", ["nothing", "garbage", "cut"])
async def test_a_model_that_cannot_be_loaded_is_a_sentence(bad: str, smollm2: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    if bad == "garbage":
        path.write_bytes(b"not a model" * 1000)
    elif bad == "cut":
        path.write_bytes(smollm2.read_bytes()[:50_000_000])
    settings = config.load(SETTINGS).settings
    app = open_app(open_session=lambda progress: Session.open(settings, path, None, progress=progress))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.phase == "failed")
        assert "model.gguf" in chat_text(app)
        assert "defect" not in chat_text(app)
        await pilot.press("ctrl+q")
    assert app.return_value == 2


async def test_a_conversation_too_long_for_the_context_is_a_sentence(real_app: Callable[..., LocalspecApp]) -> None:
    app = real_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "word " * 3000)
        await ready(pilot)
        assert "context holds 512" in chat_text(app)
        app.composer.put("")
        await ask(pilot, PROMPT)
        await ready(pilot)
        assert app.query(ReplyView).last().turn.reply
