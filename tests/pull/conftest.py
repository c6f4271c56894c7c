"""A hub on this machine that speaks the real one's protocol and can be told to misbehave."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote, urlsplit

import huggingface_hub.constants as hub_constants
import pytest

from localspec.pull.plan import PlannedFile
from tests import synthetic

CHUNK = 1 << 14
COMMIT = "c0ffee" + "0" * 34
REPO = "acme/tiny-GGUF"
FILE = "tiny-Q4_K_M.gguf"


@dataclass
class Request:
    """One request as the server saw it."""

    method: str
    path: str
    range: str | None
    authorization: str | None
    host: str


@dataclass
class Fault:
    """What happens to answers that carry the bytes of a file: ``times`` of them, then all is well."""

    kind: str
    after: int = 0
    """Bytes that arrive before it happens."""
    times: int = 1


@dataclass
class Hub:
    """What the server has, what it does wrong, and what it was asked."""

    endpoint: str = ""
    cdn: str = ""
    repos: dict[str, dict[str, bytes]] = field(default_factory=dict)
    claimed_size: dict[str, int] = field(default_factory=dict)
    """Sizes that the API lies about, by file."""
    claimed_hash: dict[str, str] = field(default_factory=dict)
    status: dict[str, tuple[int, str]] = field(default_factory=dict)
    """HTTP status and X-Error-Code of a repository's files, by repository."""
    api_status: list[int] = field(default_factory=list)
    """Status of the next answers of the API."""
    faults: list[Fault] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    on_bytes: Callable[[int], None] | None = None
    """Called with the bytes of a file sent so far, before each chunk of more than a header."""
    delay: float = 0.0
    """Seconds between those chunks."""

    def add(self, file: str, content: bytes, repo: str = REPO) -> bytes:
        self.repos.setdefault(repo, {})[file] = content
        return content

    def add_model(self, path: Path, repo: str = REPO, file: str = FILE) -> bytes:
        return self.add(file, path.read_bytes(), repo)

    def transfers(self) -> list[Request]:
        """The requests that fetched bytes of files, without those that read only a header."""
        return [r for r in self.requests if r.method == "GET" and r.path.startswith("/cdn/") and _open_ended(r.range)]

    def hash_of(self, repo: str, file: str) -> str:
        return self.claimed_hash.get(file) or hashlib.sha256(self.repos[repo][file]).hexdigest()

    def size_of(self, repo: str, file: str) -> int:
        return self.claimed_size.get(file, len(self.repos[repo][file]))


def _open_ended(requested: str | None) -> bool:
    return requested is None or requested.endswith("-")


class _Handler(BaseHTTPRequestHandler):
    hub: ClassVar[Hub]
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def log_message(self, *args: object) -> None:
        """Nothing: the tests look at ``hub.requests``."""

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        asked = self.headers
        host = asked["Host"] or ""
        self.hub.requests.append(Request(self.command, path, asked["Range"], asked["Authorization"], host))
        if path.startswith("/api/models/"):
            self._api(path)
        elif path.startswith("/cdn/"):
            owner, name, file = path.removeprefix("/cdn/").split("/", 2)
            self._bytes(self.hub.repos[f"{owner}/{name}"][file])
        else:
            owner, name, _, revision, file = path.removeprefix("/").split("/", 4)
            self._resolve(f"{owner}/{name}", revision, file)

    def _api(self, path: str) -> None:
        if self.hub.api_status and (status := self.hub.api_status.pop(0)) != 200:
            self._send(status)
            return
        repo, _, revision = path.removeprefix("/api/models/").partition("/revision/")
        if repo not in self.hub.repos:
            self._send(401, error="RepoNotFound")
        elif revision not in ("main", COMMIT):
            self._send(404, error="RevisionNotFound")
        else:
            siblings = [self._sibling(repo, file) for file in self.hub.repos[repo]]
            self._send(200, json.dumps({"id": repo, "sha": COMMIT, "siblings": siblings}).encode())

    def _sibling(self, repo: str, file: str) -> dict[str, object]:
        size = self.hub.size_of(repo, file)
        lfs = {"sha256": self.hub.hash_of(repo, file), "size": size, "pointerSize": 134}
        return {"rfilename": file, "size": size, "blobId": "b" * 40, "lfs": lfs}

    def _resolve(self, repo: str, revision: str, file: str) -> None:
        status, error = self.hub.status.get(repo, (302, ""))
        if status != 302:
            self._send(status, error=error)
        elif file not in self.hub.repos.get(repo, {}):
            self._send(404, error="EntryNotFound")
        else:
            headers = {
                "X-Repo-Commit": COMMIT,
                "X-Linked-Etag": f'"{self.hub.hash_of(repo, file)}"',
                "X-Linked-Size": str(self.hub.size_of(repo, file)),
                "Location": f"{self.hub.cdn}/cdn/{repo}/{file}?signature=x",
            }
            self._send(302, headers=headers)

    def _bytes(self, content: bytes) -> None:
        fault = self._next_fault()
        if fault is not None and fault.kind.isdigit():
            self._send(int(fault.kind))
            return
        start, end = 0, len(content)
        asked = self.headers["Range"]
        if asked and not (fault is not None and fault.kind == "ignore range"):
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last) + 1 if last else end, end)
            if start >= len(content):
                self._send(416)
                return
        if fault is not None and fault.kind == "truncate":
            content, end = content[: fault.after], min(end, fault.after)
        part = start > 0 or end < len(content)
        self.send_response(206 if part else 200)
        self.send_header("Content-Length", str(end - start))
        if part:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(content)}")
        self.end_headers()
        self._body(content, start, end, fault)

    def _body(self, content: bytes, start: int, end: int, fault: Fault | None) -> None:
        sent, weights = 0, _open_ended(self.headers["Range"])
        try:
            for at in range(start, end, CHUNK):
                piece = content[at : min(at + CHUNK, end)]
                if fault is not None and fault.kind in ("drop", "stall") and sent + len(piece) > fault.after:
                    self.wfile.write(piece[: fault.after - sent])
                    self.wfile.flush()
                    if fault.kind == "stall":
                        time.sleep(2.5)
                    self.connection.close()
                    self.close_connection = True
                    return
                if weights and self.hub.on_bytes is not None:
                    self.hub.on_bytes(start + sent)
                self.wfile.write(piece)
                sent += len(piece)
                time.sleep(self.hub.delay if weights else 0)
        except OSError:
            self.close_connection = True

    def _next_fault(self) -> Fault | None:
        if not self.hub.faults or not _open_ended(self.headers["Range"]):
            return None
        fault = self.hub.faults[0]
        fault.times -= 1
        if fault.times <= 0:
            self.hub.faults.pop(0)
        return fault

    def _send(
        self, status: int, body: bytes = b"", *, headers: Mapping[str, str] | None = None, error: str = ""
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if error:
            self.send_header("X-Error-Code", error)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A running hub, with this process and its children pointed at it and at empty folders."""
    found = Hub()
    handler = type("Handler", (_Handler,), {"hub": found})
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), handler) for _ in range(2)]
    for server in servers:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    # Two names, so that the redirect leaves the origin as it does on the real hub.
    found.endpoint = f"http://127.0.0.1:{servers[0].server_address[1]}"
    found.cdn = f"http://localhost:{servers[1].server_address[1]}"
    point_at(found.endpoint, tmp_path, monkeypatch)
    yield found
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def no_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a hub that refuses every connection."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    point_at(endpoint, tmp_path, monkeypatch)
    return endpoint


def point_at(endpoint: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the environment for children, and for this process what the library has read from it at import."""
    cache = folder / "hf" / "hub"
    environment = {
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(folder / "hf"),
        "HF_HUB_DOWNLOAD_TIMEOUT": "1",
        "LOCALSPEC_HOME": str(folder / "localspec"),
        "OLLAMA_MODELS": str(folder / "ollama"),
        "LLAMA_CACHE": str(folder / "llama.cpp"),
        "HOME": str(folder / "home"),
        "NO_COLOR": "1",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    template = f"{endpoint}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(hub_constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(hub_constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(hub_constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(hub_constants, "HF_HUB_DOWNLOAD_TIMEOUT", 1)
    monkeypatch.setattr(hub_constants, "HF_TOKEN_PATH", str(folder / "hf" / "token"))
    monkeypatch.setattr("localspec.pull.hub.FIRST_WAIT_SECONDS", 0.01)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A valid GGUF of about 1 MB."""
    return synthetic.tiny_llama(tmp_path_factory.mktemp("gguf") / FILE, n_layer=4, n_embd=64, n_ff=256, n_head=4)


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A valid GGUF of about 70 kB that can draft for ``model``."""
    return synthetic.tiny_llama(tmp_path_factory.mktemp("gguf") / "small-Q4_K_M.gguf")


@dataclass
class Recorder:
    """A progress sink that remembers what it was told."""

    begun: list[PlannedFile] = field(default_factory=list)
    done: list[tuple[str, int]] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def begin(self, files: Sequence[PlannedFile]) -> None:
        self.begun.extend(files)

    def advance(self, name: str, done: int) -> None:
        self.done.append((name, done))

    def finish(self, name: str) -> None:
        self.finished.append(name)

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture
def sink() -> Recorder:
    return Recorder()


def start_pull(*arguments: str) -> subprocess.Popen[str]:
    """``localspec pull`` in a process of its own, with the environment of this one."""
    command = [sys.executable, "-m", "localspec", "pull", *arguments]
    here = str(Path(__file__).parents[2])
    environment = os.environ | {"PYTHONPATH": here}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=here
    )
