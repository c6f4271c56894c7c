"""Opening a pair: everything is checked before anything is loaded, and measured before it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from localspec import catalog, llama, memory, paths, threads
from localspec.config import Settings
from localspec.costs import measure
from localspec.errors import ConfigError, PairError
from localspec.gguf import read_header
from localspec.header import Header
from localspec.learned import Learned, fingerprint, folder, key
from localspec.native_log import NATIVE_LOG
from localspec.pair import Rollback, require_pair, rollback
from localspec.placement import Demand, Placement, place
from localspec.probe import probe
from localspec.verdict import title


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """How far a model is loaded."""

    model: str
    """"target" or "draft", or "costs" while passes are timed."""
    name: str
    fraction: float
    """0 to 1."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two models in memory, ready to be used, and what is known of them."""

    target: llama.Context
    draft: llama.Context | None
    learned: Learned
    placement: str
    """Where their layers are, in a sentence."""

    def close(self) -> None:
        """Free both models."""
        for context in (self.draft, self.target):
            if context is not None:
                context.close()
                context.model.close()


def open_pair(
    settings: Settings, target: Path, draft: Path | None, progress: Callable[[LoadProgress], None] | None = None
) -> Pair:
    """Check and load a pair. Nothing is loaded unless both headers are sound and fit each other.

    Raises GGUFError, PairError, ModelError or ConfigError, each with the reason in one sentence.
    """
    NATIVE_LOG.keep_in(paths.log_file(), verbose=settings.verbose)
    headers = {"target": read_header(target)}
    if draft is not None:
        headers["draft"] = read_header(draft)
    back = _require_fit(headers)
    devices = llama.devices()
    demands = _demands(settings, headers)
    _require_memory(settings.ctx_size or headers["target"].n_ctx_train, demands, devices)
    placed = place(demands["target"], demands.get("draft"), devices)
    opened: list[llama.Model | llama.Context] = []
    try:
        contexts: list[llama.Context] = []
        for role, path in (("target", target), ("draft", draft)):
            if path is None:
                continue
            probe(path)
            options = _model_options(settings, role, placed)
            opened.append(model := llama.Model(path, options, progress=_reporter(role, path, progress)))
            n_ctx = contexts[0].n_ctx if contexts else settings.ctx_size
            contexts.append(llama.Context(model, _context_options(settings, role, n_ctx, back)))
            opened.append(contexts[-1])
        small = contexts[1] if len(contexts) > 1 else None
        learned = _learned(settings, contexts[0], small, devices)
        _use_best_threads(settings, contexts, learned)
        if learned.curve is None and _wants_costs(settings, contexts[0]):
            learned.curve = measure(contexts[0], small, progress=_reporter("costs", target, progress))
        return Pair(contexts[0], small, learned, placed.sentence)
    except BaseException:
        for item in reversed(opened):
            item.close()
        raise


def _require_fit(headers: Mapping[str, Header]) -> Rollback:
    """Refuse by name what could not be decoded speculatively without wrong text, and pairs that do not fit."""
    target, draft = headers["target"], headers.get("draft")
    back = rollback(target)
    if back.kind == "none" or (draft is not None and not back.supported):
        hint = "" if back.kind == "none" else " Use it without a draft: `--draft none`."
        raise PairError(f"{back.reason}{hint}")
    if draft is not None and rollback(draft).kind in ("recurrent", "hybrid"):
        # It drafts token by token, and a recurrent state can only go back within its last decode.
        raise PairError("A recurrent or hybrid model cannot be the draft, because its state cannot take tokens back.")
    if draft is not None:
        require_pair(target, draft, suggestion=catalog.suggested_draft(target))
    return back


def _demands(settings: Settings, headers: Mapping[str, Header]) -> dict[str, Demand]:
    """What each model needs, by its role."""
    n_ctx = settings.ctx_size or headers["target"].n_ctx_train
    asked = {"target": settings.n_gpu_layers, "draft": settings.n_gpu_layers_draft}
    return {
        role: Demand(
            header, memory.estimate(header, n_ctx, *_cache_types(settings, role), settings.ubatch_size), asked[role]
        )
        for role, header in headers.items()
    }


def _require_memory(n_ctx: int, demands: Mapping[str, Demand], devices: Sequence[llama.Device]) -> None:
    """Refuse contexts that cannot be allocated: Linux grants the memory and kills the process when it is used."""
    available = psutil.virtual_memory().available
    free_vram = sum(device.free_bytes for device in devices if device.kind == "gpu")
    needed = sum(demand.memory.kv for demand in demands.values())
    if needed > available + free_vram:
        raise ConfigError(
            f"The KV cache for `--ctx-size {n_ctx}` needs {needed / 2**30:.1f} GiB but only "
            f"{available / 2**30:.1f} GiB are free; lower `--ctx-size` or use `-ctk q8_0 -ctv q8_0`."
        )


def _cache_types(settings: Settings, role: str) -> tuple[llama.KVType, llama.KVType]:
    if role == "draft":
        return settings.cache_type_k_draft, settings.cache_type_v_draft
    return settings.cache_type_k, settings.cache_type_v


def _model_options(settings: Settings, role: str, placed: Placement) -> llama.ModelOptions:
    layers = placed.draft_layers if role == "draft" else placed.target_layers
    return llama.ModelOptions(n_gpu_layers=layers, mmap=settings.mmap, mlock=settings.mlock, repack=settings.repack)


def _context_options(settings: Settings, role: str, n_ctx: int, back: Rollback) -> llama.ContextOptions:
    type_k, type_v = _cache_types(settings, role)
    n_threads = settings.threads or threads.usual()
    return llama.ContextOptions(
        n_ctx=n_ctx,
        n_batch=settings.batch_size,
        n_ubatch=min(settings.ubatch_size, settings.batch_size),
        n_threads=n_threads,
        n_threads_batch=settings.threads_batch or n_threads,
        type_k=type_k,
        type_v=type_v,
        flash_attn=settings.flash_attn,
        n_rs_seq=max(settings.most_drafted(8), 8) if role == "target" and back.needs_rs_seq else 0,
    )


def _learned(
    settings: Settings, target: llama.Context, draft: llama.Context | None, devices: Sequence[llama.Device]
) -> Learned:
    """What is known of this pair, on these devices, with the settings that change what passes cost."""
    models = [context.model.path for context in (target, draft) if context is not None]
    name = key(
        models=[fingerprint(path) for path in models],
        build=llama.build_info(),
        devices=[f"{device.name} {device.description}" for device in devices],
        threads=[settings.threads, settings.threads_batch],
        layers=[settings.n_gpu_layers, settings.n_gpu_layers_draft],
        cache=[_cache_types(settings, role) for role in ("target", "draft")],
        context=target.n_ctx.bit_length(),
        flash_attn=settings.flash_attn,
        repack=settings.repack,
    )
    return Learned(folder() / f"{name}.json", title(*models))


def _use_best_threads(settings: Settings, contexts: Sequence[llama.Context], learned: Learned) -> None:
    """With ``threads: 0`` as many as decode fastest, measured once for a pair on a machine."""
    target = contexts[0]
    if settings.threads or target.model.is_stateful:
        return
    learned.threads = learned.threads or threads.choose(target)
    for context in contexts:
        context.set_threads(learned.threads, settings.threads_batch or threads.usual())


def _wants_costs(settings: Settings, target: llama.Context) -> bool:
    """A recurrent state cannot be put back after a pass that is only timed."""
    return settings.adaptive and not target.model.is_stateful


def _reporter(role: str, path: Path, progress: Callable[[LoadProgress], None] | None) -> Callable[[float], None] | None:
    if progress is None:
        return None
    return lambda fraction: progress(LoadProgress(role, path.stem, fraction))
