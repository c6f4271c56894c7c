"""``localspec doctor``."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import psutil
import pytest

from localspec import __version__, config, memory
from localspec.cli.doctor import BACKENDS, install_command
from localspec.gguf import read_header


def test_it_tells_versions_devices_and_that_the_pair_is_missing(localspec: Any) -> None:
    done = localspec("doctor")
    assert done.returncode == 0
    for words in (platform.python_version(), __version__, "llama-cpp-python", "CPU (cpu)", "not on disk"):
        assert words in done.stdout
    assert "to do       The pair is not on this disk yet: localspec pull qwen2.5-coder-1.5b" in done.stdout


def test_json_holds_the_memory_that_the_pair_needs(localspec: Any, smollm2: Path, smollm2_q2k: Path) -> None:
    env = {"LOCALSPEC_MODEL": str(smollm2), "LOCALSPEC_MODEL_DRAFT": str(smollm2_q2k), "LOCALSPEC_CTX_SIZE": "2048"}
    report = json.loads(localspec("doctor", "--json", **env).stdout)
    assert report["localspec"] == __version__
    assert report["llama_cpp"]["llama_cpp_python"]
    assert report["devices"][-1]["total_bytes"] == psutil.virtual_memory().total
    pair = report["pair"]
    assert pair["files"] == [str(smollm2), str(smollm2_q2k)]
    assert (pair["on_disk"], pair["fits"]) == (True, True)
    assert pair["needed_bytes"] == sum(
        memory.estimate(read_header(path), 2048).total for path in (smollm2, smollm2_q2k)
    )


def test_a_pair_that_does_not_fit_is_told_with_a_way_out(localspec: Any, smollm2: Path) -> None:
    done = localspec("doctor", LOCALSPEC_MODEL=str(smollm2), LOCALSPEC_CTX_SIZE="200000000")
    assert done.returncode == 1
    assert "does not fit" in done.stdout
    assert "lower --ctx-size" in done.stdout


def test_a_model_that_cannot_be_read_is_advice_not_an_error(localspec: Any, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_text("no model")
    done = localspec("doctor", LOCALSPEC_MODEL=str(broken))
    assert done.returncode == 1
    assert "to do       " in done.stdout
    assert "broken.gguf" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_command_for_a_back_end_builds_the_same_version_for_it(backend: str) -> None:
    command = install_command(backend)
    assert command.startswith(f'CMAKE_ARGS="-DGGML_{backend.upper()}=on" ')
    assert "-m pip install --force-reinstall --no-deps --no-cache-dir llama-cpp-python==" in command


def test_the_default_pair_is_one_of_the_catalogue() -> None:
    from localspec import catalog

    assert config.default("model") == catalog.load().default
