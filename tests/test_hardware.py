"""Devices and memory of the machine that runs the tests."""

from __future__ import annotations

import psutil
import pytest

from localspec import hardware
from localspec.hardware import Device

CPU = Device("CPU", "a processor", "cpu", 8, 16)
CARD = Device("CUDA0", "a card", "gpu", 4, 12)
LARGER_CARD = Device("CUDA1", "another card", "gpu", 6, 8)
SHARED = Device("Vulkan0", "part of the processor", "igpu", 8, 16)


def test_the_cpu_is_there_with_the_memory_that_is_really_free() -> None:
    cpu = hardware.devices()[-1]
    assert cpu.kind == "cpu"
    assert cpu.total_bytes == psutil.virtual_memory().total
    assert 0 < cpu.free_bytes < cpu.total_bytes


def test_gpus_come_before_the_cpu() -> None:
    kinds = [device.kind for device in hardware.devices()]
    assert kinds == sorted(kinds, key=lambda kind: kind == "cpu")


@pytest.mark.parametrize(
    ("found", "largest"),
    [((CPU,), None), ((CARD, CPU), CARD), ((CARD, LARGER_CARD, CPU), LARGER_CARD), ((SHARED, CPU), None)],
)
def test_the_largest_gpu_is_the_one_with_most_free_memory(found: tuple[Device, ...], largest: Device | None) -> None:
    assert hardware.largest_gpu(found) == largest


def test_the_budget_is_the_free_memory_of_the_best_device() -> None:
    gpu = hardware.largest_gpu()
    limit = gpu.total_bytes if gpu else psutil.virtual_memory().total
    assert 0 < hardware.budget_bytes() <= limit


def test_there_is_at_least_one_core() -> None:
    assert 1 <= hardware.physical_cores() <= (psutil.cpu_count() or 1)
