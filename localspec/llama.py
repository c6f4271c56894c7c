"""The binding to llama.cpp, with ``localspec.ggml`` the only module that touches a raw pointer.

It wraps the C API of llama-cpp-python (``llama_cpp.llama_*``) in three objects, ``Model``, ``Vocab`` and ``Context``,
plus the build's properties and requantizing. A ``Context`` holds one sequence at positions 0, 1, 2, ...; that
is all that decoding at batch size 1 needs.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import llama_cpp.llama_cpp as C
import numpy as np
from numpy.typing import NDArray

from localspec import ggml
from localspec.errors import ModelError
from localspec.ggml import Device, devices
from localspec.native_log import NATIVE_LOG, NativeLog

Logits = NDArray[np.float32]
KVType = Literal["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl"]
FlashAttention = Literal["auto", "on", "off"]

KV_TYPES: dict[str, int] = {
    "f32": C.GGML_TYPE_F32,
    "f16": C.GGML_TYPE_F16,
    "bf16": 30,  # GGML_TYPE_BF16, which llama-cpp-python does not name
    "q8_0": C.GGML_TYPE_Q8_0,
    "q4_0": C.GGML_TYPE_Q4_0,
    "q4_1": C.GGML_TYPE_Q4_1,
    "q5_0": C.GGML_TYPE_Q5_0,
    "q5_1": C.GGML_TYPE_Q5_1,
    "iq4_nl": C.GGML_TYPE_IQ4_NL,
}
FLASH_ATTENTION: dict[str, int] = {"auto": -1, "off": 0, "on": 1}


@C.llama_log_callback  # type: ignore[untyped-decorator]
def _on_native_log(level: int, text: bytes, _user_data: object) -> None:
    NATIVE_LOG.write(level, text)


# llama_cpp's own import installs a callback that prints to stderr; replacing it here, at import, silences it for good.
C.llama_log_set(_on_native_log, ctypes.c_void_p(0))
C.llama_backend_init()
ggml.decline_amx()

__all__ = [
    "Context",
    "ContextOptions",
    "Device",
    "Model",
    "ModelOptions",
    "Vocab",
    "build_info",
    "devices",
    "opened",
    "quantize",
]


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """How weights are loaded; llama.cpp's ``llama_model_params``."""

    n_gpu_layers: int = -1
    """Layers kept in VRAM; negative is all of them. Without a GPU it has no effect."""
    mmap: bool = True
    mlock: bool = False
    repack: bool = True
    """Let the CPU backend rearrange weights for speed. Without it K-quants give the same logits at widths 1 to 7."""


@dataclass(frozen=True, slots=True)
class ContextOptions:
    """How a context is made; llama.cpp's ``llama_context_params``."""

    n_ctx: int = 4096
    """Positions in the KV cache; 0 takes the context that the model was trained with."""
    n_batch: int = 2048
    n_ubatch: int = 512
    n_threads: int = 1
    n_threads_batch: int = 1
    type_k: KVType = "f16"
    type_v: KVType = "f16"
    flash_attn: FlashAttention = "auto"
    swa_full: bool = True
    """Keep the whole cache of sliding-window layers, without which rejected tokens cannot be removed."""
    n_rs_seq: int = 0
    """Snapshots of a recurrent state, which bound how many tokens can be removed from its end."""
    n_rows_max: int = 33
    """The most logits rows that one decode may ask for: K + 1."""


class Vocab:
    """Tokenizer and detokenizer of a model."""

    def __init__(self, model_pointer: int) -> None:
        self._pointer: Any = C.llama_model_get_vocab(model_pointer)
        self._pieces: dict[tuple[int, bool], bytes] = {}
        self.n_tokens = int(C.llama_vocab_n_tokens(self._pointer))
        self.bos = int(C.llama_vocab_bos(self._pointer))
        self.eos = int(C.llama_vocab_eos(self._pointer))
        self.add_bos = bool(C.llama_vocab_get_add_bos(self._pointer))

    def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """Token ids of ``text``. ``add_special`` adds BOS where the model wants it; ``parse_special`` reads control
        tokens that are written out in the text."""
        raw = text.encode("utf-8", errors="surrogatepass")
        capacity = len(raw) + 8
        ids = (C.llama_token * capacity)()
        n = C.llama_tokenize(self._pointer, raw, len(raw), ids, capacity, add_special, parse_special)
        if n < 0:
            ids = (C.llama_token * -n)()
            n = C.llama_tokenize(self._pointer, raw, len(raw), ids, -n, add_special, parse_special)
        if n < 0:
            raise ModelError(f"The text of {len(raw)} bytes could not be tokenized; shorten it.")
        return list(ids[:n])

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """Bytes of one token, which may be a part of a UTF-8 character. Control tokens are empty unless ``special``."""
        key = (token, special)
        cached = self._pieces.get(key)
        if cached is None:
            cached = self._pieces[key] = self._piece(token, special)
        return cached

    def _piece(self, token: int, special: bool) -> bytes:
        size = 32
        while True:
            buffer = ctypes.create_string_buffer(size)
            n = C.llama_token_to_piece(self._pointer, token, buffer, size, 0, special)
            if n >= 0:
                return buffer.raw[:n]
            size = -n

    def is_eog(self, token: int) -> bool:
        return bool(C.llama_vocab_is_eog(self._pointer, token))

    @cached_property
    def eog(self) -> frozenset[int]:
        """Every token that ends a generation."""
        return frozenset(token for token in range(self.n_tokens) if self.is_eog(token))


class Model:
    """A loaded GGUF. Free it with ``close`` or a ``with`` block, after the contexts made from it."""

    def __init__(
        self,
        path: Path,
        options: ModelOptions | None = None,
        *,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        """Load ``path``; ``progress`` is called with the fraction loaded, 0 to 1.

        Raises ModelError with the reason when the file cannot be loaded. What ``progress`` raises stops the load and
        is raised again.
        """
        self.path = path
        self._pointer: Any = None
        if not path.is_file():
            raise ModelError(f"There is no file {path}; check the path or fetch a model with `localspec pull`.")
        params, stopped = _model_params(options or ModelOptions(), progress)
        with NATIVE_LOG.watch() as log:
            pointer = C.llama_model_load_from_file(os.fsencode(path), params)
        if stopped:
            if pointer:
                C.llama_model_free(pointer)
            raise stopped[0]
        if not pointer:
            raise ModelError(_why_load_failed(path, log))
        self._pointer = pointer
        self.buffer_bytes = log.buffer_bytes()
        self.vocab = Vocab(pointer)

    @property
    def description(self) -> str:
        return _string(lambda buffer, size: C.llama_model_desc(self._pointer, buffer, size)) or ""

    @property
    def size_bytes(self) -> int:
        return int(C.llama_model_size(self._pointer))

    @property
    def n_params(self) -> int:
        return int(C.llama_model_n_params(self._pointer))

    @property
    def n_ctx_train(self) -> int:
        return int(C.llama_model_n_ctx_train(self._pointer))

    @property
    def is_recurrent(self) -> bool:
        return bool(C.llama_model_is_recurrent(self._pointer))

    @property
    def is_hybrid(self) -> bool:
        return bool(C.llama_model_is_hybrid(self._pointer))

    @property
    def is_stateful(self) -> bool:
        """Whether it keeps a recurrent state, which cannot be put back at will."""
        return self.is_recurrent or self.is_hybrid

    @property
    def chat_template(self) -> str | None:
        raw = C.llama_model_chat_template(self._pointer, None)
        return raw.decode("utf-8", errors="replace") if raw else None

    def metadata(self, key: str) -> str | None:
        """A GGUF metadata value as llama.cpp prints it, or None. Arrays have no value here; read the header instead."""
        name = key.encode()
        return _string(lambda buffer, size: C.llama_model_meta_val_str(self._pointer, name, buffer, size))

    def close(self) -> None:
        if self._pointer:
            C.llama_model_free(self._pointer)
            self._pointer = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Context:
    """The KV cache and logits of one sequence of a model."""

    def __init__(self, model: Model, options: ContextOptions | None = None) -> None:
        """Raises ModelError when the KV cache or the compute buffers do not fit in memory."""
        options = options or ContextOptions()
        params = _context_params(options)
        with NATIVE_LOG.watch() as log:
            pointer: Any = C.llama_init_from_model(model._pointer, params)
        if not pointer:
            raise ModelError(_why_context_failed(model.path, options, log))
        self._pointer = pointer
        self._memory: Any = C.llama_get_memory(pointer)
        self.model = model
        self.n_vocab = model.vocab.n_tokens
        self.n_ctx = int(C.llama_n_ctx(pointer))
        self.n_batch = int(C.llama_n_batch(pointer))
        self.n_rs_seq = int(C.llama_n_rs_seq(pointer))
        self.n_past = 0
        # A recurrent state can go back only within the last decode, and llama.cpp does not notice when asked for more.
        self._stateful = model.is_stateful
        self._removable = 0
        self.buffer_bytes = log.buffer_bytes()
        self._batch = _Batch(self.n_batch)

    def decode(self, tokens: Sequence[int], n_rows: int = 1) -> Logits:
        """Evaluate ``tokens`` after the ``n_past`` tokens in the cache.

        Returns float32 ``[n_rows, n_vocab]``: the logits after each of the last ``n_rows`` tokens. It is a view of
        llama.cpp's own buffer, valid until the next ``decode``. At most ``n_batch`` tokens; raises ModelError when
        the cache is full or the backend fails; the cache is then as before the call or, for a recurrent model, empty.
        """
        n = len(tokens)
        batch = self._batch.fill(tokens, self.n_past, n_rows)
        status = C.llama_decode(self._pointer, batch)
        if status != 0:
            self._restore()
            raise ModelError(self._why_decode_failed(status, n))
        self.n_past += n
        self._removable = n - 1
        if n_rows == 0:
            C.llama_synchronize(self._pointer)
            return np.empty((0, self.n_vocab), np.float32)
        address = ctypes.cast(C.llama_get_logits(self._pointer), ctypes.c_void_p).value
        if address is None:
            raise ModelError(f"{self.model.path.name} returned no logits; the llama.cpp build may not support it.")
        rows = (ctypes.c_float * (n_rows * self.n_vocab)).from_address(address)
        return np.ctypeslib.as_array(rows).reshape(n_rows, self.n_vocab)

    def rewind(self, n: int) -> int:
        """Keep the first ``n`` tokens in the cache and drop the rest. Returns how many were kept: ``n``, or 0 when the
        cache cannot be rolled back that far and had to be cleared."""
        if n < self.n_past:
            possible = n > 0 and (not self._stateful or self.n_past - n <= min(self._removable, self.n_rs_seq))
            self._removable = 0
            if possible and C.llama_memory_seq_rm(self._memory, 0, n, -1):
                self.n_past = n
            else:
                self._clear()
        return min(n, self.n_past)

    def set_threads(self, n: int, n_batch: int | None = None) -> None:
        """Use ``n`` threads from the next pass on, and ``n_batch`` for passes over many tokens, or as many."""
        C.llama_set_n_threads(self._pointer, n, n if n_batch is None else n_batch)

    def close(self) -> None:
        if self._pointer:
            C.llama_free(self._pointer)
            self._pointer = None
            self._batch.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()

    def _restore(self) -> None:
        # After a fatal error the micro-batches already processed stay in the cache (llama.h, llama_decode).
        if self._stateful or not C.llama_memory_seq_rm(self._memory, 0, self.n_past, -1):
            self._clear()

    def _clear(self) -> None:
        C.llama_memory_clear(self._memory, True)
        self.n_past = 0

    def _why_decode_failed(self, status: int, n: int) -> str:
        name = self.model.path.name
        if status == 1:
            return (
                f"The context of {self.n_ctx} tokens is full ({self.n_past} used, {n} more needed); raise `--ctx-size`."
            )
        return f"llama.cpp failed while evaluating {name} (code {status}); run with `--verbose` to see its log."


class _Batch:
    """A ``llama_batch`` that is allocated once and written through numpy views."""

    def __init__(self, capacity: int) -> None:
        self._struct: Any = C.llama_batch_init(capacity, 0, 1)
        self._token = np.ctypeslib.as_array(self._struct.token, (capacity,))
        self._pos = np.ctypeslib.as_array(self._struct.pos, (capacity,))
        self._logits = np.ctypeslib.as_array(self._struct.logits, (capacity,))
        self._capacity = capacity
        for i in range(capacity):
            self._struct.n_seq_id[i] = 1
            self._struct.seq_id[i][0] = 0

    def fill(self, tokens: Sequence[int], first_position: int, n_rows: int) -> Any:
        n = len(tokens)
        if not 0 < n <= self._capacity or not 0 <= n_rows <= n:
            raise ValueError(f"a batch holds 1 to {self._capacity} tokens with at most as many rows, not {n}, {n_rows}")
        self._struct.n_tokens = n
        self._token[:n] = tokens
        self._pos[:n] = np.arange(first_position, first_position + n)
        self._logits[:n] = 0
        self._logits[n - n_rows : n] = 1
        return self._struct

    def close(self) -> None:
        C.llama_batch_free(self._struct)


def build_info() -> dict[str, str]:
    """llama.cpp's version and the CPU features and back ends it was built with."""
    import llama_cpp

    return {
        "llama_cpp_python": str(llama_cpp.__version__),
        "llama_cpp": C.llama_version().decode(),
        "system": C.llama_print_system_info().decode().strip(),
        "gpu_offload": "yes" if C.llama_supports_gpu_offload() else "no",
    }


def quantize(
    source: Path, destination: Path, ftype: str, *, prune_layers: Sequence[int] = (), threads: int = 0
) -> None:
    """Write ``source`` again as ``ftype`` (llama.cpp's name, such as Q8_0, Q2_K or BF16), without the layers named.

    Raises ModelError when llama.cpp refuses. The destination appears only when it is whole.
    """
    params = C.llama_model_quantize_default_params()
    number = getattr(C, f"LLAMA_FTYPE_MOSTLY_{ftype}", None)
    if number is None:
        raise ModelError(f"llama.cpp has no quantization called {ftype!r}; Q4_K_M, Q8_0 and BF16 are examples.")
    params.ftype, params.nthread, params.allow_requantize = number, threads, True
    layers = (ctypes.c_int32 * (len(prune_layers) + 1))(*prune_layers, -1)
    if prune_layers:
        params.prune_layers = ctypes.cast(layers, ctypes.POINTER(ctypes.c_int32))
    partial = destination.with_name(f"{destination.name}.{os.getpid()}.partial")
    try:
        with NATIVE_LOG.watch() as log:
            status = C.llama_model_quantize(os.fsencode(source), os.fsencode(partial), ctypes.byref(params))
        if status != 0:
            raise ModelError(f"{source.name} could not be written as {ftype}: {log.last_error() or 'no reason given'}.")
        partial.replace(destination)
    finally:
        partial.unlink(missing_ok=True)


def _model_params(options: ModelOptions, progress: Callable[[float], None] | None) -> tuple[Any, list[BaseException]]:
    params = C.llama_model_default_params()
    params.n_gpu_layers = options.n_gpu_layers
    params.load_mode = (1 if options.mmap else 0) | (2 if options.mlock else 0)
    params.use_extra_bufts = options.repack
    stopped: list[BaseException] = []

    def on_progress(fraction: float, _user_data: object) -> bool:
        # An exception cannot cross llama.cpp's frames: keep it, stop the load, and raise it on the other side.
        try:
            if progress is not None:
                progress(fraction)
        except BaseException as error:
            stopped.append(error)
            return False
        return True

    params.progress_callback = C.llama_progress_callback(on_progress)
    return params, stopped


def _context_params(options: ContextOptions) -> Any:
    params = C.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = options.n_ctx, options.n_batch, options.n_ubatch
    params.n_threads, params.n_threads_batch = options.n_threads, options.n_threads_batch
    params.type_k, params.type_v = KV_TYPES[options.type_k], KV_TYPES[options.type_v]
    params.flash_attn_type = FLASH_ATTENTION[options.flash_attn]
    params.swa_full, params.n_rs_seq = options.swa_full, options.n_rs_seq
    params.n_outputs_max, params.n_outputs_max_per_seq = options.n_rows_max, 0
    return params


def _why_load_failed(path: Path, log: NativeLog) -> str:
    if architecture := log.search(r"unknown model architecture: '([^']*)'"):
        return f"{path.name} has the architecture {architecture!r}, which this llama.cpp does not support; update it."
    if log.out_of_memory():
        return f"There is not enough memory to load {path.name}; lower `-ngl` or choose a smaller model."
    if log.search(r"(not within the file bounds|corrupted or incomplete|failed to read)"):
        return f"{path.name} is cut off or damaged; remove it and fetch it again."
    if log.search(r"(invalid magic|failed to read magic)"):
        return f"{path.name} is not a GGUF file."
    return f"{path.name} could not be loaded: {log.last_error() or 'llama.cpp gave no reason'}."


def _why_context_failed(path: Path, options: ContextOptions, log: NativeLog) -> str:
    if log.out_of_memory():
        return f"There is not enough memory for a context of {options.n_ctx} tokens of {path.name}; lower `--ctx-size`."
    return f"No context could be made for {path.name}: {log.last_error() or 'llama.cpp gave no reason'}."


def _string(call: Callable[[Any, int], int]) -> str | None:
    size = 256
    while True:
        buffer = ctypes.create_string_buffer(size)
        n = call(buffer, size)
        if n < 0:
            return None
        if n < size:
            return buffer.value.decode("utf-8", errors="replace")
        size = n + 1


@contextmanager
def opened(path: Path, model: ModelOptions | None = None, context: ContextOptions | None = None) -> Iterator[Context]:
    """A model and one context of it, both freed at the end of the block."""
    with Model(path, model) as loaded, Context(loaded, context) as ready:
        yield ready
