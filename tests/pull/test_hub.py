"""The hub source against a server on this machine: what arrives is whole and right, or it is not there."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import huggingface_hub.constants as hub_constants
import pytest

from localspec.errors import GGUFError, PairError, PullError
from localspec.pull import pull_pair
from localspec.pull.hub import HubUnreachableError
from tests import synthetic
from tests.pull.conftest import COMMIT, FILE, REPO, Fault, Hub, Recorder, start_pull

NAME = f"{REPO}:Q4_K_M"


def cache() -> Path:
    return Path(hub_constants.HF_HUB_CACHE)


def leftovers() -> list[str]:
    """Everything in the cache that is no lock: blobs, links, partial files."""
    return [p.name for p in cache().rglob("*") if p.is_file() and ".locks" not in p.parts]


def resumed_at(hub: Hub) -> list[int]:
    """Where each transfer began."""
    return [int((r.range or "bytes=0-").removeprefix("bytes=").removesuffix("-")) for r in hub.transfers()]


def test_a_file_lands_in_the_hugging_face_cache_under_its_own_name(hub: Hub, model: Path, sink: Recorder) -> None:
    content = hub.add_model(model)
    pulled = pull_pair(NAME, progress=sink)
    assert pulled.target.read_bytes() == content
    assert pulled.target.name == FILE
    assert pulled.target.is_relative_to(cache() / "models--acme--tiny-GGUF" / "snapshots" / COMMIT)
    assert (cache() / "models--acme--tiny-GGUF" / "refs" / "main").read_text() == COMMIT
    assert sink.finished == [FILE]
    assert sink.done[-1] == (FILE, len(content))


def test_other_programs_find_the_file_in_the_cache(hub: Hub, model: Path) -> None:
    from huggingface_hub import try_to_load_from_cache

    hub.add_model(model)
    pulled = pull_pair(NAME)
    assert try_to_load_from_cache(REPO, FILE) == str(pulled.target)


def test_a_second_pull_fetches_nothing(hub: Hub, model: Path, sink: Recorder) -> None:
    hub.add_model(model)
    first = pull_pair(NAME)
    hub.requests.clear()
    assert pull_pair(NAME, progress=sink).target == first.target
    assert hub.transfers() == []
    assert sink.begun == []


@pytest.mark.parametrize(
    "name",
    [
        REPO,
        f"{REPO}:q4_k_m",
        f"{REPO}/{FILE}",
        f"hf://{REPO}/{FILE}",
        f"hf.co/{REPO}:Q4_K_M",
        f"https://huggingface.co/{REPO}/resolve/main/{FILE}?download=true",
        f"https://huggingface.co/{REPO}/blob/main/{FILE}",
        f"{REPO}:Q4_K_M@{COMMIT}",
    ],
)
def test_a_model_can_be_named_in_every_usual_form(hub: Hub, model: Path, name: str) -> None:
    hub.add_model(model)
    hub.add("tiny-Q8_0.gguf", b"other")
    hub.add("mmproj-Q4_K_M.gguf", b"projector")
    assert pull_pair(name).target.name == FILE


def test_a_quant_that_is_not_there_names_those_that_are(hub: Hub, model: Path) -> None:
    hub.add_model(model)
    hub.add("tiny-Q8_0.gguf", b"other")
    with pytest.raises(PullError, match=r"no Q2_K in acme/tiny-GGUF: it has Q4_K_M, Q8_0"):
        pull_pair(f"{REPO}:Q2_K")


def test_the_whole_file_is_preferred_to_shards_and_the_plain_quant_to_a_variant(hub: Hub, model: Path) -> None:
    hub.add("UD/tiny-UD-Q4_K_M.gguf", b"variant")
    hub.add("tiny-Q4_K_M-00001-of-00002.gguf", b"first")
    hub.add("tiny-Q4_K_M-00002-of-00002.gguf", b"second")
    hub.add_model(model)
    assert pull_pair(NAME).target.name == FILE


def test_all_shards_of_a_split_model_are_pulled(hub: Hub, tmp_path: Path) -> None:
    first, second = split_model(tmp_path)
    for path in (first, second):
        hub.add(path.name, path.read_bytes())
    pulled = pull_pair(NAME)
    assert pulled.target.name == first.name
    assert pulled.target.with_name(second.name).read_bytes() == second.read_bytes()


def test_a_split_model_that_lacks_a_shard_is_refused_before_any_byte(hub: Hub, tmp_path: Path) -> None:
    first, _ = split_model(tmp_path)
    hub.add(first.name, first.read_bytes())
    with pytest.raises(PullError, match=r"lacks tiny-Q4_K_M-00002-of-00002\.gguf"):
        pull_pair(NAME)
    assert hub.transfers() == []


def test_a_dropped_connection_is_resumed_where_it_broke(hub: Hub, model: Path) -> None:
    content = hub.add_model(model)
    hub.faults += [Fault("drop", after=100_000), Fault("drop", after=50_000)]
    assert pull_pair(NAME).target.read_bytes() == content
    assert resumed_at(hub)[:2] == [0, 100_000]
    assert len(hub.transfers()) == 3


def test_a_connection_that_stalls_is_dropped_and_resumed(hub: Hub, model: Path) -> None:
    content = hub.add_model(model)
    hub.faults.append(Fault("stall", after=200_000))
    assert pull_pair(NAME).target.read_bytes() == content
    assert resumed_at(hub) == [0, 200_000]


def test_a_connection_that_always_breaks_gives_up_and_leaves_what_arrived(hub: Hub, model: Path) -> None:
    content = hub.add_model(model)
    hub.faults += [Fault("drop", after=150_000), Fault("drop", after=0, times=9)]
    with pytest.raises(HubUnreachableError, match="stopped at 150000 of"):
        pull_pair(NAME)
    hub.faults.clear()
    hub.requests.clear()
    assert pull_pair(NAME).target.read_bytes() == content
    assert resumed_at(hub) == [150_000]


def test_a_server_that_ignores_ranges_is_read_from_the_start(hub: Hub, model: Path) -> None:
    content = hub.add_model(model)
    hub.faults += [Fault("drop", after=100_000), Fault("ignore range")]
    assert pull_pair(NAME).target.read_bytes() == content


def test_a_server_error_in_the_middle_is_tried_again(hub: Hub, model: Path) -> None:
    content = hub.add_model(model)
    hub.faults += [Fault("drop", after=100_000), Fault("503"), Fault("429")]
    assert pull_pair(NAME).target.read_bytes() == content


def test_an_answer_that_ends_one_byte_early_is_continued(hub: Hub, model: Path) -> None:
    content = hub.add_model(model)
    hub.faults.append(Fault("drop", after=len(content) - 1))
    assert pull_pair(NAME).target.read_bytes() == content


def test_a_file_shorter_than_announced_is_removed(hub: Hub, model: Path) -> None:
    content = hub.add_model(model)
    hub.claimed_size[FILE] = len(content) + 5
    with pytest.raises(PullError, match=f"has {len(content)} bytes and not the {len(content) + 5}"):
        pull_pair(NAME)
    assert leftovers() == []


def test_a_file_longer_than_announced_is_removed(hub: Hub, model: Path) -> None:
    content = hub.add(FILE, model.read_bytes() + bytes(10))
    hub.claimed_size[FILE] = len(content) - 5
    with pytest.raises(PullError, match="bytes and not the"):
        pull_pair(NAME)
    assert leftovers() == []


def test_an_answer_that_is_cut_off_on_purpose_is_refused(hub: Hub, model: Path) -> None:
    hub.add_model(model)
    hub.faults.append(Fault("truncate", after=1000))
    with pytest.raises(PullError, match="has 1000 bytes and not the"):
        pull_pair(NAME)
    assert leftovers() == []


def test_a_file_with_another_hash_is_removed(hub: Hub, model: Path) -> None:
    hub.add_model(model)
    hub.claimed_hash[FILE] = "a" * 64
    with pytest.raises(PullError, match="another SHA-256"):
        pull_pair(NAME)
    assert leftovers() == []


def test_a_damaged_leftover_is_fetched_again_from_the_start(hub: Hub, model: Path, sink: Recorder) -> None:
    content = hub.add_model(model)
    blob = cache() / "models--acme--tiny-GGUF" / "blobs" / f"{hub.hash_of(REPO, FILE)}.incomplete"
    blob.parent.mkdir(parents=True)
    blob.write_bytes(b"x" * 10_000)
    assert pull_pair(NAME, progress=sink).target.read_bytes() == content
    assert resumed_at(hub) == [10_000, 0]
    assert "damaged" in sink.notes[0]


def test_a_blob_of_the_wrong_size_in_the_cache_is_replaced(hub: Hub, model: Path) -> None:
    content = hub.add_model(model)
    blob = cache() / "models--acme--tiny-GGUF" / "blobs" / hub.hash_of(REPO, FILE)
    blob.parent.mkdir(parents=True)
    blob.write_bytes(content[:1000])
    assert pull_pair(NAME).target.read_bytes() == content


def test_what_is_no_gguf_is_refused_before_it_is_fetched(hub: Hub) -> None:
    hub.add(FILE, b"<html>not a model</html>" * 1000)
    with pytest.raises(GGUFError, match="tiny-Q4_K_M"):
        pull_pair(NAME)
    assert hub.transfers() == []


@pytest.mark.parametrize("status", [401, 403])
def test_a_gated_repository_says_where_to_accept_and_what_to_set(hub: Hub, model: Path, status: int) -> None:
    hub.add_model(model)
    hub.status[REPO] = (status, "GatedRepo")
    with pytest.raises(PullError, match=f"gated: accept its terms at {hub.endpoint}/{REPO}, then set HF_TOKEN"):
        pull_pair(NAME)


def test_a_repository_that_does_not_exist_or_is_private_says_both(hub: Hub) -> None:
    with pytest.raises(PullError, match="no repository nobody/nothing on the hub, or it is private"):
        pull_pair("nobody/nothing")


def test_an_unknown_revision_says_so(hub: Hub, model: Path) -> None:
    hub.add_model(model)
    with pytest.raises(PullError, match="no revision v9"):
        pull_pair(NAME, revision="v9")


def test_a_forbidden_file_says_the_status(hub: Hub, model: Path) -> None:
    hub.add_model(model)
    hub.status[REPO] = (403, "")
    with pytest.raises(PullError, match="HTTP 403"):
        pull_pair(NAME)


def test_a_hub_that_is_busy_for_a_moment_is_asked_again(hub: Hub, model: Path) -> None:
    content = hub.add_model(model)
    hub.api_status += [503, 429]
    assert pull_pair(NAME).target.read_bytes() == content


def test_a_hub_that_is_out_of_order_says_so(hub: Hub, model: Path) -> None:
    hub.add_model(model)
    hub.api_status += [500] * 9
    with pytest.raises(HubUnreachableError, match="out of order"):
        pull_pair(NAME)


def test_a_hub_that_cannot_be_reached_says_so(no_hub: str) -> None:
    with pytest.raises(HubUnreachableError, match="cannot be reached"):
        pull_pair(NAME)


def test_the_token_goes_to_the_hub_and_not_to_where_it_redirects(
    hub: Hub, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.add_model(model)
    pull_pair(NAME)
    assert {r.authorization for r in hub.requests if r.path.startswith("/cdn/")} == {None}
    assert {r.authorization for r in hub.requests if not r.path.startswith("/cdn/")} == {"Bearer hf_secret"}


def test_a_pair_that_does_not_fit_is_refused_before_any_weights(hub: Hub, model: Path, tmp_path: Path) -> None:
    hub.add_model(model)
    other = synthetic.tiny_llama(tmp_path / "other-Q4_K_M.gguf", pre="qwen2", n_vocab=400)
    hub.add_model(other, repo="acme/other-GGUF", file=other.name)
    with pytest.raises(PairError):
        pull_pair(NAME, "acme/other-GGUF:Q4_K_M")
    assert hub.transfers() == []
    assert leftovers() == []


def test_a_pair_that_fits_is_pulled_as_a_whole(hub: Hub, model: Path, small_model: Path, sink: Recorder) -> None:
    hub.add_model(model)
    hub.add_model(small_model, repo="acme/small-GGUF", file=small_model.name)
    pulled = pull_pair(NAME, "acme/small-GGUF:Q4_K_M", progress=sink)
    assert pulled.draft is not None
    assert pulled.draft.read_bytes() == small_model.read_bytes()
    assert [file.name for file in sink.begun] == [FILE, small_model.name]


def test_a_dry_run_says_what_it_would_fetch_and_fetches_nothing(hub: Hub, model: Path) -> None:
    content = hub.add_model(model)
    plan = pull_pair(NAME, dry_run=True).plan
    assert plan.missing == len(content)
    assert plan.files[0].origin == f"{hub.endpoint}/{REPO} at {COMMIT[:8]}"
    assert hub.transfers() == []
    assert leftovers() == []


def test_a_dry_run_counts_what_an_interrupted_pull_left(hub: Hub, model: Path) -> None:
    content = hub.add_model(model)
    hub.faults += [Fault("drop", after=150_000), Fault("drop", times=9)]
    with pytest.raises(HubUnreachableError):
        pull_pair(NAME)
    assert pull_pair(NAME, dry_run=True).plan.missing == len(content) - 150_000


def test_offline_uses_what_is_here_and_asks_nobody(hub: Hub, model: Path) -> None:
    hub.add_model(model)
    with pytest.raises(PullError, match="offline mode forbids"):
        pull_pair(NAME, offline=True)
    here = pull_pair(NAME).target
    hub.requests.clear()
    assert pull_pair(NAME, offline=True).target == here
    assert hub.requests == []


def test_the_library_s_own_offline_switch_is_obeyed(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(PullError, match="offline mode forbids"):
        pull_pair(NAME)


def test_a_disk_without_room_is_refused_before_the_first_byte(hub: Hub, model: Path) -> None:
    hub.add_model(model)
    hub.claimed_size[FILE] = 1 << 60
    with pytest.raises(PullError, match="free and the pull needs"):
        pull_pair(NAME)
    assert hub.transfers() == []


def test_two_pulls_at_once_fetch_the_file_once(hub: Hub, model: Path) -> None:
    content = hub.add_model(model)
    hub.delay = 0.01
    both = [start_pull(NAME) for _ in range(2)]
    outputs = [process.communicate(timeout=30) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert next(cache().rglob("snapshots/*/*.gguf")).read_bytes() == content
    assert len(hub.transfers()) == 1


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_pull_that_is_stopped_is_resumed_by_the_next(hub: Hub, model: Path, how: signal.Signals) -> None:
    content = hub.add_model(model)
    hub.delay = 0.05
    process = start_pull(NAME)
    wait_for_bytes(300_000)
    os.kill(process.pid, how)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == (-how if how is signal.SIGKILL else 130), errors
    assert "Traceback" not in errors
    hub.delay = 0
    hub.requests.clear()
    process = start_pull(NAME)
    assert process.communicate(timeout=30)[0] is not None
    assert process.returncode == 0
    assert next(cache().rglob("snapshots/*/*.gguf")).read_bytes() == content
    (start,) = resumed_at(hub)
    assert start >= 300_000


def wait_for_bytes(n_bytes: int) -> None:
    """Until a partial file has ``n_bytes``."""
    deadline = time.monotonic() + 20
    while sum(path.stat().st_size for path in cache().rglob("*.incomplete")) < n_bytes:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def split_model(folder: Path) -> tuple[Path, Path]:
    """A model in two files, each with its share of the tensors."""
    import gguf

    def shard(number: int) -> synthetic.Change:
        def change(writer: gguf.GGUFWriter) -> None:
            writer.add_uint16("split.no", number)
            writer.add_uint16("split.count", 2)
            writer.add_int32("split.tensors.count", len(tensors))

        return change

    tensors = synthetic.llama_tensors(64, 1, 32, 64, 32)
    names = list(tensors)
    paths = []
    for number, part in enumerate((names[:5], names[5:])):
        path = folder / f"tiny-Q4_K_M-{number + 1:05d}-of-00002.gguf"
        chosen = {name: tensors[name] for name in part}
        paths.append(synthetic.write(path, "llama", chosen, change=shard(number)))
    return paths[0], paths[1]
