"""Tiny models written with the ``gguf`` package: whole files of a few kilobytes that llama.cpp loads and decodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np

N_BYTES = 256
Change = Callable[[gguf.GGUFWriter], None]


def byte_texts() -> list[str]:
    """The 256 single-byte tokens in GPT-2's spelling, by byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(N_BYTES) if byte not in printable]
    spelling = {byte: chr(byte) for byte in printable} | {byte: chr(N_BYTES + i) for i, byte in enumerate(others)}
    return [spelling[byte] for byte in range(N_BYTES)]


def token_texts(n_vocab: int) -> list[str]:
    """Three control tokens, newline and space, the other single bytes (ASCII first), then made-up words."""
    letters = sorted(byte_texts(), key=lambda text: (text not in "ĊĠ", not text.isascii(), text))
    words = [f"word{i}" for i in range(max(0, n_vocab - N_BYTES - 3))]
    return ["<|unk|>", "<|im_start|>", "<|im_end|>", *letters, *words][:n_vocab]


def _tokenizer(
    writer: gguf.GGUFWriter, tokens: Sequence[str], model: str, pre: str, bos: int, eos: int, add_bos: bool | None
) -> None:
    types = [gguf.TokenType.CONTROL if text.startswith("<|") else gguf.TokenType.NORMAL for text in tokens]
    writer.add_tokenizer_model(model)
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(list(tokens))
    writer.add_token_types([int(kind) for kind in types])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(bos)
    writer.add_eos_token_id(eos)
    writer.add_unk_token_id(0)
    if add_bos is not None:
        writer.add_add_bos_token(add_bos)


def write(
    path: Path,
    arch: str,
    tensors: Mapping[str, tuple[int, ...]],
    *,
    n_vocab: int = 64,
    n_layer: int = 1,
    n_embd: int = 32,
    n_head: int | None = 2,
    n_head_kv: int | Sequence[int] | None = None,
    n_ff: int = 64,
    n_ctx: int = 256,
    tokens: Sequence[str] | None = None,
    tokenizer: str = "gpt2",
    pre: str = "smollm",
    bos: int = 1,
    eos: int = 2,
    add_bos: bool | None = False,
    seed: int = 0,
    scale: float = 0.5,
    dtype: str = "F32",
    tensors_in_shard: int = 0,
    change: Change | None = None,
) -> Path:
    """One GGUF of any architecture, with random weights of the given numpy shapes (outermost dimension first).

    Norms are ones. ``change`` may add or overwrite keys just before the file is written. With ``tensors_in_shard`` the
    model is split over files named ``STEM-00001-of-0000N.gguf``, and the first of them is returned.
    """
    rng = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, arch, split_max_tensors=tensors_in_shard)
    writer.add_name(path.stem)
    writer.add_context_length(n_ctx)
    writer.add_embedding_length(n_embd)
    writer.add_block_count(n_layer)
    writer.add_feed_forward_length(n_ff)
    if n_head is not None:
        writer.add_head_count(n_head)
        writer.add_head_count_kv(n_head if n_head_kv is None else n_head_kv)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(0 if dtype == "F32" else gguf.LlamaFileType[f"MOSTLY_{dtype}"])
    _tokenizer(writer, token_texts(n_vocab) if tokens is None else tokens, tokenizer, pre, bos, eos, add_bos)
    if change is not None:
        change(writer)
    for name, shape in tensors.items():
        norm = "norm" in name
        values = np.ones(shape, np.float32) if norm else rng.normal(0, scale, shape).astype(np.float32)
        if name.endswith("ssm_a"):
            values = -np.abs(values)  # a state that decays
        if norm or len(shape) == 1 or dtype == "F32":
            writer.add_tensor(name, values)
        else:
            kind = gguf.GGMLQuantizationType[dtype]
            writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    if tensors_in_shard:
        n_shards = -(-len(tensors) // tensors_in_shard)
        return path.with_name(f"{path.stem}-00001-of-{n_shards:05d}.gguf")
    return path


def set_key(
    writer: gguf.GGUFWriter, key: str, value: object, kind: gguf.GGUFValueType = gguf.GGUFValueType.UINT32
) -> None:
    """Add a key or overwrite one; None removes it."""
    writer.kv_data[0].pop(key, None)
    if value is not None:
        writer.add_key_value(key, value, kind)


def llama_tensors(n_vocab: int, n_layer: int, n_embd: int, n_ff: int, n_kv: int) -> dict[str, tuple[int, ...]]:
    """Tensors of the ``llama`` architecture, as numpy shapes."""
    tensors: dict[str, tuple[int, ...]] = {"token_embd.weight": (n_vocab, n_embd), "output_norm.weight": (n_embd,)}
    for layer in range(n_layer):
        block = {
            "attn_norm": (n_embd,), "attn_q": (n_embd, n_embd), "attn_k": (n_kv, n_embd), "attn_v": (n_kv, n_embd),
            "attn_output": (n_embd, n_embd), "ffn_norm": (n_embd,), "ffn_gate": (n_ff, n_embd),
            "ffn_up": (n_ff, n_embd), "ffn_down": (n_embd, n_ff),
        }  # fmt: skip
        tensors |= {f"blk.{layer}.{name}.weight": shape for name, shape in block.items()}
    return tensors


def tiny_llama(
    path: Path,
    *,
    n_vocab: int = 64,
    n_layer: int = 1,
    n_embd: int = 32,
    n_head: int = 2,
    n_head_kv: int | None = None,
    n_ff: int = 64,
    **options: Any,
) -> Path:
    """A random ``llama`` model that llama.cpp loads and decodes; about 50 kB with the defaults.

    Ids 0, 1 and 2 are ``<|unk|>``, ``<|im_start|>`` (BOS) and ``<|im_end|>`` (EOS); then come single characters.
    ``options`` as for ``write``: ``tokens``, ``pre``, ``bos``, ``seed``, ``dtype``, ``change`` and so on.
    """
    n_kv = n_embd // n_head * (n_head if n_head_kv is None else n_head_kv)
    tensors = llama_tensors(n_vocab, n_layer, n_embd, n_ff, n_kv)
    sizes: dict[str, Any] = {"n_vocab": n_vocab, "n_layer": n_layer, "n_embd": n_embd, "n_ff": n_ff}
    return write(path, "llama", tensors, n_head=n_head, n_head_kv=n_head_kv, **sizes, **options)


def tiny_gemma3(path: Path, *, n_layer: int = 6, window: int = 16, n_ctx: int = 512, seed: int = 0) -> Path:
    """A ``gemma3`` model, whose layers look back over ``window`` tokens, all but each sixth."""
    n_vocab, n_embd, n_ff = 64, 32, 64
    tensors = llama_tensors(n_vocab, n_layer, n_embd, n_ff, n_embd)
    for layer in range(n_layer):
        extra = {
            "attn_q_norm": (16,), "attn_k_norm": (16,), "post_attention_norm": (n_embd,), "post_ffw_norm": (n_embd,),
        }  # fmt: skip
        tensors |= {f"blk.{layer}.{name}.weight": shape for name, shape in extra.items()}

    def change(writer: gguf.GGUFWriter) -> None:
        writer.add_sliding_window(window)
        writer.add_key_length(16)
        writer.add_value_length(16)

    return write(path, "gemma3", tensors, n_layer=n_layer, n_ctx=n_ctx, seed=seed, change=change)


def tiny_mamba(path: Path, *, n_layer: int = 1, seed: int = 0) -> Path:
    """A ``mamba`` model: a recurrent state and no attention."""
    n_vocab, n_embd, inner, state, rank, conv = 64, 32, 64, 16, 2, 4
    tensors: dict[str, tuple[int, ...]] = {"token_embd.weight": (n_vocab, n_embd), "output_norm.weight": (n_embd,)}
    for layer in range(n_layer):
        block = {
            "attn_norm.weight": (n_embd,), "ssm_in.weight": (2 * inner, n_embd), "ssm_conv1d.weight": (inner, conv),
            "ssm_conv1d.bias": (inner,), "ssm_x.weight": (rank + 2 * state, inner), "ssm_dt.weight": (inner, rank),
            "ssm_dt.bias": (inner,), "ssm_a": (inner, state), "ssm_d": (inner,), "ssm_out.weight": (n_embd, inner),
        }  # fmt: skip
        tensors |= {f"blk.{layer}.{name}": shape for name, shape in block.items()}

    def change(writer: gguf.GGUFWriter) -> None:
        writer.add_ssm_conv_kernel(conv)
        writer.add_ssm_inner_size(inner)
        writer.add_ssm_state_size(state)
        writer.add_ssm_time_step_rank(rank)

    return write(path, "mamba", tensors, n_layer=n_layer, n_head=None, n_ff=0, seed=seed, change=change)


def tiny_lfm2(path: Path, *, seed: int = 0) -> Path:
    """An ``lfm2`` model: one layer of short convolution (a recurrent state) and one of attention."""
    n_vocab, n_embd, n_ff, cache = 64, 32, 64, 3
    tensors = llama_tensors(n_vocab, 2, n_embd, n_ff, n_embd)
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        del tensors[f"blk.0.{name}.weight"]
    tensors |= {
        "blk.0.shortconv.conv.weight": (n_embd, cache), "blk.0.shortconv.in_proj.weight": (3 * n_embd, n_embd),
        "blk.0.shortconv.out_proj.weight": (n_embd, n_embd), "blk.1.attn_q_norm.weight": (16,),
        "blk.1.attn_k_norm.weight": (16,), "token_embd_norm.weight": (n_embd,),
    }  # fmt: skip
    del tensors["output_norm.weight"]

    def change(writer: gguf.GGUFWriter) -> None:
        writer.add_shortconv_l_cache(cache)

    return write(path, "lfm2", tensors, n_layer=2, n_head_kv=[0, 2], seed=seed, change=change)
