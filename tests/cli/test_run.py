"""``localspec run`` and ``localspec chat`` without a terminal, on a real pair."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

FIELDS = {
    "text",
    "model",
    "draft",
    "seed",
    "finish_reason",
    "usage",
    "timings",
    "acceptance_rate",
    "tokens_per_round",
    "survival",
    "rounds",
    "draft_max",
    "verify",
}
TIMINGS = {
    "prompt_n",
    "prompt_ms",
    "predicted_n",
    "predicted_ms",
    "predicted_per_second",
    "draft_n",
    "draft_n_accepted",
    "ttft_ms",
    "draft_ms",
    "verify_ms",
    "host_ms",
}
PROMPT = "Why is the sky blue?"


@pytest.fixture
def pair(smollm2: Path, smollm2_q2k: Path) -> tuple[str, ...]:
    """Flags of a pair that rejects often, with a small context, a short reply and one thread."""
    return ("-m", str(smollm2), "-md", str(smollm2_q2k), "-c", "1024", "-n", "24", "-t", "1")


def test_the_text_goes_to_stdout_and_one_line_of_figures_to_stderr(localspec: Any, pair: tuple[str, ...]) -> None:
    done = localspec("run", *pair, "--temp", "0", "--draft-max", "3", PROMPT)
    assert done.returncode == 0
    assert done.stdout.startswith("The sky")
    assert done.stdout.endswith("\n")
    lines = done.stderr.splitlines()
    assert len(lines) == 1
    for words in (
        "24 tokens (length)",
        "acceptance ",
        "(K = 3)",
        "tokens/round",
        "tokens/s",
        "prompt ",
        "TTFT ",
        "seed ",
    ):
        assert words in lines[0]
    assert "draft/verify/host " in lines[0]


def test_json_is_one_object_with_the_fixed_fields(localspec: Any, pair: tuple[str, ...], smollm2: Path) -> None:
    done = localspec("run", *pair, "--json", "-s", "5", "--draft-max", "4", PROMPT)
    answer = json.loads(done.stdout)
    assert set(answer) == FIELDS
    assert set(answer["timings"]) == TIMINGS
    assert set(answer["usage"]) == {"prompt_tokens", "completion_tokens"}
    assert (answer["seed"], answer["draft_max"], answer["verify"]) == (5, 4, "gumbel")
    assert (answer["model"], answer["finish_reason"]) == (smollm2.stem, "length")
    timings, usage = answer["timings"], answer["usage"]
    assert timings["prompt_n"] == usage["prompt_tokens"]
    assert timings["predicted_n"] == usage["completion_tokens"] == 24
    assert answer["acceptance_rate"] == timings["draft_n_accepted"] / timings["draft_n"]
    assert answer["tokens_per_round"] == 24 / answer["rounds"]
    assert len(answer["survival"]) == 4
    assert answer["survival"] == sorted(answer["survival"], reverse=True)


def test_dense_json_has_the_same_fields_and_no_draft(localspec: Any, pair: tuple[str, ...]) -> None:
    answer = json.loads(localspec("run", *pair, "--json", "--draft", "none", PROMPT).stdout)
    assert set(answer) == FIELDS
    assert (answer["draft"], answer["draft_max"], answer["acceptance_rate"], answer["survival"]) == (None, 0, None, [])
    assert answer["tokens_per_round"] == 1


@pytest.mark.parametrize("sampling", [("--temp", "0"), ("--temp", "0.9", "-s", "11")])
def test_the_text_is_that_of_dense_decoding(localspec: Any, pair: tuple[str, ...], sampling: tuple[str, ...]) -> None:
    texts = {
        localspec("run", *pair, *sampling, *draft, PROMPT).stdout
        for draft in (("--draft", "none"), ("--draft-max", "3"), ("--draft-max", "0"), ("--draft-max", "7"))
    }
    assert len(texts) == 1


def test_a_random_seed_is_reported_and_gives_the_text_again(localspec: Any, pair: tuple[str, ...]) -> None:
    first = json.loads(localspec("run", *pair, "--json", PROMPT).stdout)
    again = json.loads(localspec("run", *pair, "--json", "-s", first["seed"], PROMPT).stdout)
    assert again["text"] == first["text"]


def test_the_prompt_is_an_argument_or_comes_from_stdin(localspec: Any, pair: tuple[str, ...]) -> None:
    expected = localspec("run", *pair, "--temp", "0", PROMPT).stdout
    assert localspec("run", *pair, "--temp", "0", "-", stdin=PROMPT).stdout == expected
    assert localspec("run", *pair, "--temp", "0", stdin=f"\ufeff{PROMPT}\n").stdout == expected


def test_what_is_piped_in_follows_the_prompt(localspec: Any, pair: tuple[str, ...]) -> None:
    joined = localspec("run", *pair, "--temp", "0", "Say what this is:\n\nprint(1)").stdout
    assert localspec("run", *pair, "--temp", "0", "Say what this is:", stdin="print(1)\n").stdout == joined


def test_raw_continues_the_text_without_a_chat_template(localspec: Any, pair: tuple[str, ...]) -> None:
    answer = json.loads(localspec("run", *pair, "--json", "--raw", "--temp", "0", "One, two, three,").stdout)
    assert answer["usage"]["prompt_tokens"] < 10
    assert answer["text"].startswith(" four")


def test_a_system_message_and_a_stop_text_are_obeyed(localspec: Any, pair: tuple[str, ...]) -> None:
    plain = json.loads(localspec("run", *pair, "--json", "--temp", "0", PROMPT).stdout)
    word = plain["text"].split()[5]
    told = json.loads(localspec("run", *pair, "--json", "--temp", "0", "--stop", word, PROMPT).stdout)
    assert told["finish_reason"] == "stop"
    assert plain["text"].startswith(told["text"])
    assert word not in told["text"]
    system = json.loads(localspec("run", *pair, "--json", "--temp", "0", "-sys", "Answer in French.", PROMPT).stdout)
    assert system["usage"]["prompt_tokens"] != plain["usage"]["prompt_tokens"]


@pytest.mark.parametrize("command", [("run", "--compare"), ("chat",)])
def test_a_comparison_shows_both_speeds_and_that_the_text_is_the_same(
    localspec: Any, pair: tuple[str, ...], command: tuple[str, ...]
) -> None:
    done = localspec(*command, *pair, "-s", "3", "--draft-max", "3", PROMPT)
    assert done.returncode == 0
    summary, comparison = done.stderr.splitlines()
    assert "acceptance" in summary
    assert comparison.startswith("speculative ")
    for words in (" tokens/s, dense ", "speed-up ", "the same text"):
        assert words in comparison
    assert done.stdout == localspec("run", *pair, "-s", "3", PROMPT).stdout


def test_a_comparison_without_a_draft_is_refused(localspec: Any, is_error: Any, pair: tuple[str, ...]) -> None:
    is_error(localspec("run", *pair, "--compare", "--draft", "none", PROMPT), "--compare needs a draft")


def test_settings_come_from_the_users_file(localspec: Any, pair: tuple[str, ...], localspec_home: Path) -> None:
    (localspec_home / "config.yaml").write_text("temp: 0\ndraft_max: 2\n", encoding="utf-8")
    answer = json.loads(localspec("run", *pair, "--json", PROMPT).stdout)
    assert (answer["verify"], answer["draft_max"]) == ("greedy", 2)


def bad_file(kind: str, folder: Path, smollm2: Path) -> Path:
    path = folder / f"{kind}.gguf"
    match kind:
        case "text":
            path.write_text("this is no model")
        case "empty":
            path.touch()
        case "cut":
            with smollm2.open("rb") as stream:
                path.write_bytes(stream.read(50_000_000))
        case "folder":
            path.mkdir()
    return path


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("missing", "There is no file"),
        ("text", "is not a GGUF"),
        ("empty", "empty.gguf"),
        ("cut", "cut.gguf"),
        ("folder", "There is no GGUF in"),
    ],
)
def test_a_bad_model_file_is_one_sentence(
    localspec: Any, is_error: Any, kind: str, words: str, tmp_path: Path, smollm2: Path
) -> None:
    path = bad_file(kind, tmp_path, smollm2)
    is_error(localspec("run", "-m", path, PROMPT), words)
    is_error(localspec("run", "--json", "-m", path, PROMPT), words)


def test_other_mistakes_are_one_sentence(localspec: Any, is_error: Any, pair: tuple[str, ...]) -> None:
    is_error(localspec("run", *pair), "There is no prompt")
    is_error(localspec("run", *pair, ""), "There is no prompt")
    is_error(localspec("run", *pair, stdin=b"\xff\xfe"), "not UTF-8")
    is_error(localspec("run", *pair, b"\xff".decode(errors="surrogateescape")), "not valid UTF-8")
    is_error(localspec("run", *pair, "--draft-max", "99", PROMPT), "--draft-max is 99")
    is_error(localspec("run", *pair, PROMPT, LOCALSPEC_TEMP="hot"), "LOCALSPEC_TEMP")
    is_error(localspec("run", *pair, "word " * 2000), "raise `--ctx-size`")
    is_error(localspec("run", "--offline", PROMPT), "localspec pull qwen2.5-coder-1.5b")


def test_a_reader_that_goes_away_ends_it_quietly(pair: tuple[str, ...], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "localspec", "run", *pair, "-n", "400", "--ignore-eos", PROMPT]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(1)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=120) != 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_sentence(pair: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "localspec", "run", *pair, PROMPT]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 2
    assert done.stderr == b"localspec: error: No space left on device; free some space and try again.\n"


def test_ctrl_c_keeps_the_partial_text_and_the_figures(endless: Endless) -> None:
    process = endless.start()
    _wait_for(lambda: endless.out.stat().st_size > 40)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) == 130
    text, errors = endless.out.read_text(), endless.errors.read_text()
    assert len(text) > 40
    assert text.endswith("\n")
    assert "(cancelled)" in errors
    assert len(errors.splitlines()) == 1


def test_ctrl_c_still_ends_in_one_json_object(endless: Endless) -> None:
    process = endless.start("--json")
    _wait_for(lambda: _models_in_memory(process.pid) == 2)
    loaded = _busy_seconds(process.pid)
    _wait_for(lambda: _busy_seconds(process.pid) > loaded + 4)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) == 130
    answer = json.loads(endless.out.read_text())
    assert set(answer) == FIELDS
    assert answer["finish_reason"] == "cancelled"
    assert answer["usage"]["completion_tokens"] > 0


def test_ctrl_c_while_loading_ends_without_a_word(endless: Endless) -> None:
    process = endless.start()
    _wait_for(lambda: _models_in_memory(process.pid) == 1)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) == 130
    assert endless.out.read_text() == ""
    assert endless.errors.read_text().strip() == ""


class Endless:
    """A run that does not end by itself."""

    def __init__(self, pair: tuple[str, ...], folder: Path) -> None:
        self._arguments = [*pair, "-c", "8192", "-n", "-1", "--ignore-eos", PROMPT]
        self.out, self.errors = folder / "out", folder / "errors"

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "localspec", "run", *self._arguments, *arguments]
        with self.out.open("wb") as out, self.errors.open("wb") as errors:
            return subprocess.Popen(command, stdout=out, stderr=errors, stdin=subprocess.DEVNULL)


@pytest.fixture
def endless(pair: tuple[str, ...], tmp_path: Path) -> Endless:
    if not Path("/proc/self/maps").exists():
        pytest.skip("tells the phases of a run by /proc")
    return Endless(pair, tmp_path)


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _models_in_memory(pid: int) -> int:
    maps = Path(f"/proc/{pid}/maps").read_text()
    return len({line.split()[-1] for line in maps.splitlines() if line.endswith(".gguf")})


def _busy_seconds(pid: int) -> float:
    return psutil.Process(pid).cpu_times().user
