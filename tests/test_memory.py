"""The memory that a header promises is the memory that llama.cpp then takes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import synthetic

from localspec import llama
from localspec.gguf import read_header
from localspec.memory import MemoryEstimate, estimate
from localspec.native_log import NATIVE_LOG

MIB = 1024 * 1024
MODELS = os.environ.get("LOCALSPEC_TEST_MODELS")

OPTIONS: list[dict[str, Any]] = [
    {"n_ctx": 4096},
    {"n_ctx": 8192, "type_k": "q8_0", "type_v": "q8_0"},
    {"n_ctx": 1024, "n_ubatch": 128, "flash_attn": False},
    {"n_ctx": 2000, "n_rows": 4},
]


def native(path: Path, options: dict[str, Any]) -> MemoryEstimate:
    """What llama.cpp logs that it set aside, in bytes."""
    names = {"n_rows": "n_rows_max"}
    given = {names.get(name, name): value for name, value in options.items()}
    given["flash_attn"] = "on" if options.get("flash_attn", True) else "off"
    with NATIVE_LOG.watch() as log, llama.opened(path, None, llama.ContextOptions(**given)):
        pass

    def total(kind: str) -> int:
        pattern = re.compile(kind + r" buffer size = +([\d.]+) MiB")
        found = [match for _, line in log.lines if (match := pattern.search(line))]
        return round(sum(float(match.group(1)) for match in found) * MIB)

    weights, kv = total("CPU(?:_Mapped)? model"), total("(?:KV|RS)")
    compute = total("compute") + total("output")
    return MemoryEstimate(weights, kv, compute, weights + kv + compute)


def compare(path: Path, options: dict[str, Any]) -> None:
    ours, theirs = estimate(read_header(path), **options), native(path, options)
    assert ours.weights == pytest.approx(theirs.weights, rel=0.01, abs=0.02 * MIB)
    assert ours.kv == pytest.approx(theirs.kv, rel=0.001, abs=0.02 * MIB)
    assert ours.total == pytest.approx(theirs.total, rel=0.1)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_smollm2_takes_what_was_estimated(smollm2: Path, options: dict[str, Any]) -> None:
    compare(smollm2, options)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("size", ["0.5b", "1.5b"])
def test_qwen_takes_what_was_estimated(size: str, options: dict[str, Any]) -> None:
    path = Path(MODELS or "") / f"qwen2.5-coder-{size}-instruct-q4_k_m.gguf"
    if not path.is_file():
        pytest.skip("LOCALSPEC_TEST_MODELS does not hold this model")
    compare(path, options)


@pytest.mark.parametrize("make", [synthetic.tiny_gemma3, synthetic.tiny_lfm2, synthetic.tiny_llama])
@pytest.mark.parametrize("options", [{"n_ctx": 4096}, {"n_ctx": 4096, "swa_full": False}, {"n_ctx": 8192}], ids=str)
def test_other_kinds_of_cache_take_what_was_estimated(
    tmp_path: Path, make: Callable[[Path], Path], options: dict[str, Any]
) -> None:
    compare(make(tmp_path / "m.gguf"), options)


def test_snapshots_of_a_recurrent_state_are_counted(tmp_path: Path) -> None:
    path = synthetic.tiny_mamba(tmp_path / "m.gguf", n_layer=20)
    plain = estimate(read_header(path), 4096).kv
    assert plain == pytest.approx(native(path, {"n_ctx": 4096}).kv, abs=0.01 * MIB)
    hybrid = synthetic.tiny_lfm2(tmp_path / "h.gguf")
    attention, state = 4096 * 2 * 32 * 2, 2 * 32 * 4
    assert estimate(read_header(hybrid), 4096, n_rs_seq=4).kv == attention + 5 * state


def test_a_window_keeps_fewer_cells_than_the_whole_cache(tmp_path: Path) -> None:
    header = read_header(synthetic.tiny_gemma3(tmp_path / "m.gguf", window=16))
    assert estimate(header, 8192, swa_full=False).kv < estimate(header, 8192).kv / 4


def test_no_context_given_is_the_whole_context_of_the_model(smollm2: Path) -> None:
    header = read_header(smollm2)
    assert estimate(header, 0) == estimate(header, header.n_ctx_train)
