"""Devices and their memory: RAM by psutil, GPUs as llama.cpp sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import psutil

DeviceKind = Literal["cpu", "gpu", "igpu", "accel"]


@dataclass(frozen=True, slots=True)
class Device:
    """A device that this build of llama.cpp can compute on. Memory is in bytes."""

    name: str
    description: str
    kind: DeviceKind
    free_bytes: int
    total_bytes: int


def devices() -> tuple[Device, ...]:
    """GPUs first, then the CPU with the machine's RAM. Loads llama.cpp."""
    from localspec import llama

    memory = psutil.virtual_memory()
    found = []
    for device in llama.devices():
        # ggml reports the CPU's total as free; psutil knows what other programs hold.
        free, total = (
            (memory.available, memory.total) if device.kind == "cpu" else (device.free_bytes, device.total_bytes)
        )
        found.append(Device(device.name, device.description, device.kind, free, total))
    return tuple(sorted(found, key=lambda device: device.kind == "cpu"))


def largest_gpu(found: tuple[Device, ...] | None = None) -> Device | None:
    """The GPU with the most free memory, or None."""
    gpus = [device for device in (devices() if found is None else found) if device.kind == "gpu"]
    return max(gpus, key=lambda device: device.free_bytes, default=None)


def budget_bytes() -> int:
    """Memory that a pair may take: free VRAM of the GPU that has most, else RAM that is available."""
    gpu = largest_gpu()
    return gpu.free_bytes if gpu else psutil.virtual_memory().available


def physical_cores() -> int:
    return psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
