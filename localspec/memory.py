"""How much memory a model will take, from its header: weights, KV cache or recurrent state, and compute buffers.

KV cells and recurrent state follow llama.cpp's ``llama_kv_cache``, ``llama_kv_cache_iswa`` and
``llama_memory_recurrent`` and are exact for ordinary attention. The compute buffer is a model of what its graph
allocator keeps alive at the widest point, fitted to its log. Copies of weights that the CPU backend rearranges are not
counted: they replace pages of the file that the system can drop.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass

from localspec import architecture
from localspec.header import TENSOR_TYPES, Header

CELL_PADDING = 256
FLOAT = 4
CACHE_TYPES = {
    name.lower(): (block, size)
    for name, block, size in TENSOR_TYPES.values()
    if name in ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL")
}


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes."""

    weights: int
    kv: int
    """KV cache of attention layers and state of recurrent ones."""
    compute: int
    """Activations at the widest point of the graph, and the logits rows that are handed out."""
    total: int


def estimate(
    header: Header,
    n_ctx: int,
    type_k: str = "f16",
    type_v: str = "f16",
    n_ubatch: int = 512,
    *,
    n_rows: int = 33,
    flash_attn: bool = True,
    swa_full: bool = True,
    n_rs_seq: int = 0,
) -> MemoryEstimate:
    """Memory of one model with one context of one sequence.

    ``n_ctx`` in tokens, 0 for the context that the model was trained with; ``n_rows`` the logits rows of one decode;
    ``type_k`` and ``type_v`` as ``--cache-type-k`` and ``--cache-type-v``; ``swa_full`` and ``n_rs_seq`` as in
    ``pair.Rollback``.
    """
    n_ctx = _padded(n_ctx or header.n_ctx_train)
    n_ubatch = min(n_ubatch, n_ctx)
    window = _padded(min(n_ctx, (header.sliding_window or n_ctx) + n_ubatch))
    windowed_cells = n_ctx if swa_full else window
    kv = _attention(header, n_ctx, windowed_cells, type_k, type_v) + _recurrent_state(header, n_rs_seq)
    compute = _compute(header, n_ctx, windowed_cells, n_ubatch, n_rows, flash_attn)
    return MemoryEstimate(header.weight_bytes, kv, compute, header.weight_bytes + kv + compute)


def _padded(cells: int) -> int:
    return -(-cells // CELL_PADDING) * CELL_PADDING


def _row_bytes(n: int, cache_type: str) -> int:
    block, size = CACHE_TYPES[cache_type]
    return -(-n // block) * size


def _is_recurrent(header: Header) -> tuple[bool, ...]:
    """For each layer whether it keeps a recurrent state."""
    n_layer = header.n_layer
    if header.is_recurrent or header.architecture == "falcon-h1":
        return (True,) * n_layer
    if not header.is_hybrid or header.architecture == "deepseek4":
        return (False,) * n_layer
    stated = header.metadata.get(f"{header.architecture}.attention.recurrent_layers")
    if isinstance(stated, array):
        return tuple(bool(flag) for flag in header.per_layer(".attention.recurrent_layers"))
    if 0 in header.heads_kv:
        widths = header.per_layer(".feed_forward_length")
        mixer_only = header.architecture.startswith("nemotron_h")
        return tuple(
            heads == 0 and not (mixer_only and n_ff) for heads, n_ff in zip(header.heads_kv, widths, strict=True)
        )
    interval = header.integer(".full_attention_interval") or 4
    return tuple((layer + 1) % interval != 0 for layer in range(n_layer))


def _layers_with_cache(header: Header) -> int:
    """Layers from the first on that keep keys and values of their own; later ones share or only predict further."""
    if header.architecture == "gemma3n":
        return min(20, header.n_layer)
    shared = header.integer(".attention.shared_kv_layers") or 0
    return header.n_layer - shared - (header.integer(".nextn_predict_layers") or 0)


def _attention(header: Header, n_ctx: int, windowed_cells: int, type_k: str, type_v: str) -> int:
    windowed = architecture.windowed_layers(header)
    recurrent = _is_recurrent(header)
    both = header.architecture == "falcon-h1"
    compressed = header.integer(".attention.key_length_mla") is not None  # keys serve as values
    total = 0
    for layer in range(max(_layers_with_cache(header), 0)):
        if recurrent[layer] and not both:
            continue
        heads = header.heads_kv[layer]
        dim_k, dim_v = header.head_dim_k, header.head_dim_v
        if windowed[layer]:
            dim_k = header.integer(".attention.key_length_swa") or dim_k
            dim_v = header.integer(".attention.value_length_swa") or dim_v
        cells = windowed_cells if windowed[layer] else n_ctx
        total += cells * _row_bytes(heads * dim_k, type_k)
        total += 0 if compressed else cells * _row_bytes(heads * dim_v, type_v)
    return total


def _recurrent_state(header: Header, n_rs_seq: int) -> int:
    """Bytes of all states, float32, with the snapshots that a rollback needs."""
    n_embd = header.n_embd
    heads = max(header.n_head, 1)
    if wkv := header.integer(".wkv.head_size"):
        row = (header.integer(".token_shift_count") or 2) * n_embd + n_embd * wkv
    elif cache := header.integer(".shortconv.l_cache"):
        row = n_embd * (cache - 1)
    elif kda := header.integer(".kda.head_dim"):
        row = 3 * ((header.integer(".ssm.conv_kernel") or 4) - 1) * heads * kda + kda * kda * heads
    else:
        inner, state = header.integer(".ssm.inner_size") or 0, header.integer(".ssm.state_size") or 0
        kernel, groups = header.integer(".ssm.conv_kernel") or 1, header.integer(".ssm.group_count") or 0
        row = (kernel - 1) * (inner + 2 * groups * state) + state * inner
    return sum(_is_recurrent(header)) * row * FLOAT * (1 + n_rs_seq)


def _compute(header: Header, n_ctx: int, windowed_cells: int, n_ubatch: int, n_rows: int, flash_attn: bool) -> int:
    """The larger of the two widest points of the graph: a feed-forward layer over a micro-batch, and the logits.

    Feed-forward keeps gate, up and their product (3 x n_ff) and four rows of n_embd for each token; attention without
    flash attention keeps the scores of all heads. The mask lives through all of it, in half precision for flash
    attention.
    """
    experts = max(header.per_layer(".expert_used_count"), default=0)
    n_ff = max(
        max(header.per_layer(".feed_forward_length"), default=0),
        max(header.per_layer(".expert_feed_forward_length"), default=0) * experts,
        header.integer(".ssm.inner_size") or 0,
    )
    cells = 0 if header.is_recurrent else n_ctx + (windowed_cells if header.sliding_window is not None else 0)
    mask = cells * n_ubatch * (2 if flash_attn else FLOAT)
    logits = n_rows * header.n_vocab * FLOAT
    feed_forward = n_ubatch * (3 * n_ff + 4 * header.n_embd) * FLOAT
    scores = 0 if flash_attn else n_ubatch * n_ctx * header.n_head * FLOAT
    return max(feed_forward, scores, logits) + mask + logits
