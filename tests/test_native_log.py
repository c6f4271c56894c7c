"""llama.cpp's log is kept, searched for reasons, and shown only when asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from localspec import llama
from localspec.native_log import CONTINUATION, ERROR, MIB, NATIVE_LOG, NativeLog, NativeLogSink
from tests import synthetic

INFO = 2


def watched(*pieces: tuple[int, str]) -> NativeLog:
    sink = NativeLogSink()
    with sink.watch() as log:
        for level, text in pieces:
            sink.write(level, text.encode())
    return log


@pytest.fixture
def restored() -> Iterator[None]:
    yield
    NATIVE_LOG.keep_in(None)


def test_pieces_of_a_line_are_put_together_and_lines_of_a_piece_taken_apart() -> None:
    log = watched((INFO, "load"), (CONTINUATION, "ing ."), (CONTINUATION, ".\nsecond\nthi"), (CONTINUATION, "rd\n"))
    assert [line for _, line in log.lines] == ["loading ..", "second", "third"]


def test_a_continued_line_keeps_the_level_it_began_with() -> None:
    log = watched((ERROR, "no"), (CONTINUATION, " memory\n"))
    assert log.lines == [(ERROR, "no memory")]


def test_a_watch_sees_only_what_is_logged_inside_it() -> None:
    sink = NativeLogSink()
    sink.write(INFO, b"before\n")
    with sink.watch() as outer:
        sink.write(INFO, b"outer\n")
        with sink.watch() as inner:
            sink.write(INFO, b"both\n")
    sink.write(INFO, b"after\n")
    assert [line for _, line in outer.lines] == ["outer", "both"]
    assert [line for _, line in inner.lines] == ["both"]


def test_the_first_error_is_the_reason_without_the_name_of_its_function() -> None:
    log = watched((INFO, "loading\n"), (ERROR, "llama_model_load: missing tensor 'x.weight'.\n"), (ERROR, "failed\n"))
    assert log.last_error() == "missing tensor 'x.weight'"
    assert watched((INFO, "loading\n")).last_error() is None


@pytest.mark.parametrize(
    "line",
    [
        "ggml_aligned_malloc: insufficient memory\nggml: failed to allocate buffer of size 1",
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9 MiB on device 0: cudaMalloc failed: out of memory",
        "llama_init_from_model: failed to initialize the context: std::bad_alloc",
    ],
)
def test_a_lack_of_memory_is_recognized(line: str) -> None:
    assert watched((ERROR, f"{line}\n")).out_of_memory()
    assert not watched((ERROR, "missing tensor\n")).out_of_memory()


def test_buffer_sizes_are_added_up() -> None:
    log = watched(
        (INFO, "load_tensors:   CPU_Mapped model buffer size =    93.76 MiB\n"),
        (INFO, "llama_kv_cache:        CPU KV buffer size =     5.62 MiB\n"),
        (INFO, "llama_context: n_ctx = 256\n"),
    )
    assert log.buffer_bytes() == int((93.76 + 5.62) * MIB)


def test_the_log_is_appended_to_a_file_and_printed_only_when_verbose(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sink, path = NativeLogSink(), tmp_path / "logs" / "native.log"
    for text, verbose in ((b"quiet\n", False), (b"loud\n", True)):
        sink.keep_in(path, verbose=verbose)
        sink.write(INFO, text)
    sink.keep_in(None)
    sink.write(INFO, b"nowhere\n")
    assert path.read_text() == "quiet\nloud\n"
    assert capsys.readouterr() == ("", "loud\n")


def test_no_file_appears_before_something_is_logged(tmp_path: Path) -> None:
    NativeLogSink().keep_in(tmp_path / "logs" / "native.log")
    assert list(tmp_path.iterdir()) == []


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    sink = NativeLogSink()
    sink.keep_in(tmp_path / "file" / "native.log")
    with sink.watch() as log:
        sink.write(INFO, b"first\n")
        sink.write(INFO, b"second\n")
    assert len(log.lines) == 2


def test_bytes_that_are_not_text_are_kept_readable() -> None:
    sink = NativeLogSink()
    with sink.watch() as log:
        sink.write(INFO, b"name = \xff\xfe\n")
    assert log.lines == [(INFO, "name = \ufffd\ufffd")]


@pytest.mark.usefixtures("restored")
def test_what_llama_cpp_says_while_loading_ends_in_the_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = synthetic.tiny_llama(tmp_path / "tiny.gguf")
    NATIVE_LOG.keep_in(tmp_path / "native.log")
    llama.Model(path).close()
    assert "general.architecture" in (tmp_path / "native.log").read_text()
    assert capfd.readouterr() == ("", "")
    NATIVE_LOG.keep_in(tmp_path / "native.log", verbose=True)
    llama.Model(path).close()
    assert "general.architecture" in capfd.readouterr().err
