"""The local source: files are used where they lie and remembered, and a pair of files is checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from localspec import library
from localspec.errors import GGUFError, PairError, PullError
from localspec.pull import Source, pull_pair
from tests import synthetic
from tests.pull.conftest import Recorder


@pytest.fixture(autouse=True)
def nowhere(no_hub: str) -> None:
    """No hub, and empty folders."""


def test_a_file_is_used_in_place_and_listed_from_then_on(model: Path, sink: Recorder) -> None:
    pulled = pull_pair(str(model), progress=sink)
    assert pulled.target == model
    assert pulled.plan.files[0].source is Source.DISK
    assert [entry.path for entry in library.scan()] == [model]
    assert sink.begun == []


def test_registering_twice_lists_once(model: Path) -> None:
    pull_pair(str(model))
    pull_pair(str(model))
    assert len(library.scan()) == 1


def test_a_folder_is_registered_as_a_whole(tmp_path: Path, model: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "one.gguf").write_bytes(model.read_bytes())
    pull_pair(str(folder))
    (folder / "two.gguf").write_bytes(model.read_bytes())
    assert [entry.name for entry in library.scan()] == ["one", "two"]


def test_a_relative_path_is_remembered_as_an_absolute_one(
    model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(model.parent)
    pull_pair(f"./{model.name}")
    monkeypatch.chdir(tmp_path)
    assert [entry.path for entry in library.scan()] == [model]


def test_a_dry_run_registers_nothing(model: Path) -> None:
    pull_pair(str(model), dry_run=True)
    assert library.scan() == []


def test_two_files_that_do_not_fit_are_refused_with_the_reason(model: Path, tmp_path: Path) -> None:
    other = synthetic.tiny_llama(tmp_path / "other.gguf", n_vocab=400)
    with pytest.raises(PairError, match=r"other\.gguf cannot draft for tiny-Q4_K_M\.gguf"):
        pull_pair(str(model), str(other))


def test_two_files_that_fit_are_a_pair(model: Path, small_model: Path) -> None:
    pulled = pull_pair(str(model), str(small_model))
    assert (pulled.target, pulled.draft) == (model, small_model)


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path, model: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"hello")
    with pytest.raises(GGUFError):
        pull_pair(str(broken))
    with pytest.raises(GGUFError):
        pull_pair(str(model), str(broken))


@pytest.mark.parametrize("name", ["./no.gguf", "~/no.gguf", "/no/such/no.gguf"])
def test_a_path_that_is_not_there_says_so(name: str) -> None:
    with pytest.raises(PullError, match="There is no file"):
        pull_pair(name)


def test_a_word_that_means_nothing_says_where_to_look() -> None:
    with pytest.raises(PullError, match="is no pair of the catalogue"):
        pull_pair("nosuch")
