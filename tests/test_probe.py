"""A file that kills llama.cpp kills a child process; a file that passed is not loaded twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import synthetic
from gguf import GGUFValueType as Kind

from localspec import header_check, paths
from localspec import probe as probe_module
from localspec.errors import GGUFError, ModelError
from localspec.probe import probe


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return synthetic.tiny_llama(tmp_path / "tiny.gguf")


@pytest.fixture
def fatal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model on which llama.cpp aborts, past a header check that would have seen it."""
    monkeypatch.setattr(header_check, "check", lambda header: None)
    return synthetic.tiny_llama(
        tmp_path / "fatal.gguf",
        change=lambda writer: synthetic.set_key(
            writer, "llama.attention.layer_norm_rms_epsilon", float("nan"), Kind.FLOAT32
        ),
    )


def remembered() -> dict[str, list[list[int]]]:
    files = list(paths.cache_dir().glob("loads-with-*.json"))
    return dict(json.loads(files[0].read_text())) if files else {}


@pytest.mark.parametrize(
    "make", [synthetic.tiny_llama, synthetic.tiny_gemma3, synthetic.tiny_mamba, synthetic.tiny_lfm2]
)
def test_a_sound_file_passes(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    probe(make(tmp_path / "model.gguf"))


def test_a_real_model_passes_and_is_remembered(smollm2: Path, localspec_home: Path) -> None:
    probe(smollm2)
    stat = smollm2.stat()
    assert remembered() == {str(smollm2.resolve()): [[stat.st_size, stat.st_mtime_ns]]}
    assert paths.cache_dir().is_relative_to(localspec_home)


def test_a_remembered_file_is_not_loaded_again(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probe(tiny)
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    probe(tiny)


def test_a_changed_file_is_loaded_again(tiny: Path) -> None:
    probe(tiny)
    data = bytearray(tiny.read_bytes())
    data[-4000:] = b"\xff" * 4000
    tiny.write_bytes(data)
    os.utime(tiny, ns=(1, 1))
    with pytest.raises(ModelError, match="its weights give no numbers"):
        probe(tiny)


def test_a_refused_file_is_not_remembered(fatal: Path) -> None:
    for _ in range(2):
        with pytest.raises(ModelError):
            probe(fatal)
    assert remembered() == {}


def test_an_abort_of_the_native_loader_is_an_error_with_its_reason(
    fatal: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        ModelError, match=r"fatal\.gguf is damaged or not supported: .*'GGML_ASSERT\(eps >= 0\.0f\) failed'"
    ):
        probe(fatal)
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_what_the_native_loader_refuses_is_told(tmp_path: Path) -> None:
    path = synthetic.tiny_llama(
        tmp_path / "m.gguf", change=lambda writer: synthetic.set_key(writer, "llama.feed_forward_length", 128)
    )
    with pytest.raises(ModelError, match=r"^m\.gguf could not be loaded"):
        probe(path)


def test_what_the_header_shows_needs_no_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    (tmp_path / "text.gguf").write_text("no model " * 100)
    with pytest.raises(GGUFError, match="is not a GGUF file"):
        probe(tmp_path / "text.gguf")


def test_a_load_that_takes_too_long_is_ended(smollm2: Path) -> None:
    with pytest.raises(ModelError, match="did not load within 0 seconds"):
        probe(smollm2, timeout_s=0.01)


def test_a_child_that_wants_more_memory_than_the_file_can_need_is_refused(
    smollm2: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux enforces a limit on address space")
    monkeypatch.setattr(probe_module, "SLACK_BYTES", -200_000_000)
    with pytest.raises(ModelError, match=r"SmolLM2-135M-Instruct\.Q4_1\.gguf"):
        probe(smollm2)


def test_an_interpreter_that_cannot_start_is_told(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(ModelError, match="no process could be started"):
        probe(tiny)


def test_a_memory_of_nonsense_is_ignored(tiny: Path) -> None:
    probe(tiny)
    (file,) = paths.cache_dir().glob("loads-with-*.json")
    for nonsense in ("", "[]", '{"a": 1', "\x00"):
        file.write_text(nonsense)
        probe(tiny)
        assert str(tiny.resolve()) in remembered()


def test_a_folder_that_cannot_be_written_costs_only_the_memory(tiny: Path) -> None:
    paths.data_dir().mkdir(parents=True, exist_ok=True)
    paths.cache_dir().write_text("a file where the folder should be")
    probe(tiny)


def test_files_are_probed_from_several_threads(tmp_path: Path) -> None:
    models = [synthetic.tiny_llama(tmp_path / f"{i}.gguf", seed=i) for i in range(4)]
    failures: list[BaseException] = []

    def run(path: Path) -> None:
        try:
            probe(path)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(path,)) for path in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_script_without_a_main_guard_may_probe(tiny: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"from pathlib import Path\nfrom localspec.probe import probe\nprobe(Path({str(tiny)!r}))\nprint('done')\n"
    )
    search = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, str(script)], env={**os.environ, "PYTHONPATH": search}, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_a_split_model_passes_as_a_whole(tmp_path: Path) -> None:
    first = synthetic.tiny_llama(tmp_path / "m.gguf", n_layer=2, tensors_in_shard=7)
    probe(first)
    assert len(remembered()[str(first.resolve())]) == 3
