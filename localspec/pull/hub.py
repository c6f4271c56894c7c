"""The hub source: files of a Hugging Face repository, into the Hugging Face cache.

huggingface_hub finds, lists, authenticates and lays out the cache. The transfer itself is here, because the library
starts an interrupted file again from its first byte and does not compare the SHA-256: bytes go to
``blobs/<etag>.incomplete`` under the library's own lock, go on from there after any interruption, and become the blob
only when length and hash are what the hub says. Plain HTTP, which every mirror speaks; never Xet.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import httpx2
from huggingface_hub import HfApi, constants, get_hf_file_metadata, get_session, hf_hub_download, hf_hub_url
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.file_download import repo_folder_name
from huggingface_hub.utils._headers import build_hf_headers
from huggingface_hub.utils._http import hf_raise_for_status

from localspec.errors import PullError
from localspec.gguf import read_header_from
from localspec.header import Header
from localspec.model_names import DEFAULT_QUANT, HubName, has_quant
from localspec.pull.plan import PlannedFile, Source
from localspec.pull.progress import ProgressSink
from localspec.pull.transfer import disk_errors, hash_file, held
from localspec.shards import PATTERN as SHARD

ATTEMPTS = 4
"""Tries in a row that may bring nothing new before a file is given up."""
FIRST_WAIT_SECONDS = 0.5
"""Before the second try; doubled before each further one."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_QUANT = re.compile(r"(?:UD-)?(?:IQ\d|Q\d|TQ\d|BF16|F16|F32|MXFP4)\w*", re.IGNORECASE)


Answer = TypeVar("Answer")


class HubUnreachableError(PullError):
    """The hub does not answer, so another source may be tried."""


@dataclass(frozen=True)
class HubFetch:
    """One file of one commit of a repository."""

    repo: str
    revision: str
    """As asked for: a branch, a tag or a commit."""
    commit: str
    file: str
    size: int
    sha256: str | None
    """None for a small file that the hub does not keep in its large file storage."""

    @property
    def planned(self) -> PlannedFile:
        linked = self._snapshot
        return PlannedFile(
            name=Path(self.file).name,
            source=Source.HUB,
            origin=f"{constants.ENDPOINT}/{self.repo} at {self.commit[:8]}",
            path=linked,
            bytes=self.size,
            present=self._present(linked),
        )

    def header(self) -> Header:
        """The GGUF header by HTTP range requests."""
        with _hub_errors(self.repo):
            reader = _RangeReader(self._url, build_hf_headers(), self.size)
            return _patiently(lambda: read_header_from(reader, Path(self.file).name))

    def run(self, sink: ProgressSink) -> Path:
        """Downloads what is missing and links it into the cache. Raises PullError, HubUnreachableError."""
        name = Path(self.file).name
        with _hub_errors(self.repo), disk_errors(name, self._folder):
            etag = _patiently(lambda: get_hf_file_metadata(self._url)).etag
            if etag is None:
                raise PullError(f"The hub gives no checksum for {name} in {self.repo}, so it cannot be pulled safely.")
            blob = self._folder / "blobs" / etag
            lock = Path(constants.HF_HUB_CACHE) / ".locks" / self._folder.name / f"{etag}.lock"
            with held(lock, sink, name):
                if not self._is_whole(blob):
                    self._fetch(blob, etag, sink)
            path = Path(hf_hub_download(self.repo, self.file, revision=self.commit))
            self._remember_revision()
        sink.finish(name)
        return path

    @property
    def _url(self) -> str:
        return hf_hub_url(self.repo, self.file, revision=self.commit)

    @property
    def _folder(self) -> Path:
        return Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=self.repo, repo_type="model")

    @property
    def _snapshot(self) -> Path:
        return self._folder / "snapshots" / self.commit / self.file

    def _is_whole(self, path: Path) -> bool:
        return path.is_file() and path.stat().st_size == self.size

    def _present(self, linked: Path) -> int:
        """Bytes in the cache; a blob is known by its hash before the hub is asked for its etag."""
        blob = self._folder / "blobs" / (self.sha256 or "")
        if self._is_whole(linked) or (self.sha256 is not None and self._is_whole(blob)):
            return self.size
        incomplete = blob.with_name(f"{self.sha256}.incomplete")
        return min(incomplete.stat().st_size, self.size) if incomplete.is_file() else 0

    def _fetch(self, blob: Path, etag: str, sink: ProgressSink) -> None:
        name = Path(self.file).name
        expected = self.sha256 or (etag if _SHA256.fullmatch(etag) else None)
        incomplete = blob.with_name(f"{etag}.incomplete")
        incomplete.parent.mkdir(parents=True, exist_ok=True)
        resumed = incomplete.stat().st_size if incomplete.is_file() else 0
        download = _Download(self._url, build_hf_headers(), self.size, name, incomplete)
        found = download.run(lambda done: sink.advance(name, done))
        if expected not in (None, found) and resumed:
            # What an earlier pull left may be to blame, so once more from the start.
            sink.note(f"{name} was damaged while it was interrupted, so it is fetched again from the start.")
            incomplete.unlink()
            found = download.run(lambda done: sink.advance(name, done))
        if expected not in (None, found):
            incomplete.unlink()
            raise PullError(
                f"{name} arrived with another SHA-256 than the hub announces, so it was removed: pull it again, and "
                "if that does not help report it to the owner of the repository."
            )
        incomplete.replace(blob)

    def _remember_revision(self) -> None:
        """Notes which commit a branch or tag was, where every reader of the cache looks for it."""
        if self.revision == self.commit:
            return
        ref = self._folder / "refs" / self.revision
        ref.parent.mkdir(parents=True, exist_ok=True)
        new = ref.with_name(f"{ref.name}.{os.getpid()}")
        new.write_text(self.commit, encoding="utf-8")
        new.replace(ref)


def plan(name: HubName) -> list[HubFetch]:
    """The files that a hub name means, all shards of a split one. Raises PullError, HubUnreachableError."""
    revision = name.revision or "main"
    with _hub_errors(name.repo, revision):
        timeout = constants.HF_HUB_ETAG_TIMEOUT
        info = _patiently(
            lambda: HfApi().model_info(name.repo, revision=revision, files_metadata=True, timeout=timeout)
        )
    files = {sibling.rfilename: sibling for sibling in info.siblings or ()}
    commit = info.sha if info.sha and _COMMIT.fullmatch(info.sha) else revision
    fetches = []
    for file in _choose(name, list(files)):
        sibling = files[file]
        if sibling.size is None:
            raise PullError(f"The hub does not say how large {file} in {name.repo} is, so it cannot be pulled safely.")
        digest = sibling.lfs.sha256 if sibling.lfs is not None else None
        fetches.append(HubFetch(name.repo, revision, commit, file, sibling.size, digest))
    return fetches


def _choose(name: HubName, listed: Sequence[str]) -> list[str]:
    """The file or the shards that ``name`` means, from a repository's file names."""
    if name.file is not None:
        if name.file not in listed:
            raise PullError(f"There is no {name.file} in {name.repo}: {_offer(listed)}.")
        return _with_shards(name.file, listed)
    models = [file for file in listed if _is_model(file)]
    wanted = [file for file in models if has_quant(file, name.quant or DEFAULT_QUANT)]
    if not wanted and name.quant is None and len(models) == 1:
        wanted = models
    if not wanted:
        raise PullError(f"There is no {name.quant or DEFAULT_QUANT} in {name.repo}: {_offer(listed)}.")
    # The plainest name: whole before split, Q4_K_M before UD-Q4_K_M.
    return _with_shards(min(wanted, key=lambda file: (SHARD.fullmatch(file) is not None, len(file), file)), listed)


def _is_model(file: str) -> bool:
    shard = SHARD.fullmatch(file)
    is_first = shard is None or int(shard["number"]) == 1
    return file.lower().endswith(".gguf") and not Path(file).name.lower().startswith("mmproj") and is_first


def _with_shards(file: str, listed: Sequence[str]) -> list[str]:
    shard = SHARD.fullmatch(file)
    if shard is None:
        return [file]
    count = int(shard["count"])
    shards = [f"{shard['stem']}-{number:05d}-of-{count:05d}.gguf" for number in range(1, count + 1)]
    if missing := [name for name in shards if name not in listed]:
        raise PullError(f"The repository lacks {missing[0]}, so the model in {count} parts is not whole.")
    return shards


def _offer(listed: Sequence[str]) -> str:
    """What a repository has instead."""
    models = [Path(file).name for file in listed if _is_model(file)]
    quants = sorted({match[0].upper() for file in models if (match := _QUANT.search(file))})
    if quants:
        return f"it has {', '.join(quants)}, so name one of them after a colon"
    return (
        f"it has {', '.join(models[:6])}"
        if models
        else "it holds no GGUF, so look for a repository whose name ends in -GGUF"
    )


@dataclass
class _Download:
    """One file over HTTP into ``target``, going on behind what is already there."""

    url: str
    headers: Mapping[str, str]
    size: int
    name: str
    target: Path

    def run(self, arrived: Callable[[int], None]) -> str:
        """Fetches until the file has ``size`` bytes; returns its SHA-256. Calls ``arrived`` with the bytes so far."""
        self.target.touch()
        if self.target.stat().st_size > self.size:
            os.truncate(self.target, 0)
        self._digest = hashlib.sha256()
        hash_file(self.target, self._digest)
        idle, wait = 0, FIRST_WAIT_SECONDS
        while (before := self.target.stat().st_size) < self.size:
            arrived(before)
            why = "the connection ended early"
            try:
                self._stream(before, arrived)
            except HfHubHTTPError as error:
                if not _passes(error):
                    raise
                why = f"HTTP {error.response.status_code}"
            except httpx2.HTTPError as error:
                why = str(error) or type(error).__name__
            if self.target.stat().st_size > before:
                idle, wait = 0, FIRST_WAIT_SECONDS
                continue
            idle += 1
            if idle == ATTEMPTS:
                raise HubUnreachableError(
                    f"{self.name} stopped at {before} of {self.size} bytes ({why}): check the connection and pull "
                    "again to resume."
                )
            time.sleep(wait)
            wait *= 2
        arrived(self.size)
        return self._digest.hexdigest()

    def _stream(self, done: int, arrived: Callable[[int], None]) -> None:
        """One request for the rest of the file; returns or raises with what arrived in ``target`` and the digest."""
        headers = {**self.headers, "Accept-Encoding": "identity"}
        if done:
            headers["Range"] = f"bytes={done}-"
        timeout = constants.HF_HUB_DOWNLOAD_TIMEOUT
        with get_session().stream("GET", self.url, headers=headers, timeout=timeout) as response:
            self._check(response, done)
            if done and response.status_code != 206:
                os.truncate(self.target, 0)
                self._digest, done = hashlib.sha256(), 0
            with self.target.open("ab") as out:
                # Without a chunk size: a full chunk would be waited for, and lost when the connection breaks.
                for chunk in response.iter_raw():
                    done += len(chunk)
                    if done > self.size:
                        raise self._refuse(f"is longer than the {self.size} bytes that the hub announces")
                    out.write(chunk)
                    self._digest.update(chunk)
                    arrived(done)

    def _check(self, response: httpx2.Response, done: int) -> None:
        if response.status_code == 416:
            raise self._refuse(f"ends before the {self.size} bytes that the hub announces")
        hf_raise_for_status(response)
        total = response.headers.get("Content-Range", "").rpartition("/")[2]
        if not total and response.status_code == 200:
            total = response.headers.get("Content-Length", "")
        if total.isdigit() and int(total) != self.size:
            raise self._refuse(f"has {total} bytes and not the {self.size} that the hub announces")

    def _refuse(self, why: str) -> PullError:
        self.target.unlink(missing_ok=True)
        return PullError(f"{self.name} {why}, so it was removed: pull it again, and if that does not help report it.")


@dataclass(frozen=True)
class _RangeReader:
    """A file on the hub of which any part can be read."""

    url: str
    headers: Mapping[str, str]
    size: int | None

    def read(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``, by one request."""
        headers = {**self.headers, "Accept-Encoding": "identity", "Range": f"bytes={offset}-{offset + length - 1}"}
        timeout = constants.HF_HUB_DOWNLOAD_TIMEOUT
        with get_session().stream("GET", self.url, headers=headers, timeout=timeout) as response:
            hf_raise_for_status(response)
            skip = 0 if response.status_code == 206 else offset
            found = bytearray()
            for chunk in response.iter_raw():
                found += chunk
                if len(found) >= skip + length:
                    break
            return bytes(found[skip : skip + length])


def _patiently(request: Callable[[], Answer]) -> Answer:
    """Asks again while the hub is out of order or too busy; not when it cannot be reached at all."""
    wait = FIRST_WAIT_SECONDS
    for _ in range(ATTEMPTS - 1):
        try:
            return request()
        except HfHubHTTPError as error:
            if not _passes(error):
                raise
        time.sleep(wait)
        wait *= 2
    return request()


def _passes(error: HfHubHTTPError) -> bool:
    """Whether an answer of the hub may be another one the next time."""
    return error.response.status_code >= 500 or error.response.status_code in (408, 429)


@contextmanager
def _hub_errors(repo: str, revision: str = "main") -> Iterator[None]:
    """Turns what the hub and the network refuse into one sentence, with what to do."""
    page = f"{constants.ENDPOINT}/{repo}"
    try:
        yield
    except GatedRepoError as error:
        raise PullError(
            f"{repo} is gated: accept its terms at {page}, then set HF_TOKEN to a token from "
            f"{constants.ENDPOINT}/settings/tokens and pull again."
        ) from error
    except RepositoryNotFoundError as error:
        raise PullError(
            f"There is no repository {repo} on the hub, or it is private: check the name at {page}, or set HF_TOKEN "
            "to a token that may read it."
        ) from error
    except RevisionNotFoundError as error:
        raise PullError(
            f"{repo} has no revision {revision}: see {page}/tree/main for its branches and tags."
        ) from error
    except OfflineModeIsEnabled as error:
        raise PullError(
            f"{repo} is not on this disk and HF_HUB_OFFLINE forbids to fetch it: unset it first."
        ) from error
    except LocalEntryNotFoundError as error:
        raise HubUnreachableError(f"{constants.ENDPOINT} cannot be reached: check the connection.") from error
    except EntryNotFoundError as error:
        raise PullError(f"A file of {repo} is gone from the hub: see {page}/tree/main for what there is.") from error
    except HfHubHTTPError as error:
        raise _status(error, repo, page) from error
    except HFValidationError as error:
        raise PullError(
            f"{repo} is not the name of a repository: write owner/name, for example Qwen/Qwen3-8B-GGUF."
        ) from error
    except (httpx2.HTTPError, json.JSONDecodeError) as error:
        raise HubUnreachableError(f"{constants.ENDPOINT} cannot be reached ({error}): check the connection.") from error


def _status(error: HfHubHTTPError, repo: str, page: str) -> PullError:
    code = error.response.status_code
    if _passes(error):
        return HubUnreachableError(f"{constants.ENDPOINT} is out of order (HTTP {code}): try again later.")
    if code in (401, 403):
        return PullError(
            f"The hub does not let you read {repo} (HTTP {code}): look at {page}, and set HF_TOKEN to a token that "
            "may read it."
        )
    return PullError(f"The hub refused {repo} (HTTP {code}): look at {page}.")
