"""The half of the binding that speaks to ggml: compute devices, and a CPU path that must not be taken.

Together with ``localspec.llama`` this is all of the project that touches a raw pointer.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from llama_cpp._ggml import libggml

DeviceKind = Literal["cpu", "gpu", "igpu", "accel"]
DEVICE_KINDS: tuple[DeviceKind, ...] = ("cpu", "gpu", "igpu", "accel")

_pointer, _size = ctypes.c_void_p, ctypes.c_size_t
_PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "ggml_backend_dev_count": (_size, []),
    "ggml_backend_dev_get": (_pointer, [_size]),
    "ggml_backend_dev_name": (ctypes.c_char_p, [_pointer]),
    "ggml_backend_dev_description": (ctypes.c_char_p, [_pointer]),
    "ggml_backend_dev_type": (ctypes.c_int, [_pointer]),
    "ggml_backend_dev_memory": (None, [_pointer, ctypes.POINTER(_size), ctypes.POINTER(_size)]),
    "ggml_backend_dev_backend_reg": (_pointer, [_pointer]),
    "ggml_backend_reg_get_proc_address": (_pointer, [_pointer, ctypes.c_char_p]),
}


@dataclass(frozen=True, slots=True)
class Device:
    """A compute device that this build of llama.cpp can use. Memory is in bytes."""

    name: str
    description: str
    kind: DeviceKind
    free_bytes: int
    total_bytes: int


def devices() -> tuple[Device, ...]:
    """Devices of this llama.cpp build, in its own order."""
    return tuple(_device(pointer) for pointer in _device_pointers() if _kind(pointer) is not None)


def decline_amx() -> None:
    """Keep the CPU backend off Intel AMX, on Linux, before it first asks for it.

    GCC may drop the tile configuration that ggml builds on the stack, and the first matrix product then dies with
    SIGSEGV (llama.cpp issue 20824 and pull request 26954). There is no switch at run time, but the kernel refuses the
    use of AMX to a process in which any thread has a signal stack too small to save its tiles
    (Documentation/arch/x86/xstate.rst); ggml then takes its AVX-512 kernels, which are sound.
    """
    if not _has_amx():
        return
    with _small_signal_stack(), _silent_stderr():
        for pointer in _device_pointers():
            if _kind(pointer) == "cpu":
                _list_extra_buffer_types(pointer)


def _has_amx() -> bool:
    try:
        return sys.platform.startswith("linux") and " amx_int8" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


def _call(name: str, *arguments: Any) -> Any:
    function = getattr(libggml, name)
    function.restype, function.argtypes = _PROTOTYPES[name]
    return function(*arguments)


def _device_pointers() -> list[Any]:
    return [_call("ggml_backend_dev_get", i) for i in range(_call("ggml_backend_dev_count"))]


def _kind(pointer: Any) -> DeviceKind | None:
    index = _call("ggml_backend_dev_type", pointer)
    return DEVICE_KINDS[index] if index < len(DEVICE_KINDS) else None


def _device(pointer: Any) -> Device:
    free, total = _size(), _size()
    _call("ggml_backend_dev_memory", pointer, ctypes.byref(free), ctypes.byref(total))
    name = _call("ggml_backend_dev_name", pointer).decode()
    description = _call("ggml_backend_dev_description", pointer).decode()
    return Device(name, description, _kind(pointer) or "accel", free.value, total.value)


def _list_extra_buffer_types(device: Any) -> None:
    """Make ggml choose its CPU buffer types now. It does so once in a process."""
    registry = _call("ggml_backend_dev_backend_reg", device)
    address = _call("ggml_backend_reg_get_proc_address", registry, b"ggml_backend_dev_get_extra_bufts")
    if address:
        ctypes.CFUNCTYPE(_pointer, _pointer)(address)(device)


class _SignalStack(ctypes.Structure):
    _fields_ = (("pointer", _pointer), ("flags", ctypes.c_int), ("size", _size))


@contextmanager
def _small_signal_stack() -> Iterator[None]:
    libc = ctypes.CDLL(None)
    memory = ctypes.create_string_buffer(8192)  # the tiles alone need 8 KiB
    before = _SignalStack()
    libc.sigaltstack(ctypes.byref(_SignalStack(ctypes.addressof(memory), 0, len(memory))), ctypes.byref(before))
    try:
        yield
    finally:
        libc.sigaltstack(ctypes.byref(before), None)


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Discard what C code prints to stderr: ggml reports the refusal there, past the log callback."""
    try:
        kept = os.dup(2)
    except OSError:
        yield  # the process runs without a stderr
        return
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        os.close(null)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
