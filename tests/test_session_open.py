"""A pair is checked before it is loaded, and one that cannot be decoded exactly is refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from localspec.errors import ConfigError, GGUFError, PairError
from localspec.native_log import NATIVE_LOG
from localspec.session import LoadProgress, Session
from tests import synthetic
from tests.replies import ASCII, HELLO, N_CTX, rounds_of, settings, text_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def tiny(folder: Path) -> tuple[Path, Path]:
    target = synthetic.tiny_llama(folder / "target.gguf", n_vocab=ASCII, n_layer=2, seed=1)
    return target, synthetic.tiny_llama(folder / "draft.gguf", n_vocab=ASCII, n_layer=1, seed=1)


@pytest.fixture(autouse=True)
def log_closed() -> Iterator[None]:
    yield
    NATIVE_LOG.keep_in(None)


def test_a_pair_is_opened_with_progress_and_described(
    tiny: tuple[Path, Path], localspec_home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    seen: list[LoadProgress] = []
    with Session.open(settings(), *tiny, progress=seen.append) as session:
        assert [step.model for step in seen] == sorted((step.model for step in seen), reverse=True)
        for role, path in (("target", tiny[0]), ("draft", tiny[1])):
            fractions = [step.fraction for step in seen if step.model == role]
            assert fractions == sorted(fractions)
            assert fractions[-1] == 1.0
            assert {step.name for step in seen if step.model == role} == {path.stem}
        assert session.n_ctx == N_CTX
        assert (session.target.path, session.target.name) == (tiny[0], "target")
        assert session.draft is not None
        assert session.draft.n_params < session.target.n_params
        assert session.target.n_ctx_train == 256
        assert session.target.memory_bytes > session.target.size_bytes > 0
        assert len(text_of(list(session.reply(HELLO)))) == 40
    assert capfd.readouterr() == ("", "")
    assert [path for path in localspec_home.rglob("*.log") if path.stat().st_size > 0]


def test_what_the_progress_callback_raises_stops_the_opening(tiny: tuple[Path, Path]) -> None:
    def cancel(step: LoadProgress) -> None:
        if step.model == "draft":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Session.open(settings(), *tiny, progress=cancel)


def test_a_draft_of_another_vocabulary_is_refused_before_weights_are_read(
    tiny: tuple[Path, Path], tmp_path: Path, localspec_home: Path
) -> None:
    others = [f"other{i}" for i in range(ASCII)]
    target = synthetic.tiny_llama(tmp_path / "other.gguf", n_vocab=ASCII, n_layer=2, tokens=others)
    steps: list[LoadProgress] = []
    refusal = r"draft\.gguf cannot draft for other\.gguf: token 5 is 'other5' in the target and '!' in the draft\."
    with NATIVE_LOG.watch() as log, pytest.raises(PairError, match=f"(?i){refusal}"):
        Session.open(settings(), target, tiny[1], progress=steps.append)
    assert steps == []
    assert log.lines == []
    assert list(localspec_home.rglob("loads-with-*")) == []  # no process has tried it either


def test_a_context_beyond_all_memory_is_refused_before_weights_are_read(tiny: tuple[Path, Path]) -> None:
    steps: list[LoadProgress] = []
    with pytest.raises(ConfigError, match=r"needs .* GiB .* lower `--ctx-size`"):
        Session.open(settings(ctx_size=10**12), *tiny, progress=steps.append)
    assert steps == []


def test_a_file_that_is_no_model_is_refused(tiny: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "notes.gguf").write_text("These are notes.\n" * 10)
    for pair in ((tmp_path / "notes.gguf", tiny[1]), (tiny[0], tmp_path / "notes.gguf"), (tmp_path / "no.gguf", None)):
        with pytest.raises(GGUFError):
            Session.open(settings(), *pair)


def test_a_recurrent_target_is_refused_with_a_draft_and_works_without(folder: Path) -> None:
    target = synthetic.tiny_mamba(folder / "mamba.gguf")
    draft = synthetic.tiny_llama(folder / "64.gguf")
    with pytest.raises(PairError, match="cannot roll back"):
        Session.open(settings(), target, draft)
    with Session.open(settings(), target, None) as session:
        first = text_of(list(session.complete("ABC", settings(draft="none"))))
        list(session.complete("XYZ", settings(draft="none")))
        assert text_of(list(session.complete("ABC", settings(draft="none")))) == first


def test_a_hybrid_target_gives_its_dense_text_with_a_draft(folder: Path) -> None:
    target = synthetic.tiny_lfm2(folder / "lfm2.gguf", seed=1)
    draft = synthetic.tiny_llama(folder / "small.gguf", n_embd=16, n_ff=16, seed=1)
    with Session.open(settings(), target, draft) as session:
        texts = []
        for values in ({"draft": "none"}, {"draft_max": 1}, {"draft_max": 3}, {"draft_max": 7}):
            for _ in range(2):
                events = list(session.complete("SOME TEXT", settings(**values, temp=0.8)))
                texts.append(text_of(events))
        assert sum(len(event.rejected) for event in rounds_of(events)) > 0
        assert len(set(texts)) == 1


def test_a_sliding_window_target_gives_its_dense_text_with_a_draft(folder: Path) -> None:
    target = synthetic.tiny_gemma3(folder / "gemma3.gguf", seed=1)
    draft = synthetic.tiny_llama(folder / "small2.gguf", seed=1)
    with Session.open(settings(), target, draft) as session:
        texts = [
            text_of(list(session.complete(prompt, settings(**values, temp=0.8))))
            for values in ({"draft": "none"}, {"draft_max": 3}, {"draft_max": 7})
            for prompt in ("A LONGER TEXT THAN THE WINDOW", "A LONGER TEXT, EDITED")
        ]
        assert len(set(texts)) == 2
