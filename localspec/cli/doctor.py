"""``localspec doctor``: what this machine can run, and what to do where it cannot."""

from __future__ import annotations

import json
import platform
import shutil
import sys
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from localspec import __version__
from localspec.errors import LocalspecError
from localspec.sizes import size_text

if TYPE_CHECKING:
    from localspec.config import Settings
    from localspec.hardware import Device

BACKENDS = {"CUDA": "-DGGML_CUDA=on", "Metal": "-DGGML_METAL=on", "Vulkan": "-DGGML_VULKAN=on"}


@dataclass(frozen=True)
class Pair:
    """The pair that the settings name."""

    name: str
    on_disk: bool
    files: tuple[str, ...]
    needed_bytes: int
    """Weights, KV cache and compute buffers of both models; about as much where they are not on disk."""
    budget_bytes: int
    fits: bool


@dataclass
class Report:
    """What was found. ``advice`` is empty where there is nothing to do."""

    python: str = platform.python_version()
    platform: str = platform.platform()
    localspec: str = __version__
    llama_cpp: dict[str, str] | None = None
    devices: list[Device] = field(default_factory=list)
    pair: Pair | None = None
    advice: list[str] = field(default_factory=list)


@click.command(epilog="Example: localspec doctor --json")
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
def doctor(as_json: bool) -> int:
    """Check Python, the llama.cpp build, devices and memory, and whether the pair in your settings fits.

    The exit code is 1 where a pair cannot run.
    """
    from localspec import config

    report = examine(config.load().settings)
    if as_json:
        click.echo(json.dumps(asdict(report), indent=2))
    else:
        click.echo("\n".join(_lines(report)))
    runs = report.llama_cpp is not None and report.pair is not None and report.pair.fits
    return 0 if runs else 1


def examine(settings: Settings) -> Report:
    """Looks at everything; what is broken becomes advice instead of an error."""
    report = Report()
    try:
        from localspec import hardware, llama
    except (ImportError, OSError, RuntimeError) as error:
        report.advice.append(f"llama.cpp cannot be loaded ({error}); build it anew: {install_command(None)}")
        return report
    report.llama_cpp = llama.build_info()
    report.devices = list(hardware.devices())
    gpu = hardware.largest_gpu(tuple(report.devices))
    if gpu is None and (backend := missing_backend()) is not None:
        report.advice.append(
            f"This machine seems to have a GPU that this build of llama.cpp cannot use; for {backend}: "
            f"{install_command(backend)}"
        )
    try:
        report.pair = _pair(settings, hardware.budget_bytes())
    except LocalspecError as error:
        report.advice.append(str(error))
    else:
        report.advice += _pair_advice(report.pair, gpu)
    return report


def missing_backend() -> str | None:
    """The back end that a GPU of this machine would need, judged by what its driver installs."""
    if sys.platform == "darwin" and platform.machine() == "arm64":
        return "Metal"
    if shutil.which("nvidia-smi") or Path("/proc/driver/nvidia/version").exists():
        return "CUDA"
    if shutil.which("vulkaninfo") or any(Path("/dev/dri").glob("renderD*")):
        return "Vulkan"
    return None


def install_command(backend: str | None) -> str:
    """The shell command that builds llama.cpp for ``backend``, or for the CPU alone, in this environment."""
    arguments = f'CMAKE_ARGS="{BACKENDS[backend]}" ' if backend else ""
    package = f"llama-cpp-python=={version('llama-cpp-python')}"
    return f"{arguments}{sys.executable} -m pip install --force-reinstall --no-deps --no-cache-dir {package}"


def _pair(settings: Settings, budget: int) -> Pair:
    from localspec import catalog, library

    name = settings.model or catalog.load().default
    try:
        target, draft = library.resolve_pair(settings)
    except library.NotOnDiskError:
        known = catalog.load().pairs.get(name)
        if known is None:
            raise
        return Pair(name, False, (), known.memory_bytes, budget, known.memory_bytes <= budget)
    files = [path for path in (target, draft) if path is not None]
    needed = sum(_needed(path, settings, is_draft=path is draft) for path in files)
    return Pair(name, True, tuple(map(str, files)), needed, budget, needed <= budget)


def _needed(path: Path, settings: Settings, *, is_draft: bool) -> int:
    from localspec import gguf, memory

    type_k = settings.cache_type_k_draft if is_draft else settings.cache_type_k
    type_v = settings.cache_type_v_draft if is_draft else settings.cache_type_v
    return memory.estimate(gguf.read_header(path), settings.ctx_size, type_k, type_v, settings.ubatch_size).total


def _pair_advice(pair: Pair, gpu: Device | None) -> list[str]:
    from localspec import catalog

    advice = []
    if not pair.on_disk:
        advice.append(f"The pair is not on this disk yet: localspec pull {pair.name}")
    if not pair.fits:
        smaller = catalog.load().recommend(pair.budget_bytes, gpu=gpu is not None)
        advice.append(
            f"The pair needs {size_text(pair.needed_bytes)} and {size_text(pair.budget_bytes)} are free: close other "
            f"programs, lower --ctx-size, or use a smaller pair: localspec pull {smaller.name}"
        )
    return advice


def _lines(report: Report) -> list[str]:
    build = report.llama_cpp
    lines = [
        f"Python      {report.python} on {report.platform}",
        f"localspec   {report.localspec}",
        f"llama.cpp   {_build(build) if build else 'cannot be loaded'}",
    ]
    for device in report.devices:
        memory = f"{size_text(device.free_bytes)} of {size_text(device.total_bytes)} free"
        lines.append(f"device      {device.name} ({device.kind}): {device.description}, {memory}")
    if report.pair is not None:
        pair = report.pair
        where = "on disk" if pair.on_disk else "not on disk"
        fits = "fits" if pair.fits else "does not fit"
        free = size_text(pair.budget_bytes)
        lines.append(f"pair        {pair.name}: {where}, needs {size_text(pair.needed_bytes)} of {free} free, {fits}")
        lines += [f"            {file}" for file in pair.files]
    return [*lines, *(f"to do       {advice}" for advice in report.advice)]


def _build(build: dict[str, str]) -> str:
    gpu = "with GPU offload" if build["gpu_offload"] == "yes" else "CPU only"
    features = " ".join(build["system"].split())
    return f"{build['llama_cpp']} in llama-cpp-python {build['llama_cpp_python']}, {gpu}\n            {features}"
