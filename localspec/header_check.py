"""Whether a GGUF's values make a model that llama.cpp can load: what it would abort on is refused here in words.

The bounds are those of ``llama_model_base::load_hparams`` and ``llama_vocab::impl::load``, where a failed GGML_ASSERT
ends the whole process.
"""

from __future__ import annotations

from array import array

from localspec import architecture
from localspec.errors import GGUFError
from localspec.header import ARRAY_OF, BOOL, FLOAT32, INT32, UINT32, Header, StringArray, quoted

MAX_LAYERS = 512
MAX_EXPERTS = 1024
MAX_VALUE = 1 << 31
ROPE_SCALINGS = ("none", "linear", "yarn", "longrope")
TOKENIZERS = frozenset({"llama", "bert", "gpt2", "hybriddna", "whitespace", "t5", "rwkv", "plamo2", "gemma4"})
ADAPTER_KINDS = {"adapter": "a LoRA adapter", "mmproj": "a multimodal projector", "imatrix": "an importance matrix"}


def check(header: Header) -> None:
    """Raise GGUFError for the first thing that cannot be right."""
    if header.integer("split.no"):
        return  # only the first file of a split model describes it
    _check_kind(header)
    _check_hyperparameters(header)
    _check_experts(header)
    _check_tokenizer(header)


def _refuse(header: Header, what: str) -> GGUFError:
    return GGUFError(f"{header.source} cannot be used: {what}.")


def _check_kind(header: Header) -> None:
    arch = header.architecture
    kind = ADAPTER_KINDS.get(header.text("general.type") or "")
    if kind is not None or arch == "clip":
        raise _refuse(header, f"it holds {kind or 'a multimodal projector'}, not a language model")
    if not arch:
        raise _refuse(header, "it does not state 'general.architecture'")
    if not (arch.isascii() and arch.isprintable() and len(arch) <= 64):
        raise _refuse(header, f"its architecture is {quoted(arch)}")
    if header.types.get("general.file_type", UINT32) != UINT32:
        raise _refuse(header, "'general.file_type' is not a 32-bit unsigned number")
    if not header.tensors and header.split_count == 1:
        raise _refuse(header, "it holds no weights")


def _scalar(header: Header, key: str, low: int, high: int, default: int | None = None) -> int:
    """An unsigned 32-bit value that llama.cpp reads, within bounds; required unless there is a default."""
    full = f"{header.architecture}.{key}"
    if full not in header.metadata:
        if default is None:
            raise _refuse(header, f"it does not state '{full}'")
        return default
    value = header.integer(full)
    if header.types[full] != UINT32 or value is None:
        raise _refuse(header, f"'{full}' is not a 32-bit unsigned number")
    if not low <= value <= high:
        raise _refuse(header, f"'{full}' is {value}, outside {low} to {high}")
    return value


def _layers(header: Header, key: str, high: int) -> tuple[int, ...]:
    """A value for each layer, which the file may state once for all; zeros where it is absent."""
    full = f"{header.architecture}.{key}"
    value = header.metadata.get(full, 0)
    if isinstance(value, array) and len(value) != header.n_layer:
        raise _refuse(header, f"'{full}' has {len(value)} values for {header.n_layer} layers")
    if header.types.get(full, UINT32) not in (UINT32, ARRAY_OF + UINT32, ARRAY_OF + INT32):
        raise _refuse(header, f"'{full}' is not a 32-bit number")
    values = header.per_layer("." + key)
    if not all(0 <= item <= high for item in values):
        raise _refuse(header, f"'{full}' holds a value outside 0 to {high}")
    return values


def _check_hyperparameters(header: Header) -> None:
    arch = header.architecture
    n_layer = _scalar(header, "block_count", 1, MAX_LAYERS)
    _scalar(header, "nextn_predict_layers", 0, n_layer, default=0)
    _scalar(header, "context_length", 1, MAX_VALUE)
    n_embd = _scalar(header, "embedding_length", 1, MAX_VALUE)
    heads = _layers(header, "attention.head_count", MAX_VALUE)
    heads_kv = _layers(header, "attention.head_count_kv", MAX_VALUE)
    _layers(header, "feed_forward_length", MAX_VALUE)
    if not any(heads) and not header.is_recurrent:
        raise _refuse(header, f"'{arch}.attention.head_count' is missing or 0")
    for n_head, n_head_kv in zip(heads, heads_kv, strict=True):
        if n_head and n_head_kv and n_head % n_head_kv:
            raise _refuse(header, f"{n_head} attention heads cannot share {n_head_kv} key/value heads")
    stated = header.integer(".attention.key_length") is not None
    if not stated and any(n_head and n_embd % n_head for n_head in heads):
        raise _refuse(header, f"its embedding length {n_embd} cannot be divided among {max(heads)} attention heads")
    for key in ("attention.key_length", "attention.value_length"):
        _scalar(header, key, 0 if not any(heads) else 1, 1 << 16, default=1)
    _scalar(header, "rope.dimension_count", 0, 1 << 16, default=0)
    if arch in architecture.WINDOWS:
        _scalar(header, "attention.sliding_window", 0, 1 << 30, default=0)
    for key in ("attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"):
        epsilon = header.metadata.get(f"{arch}.{key}", 0.0)
        if not isinstance(epsilon, float) or not 0 <= epsilon < 1:
            raise _refuse(header, f"'{arch}.{key}' is {epsilon!r}, not a small positive number")
    scaling = header.metadata.get(f"{arch}.rope.scaling.type", "linear")
    if scaling not in ROPE_SCALINGS:
        raise _refuse(header, f"'{arch}.rope.scaling.type' is {quoted(str(scaling))}, not one of {ROPE_SCALINGS}")


def _check_experts(header: Header) -> None:
    n_expert = _scalar(header, "expert_count", 0, MAX_EXPERTS, default=0)
    used = max(_layers(header, "expert_used_count", MAX_VALUE), default=0)
    _layers(header, "expert_feed_forward_length", MAX_VALUE)
    groups = _scalar(header, "expert_group_count", 0, MAX_VALUE, default=0)
    groups_used = _scalar(header, "expert_group_used_count", 0, MAX_VALUE, default=0)
    if header.architecture in ("hunyuan_vl", "hunyuan-dense") and n_expert <= 1:
        return  # llama.cpp reads these as dense
    if used > n_expert or (n_expert and not used):
        raise _refuse(header, f"it uses {used} of {n_expert} experts")
    if groups and not n_expert:
        raise _refuse(header, f"it has {groups} groups of experts but no experts")
    if groups > 1 and (groups >= n_expert or n_expert % groups or not 0 < groups_used < groups):
        raise _refuse(header, f"it uses {groups_used} of {groups} groups of {n_expert} experts")


def _check_tokenizer(header: Header) -> None:
    model = header.tokenizer
    if model is None or model in ("no_vocab", "none"):
        raise _refuse(header, "it holds no tokenizer")
    if model not in TOKENIZERS:
        raise _refuse(header, f"its tokenizer {quoted(model)} is not known")
    tokens = header.metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, StringArray) or not len(tokens):
        raise _refuse(header, "its tokenizer has no token list")
    texts = set(tokens.raws())
    # llama.cpp gives every empty token a text of its own.
    empty = sum(1 for text in tokens.raws() if not text) - 1 if b"" in texts else 0
    if len(texts) + empty != len(tokens):
        raise _refuse(header, "its tokenizer lists the same token twice")
    for key, kinds in (("tokenizer.ggml.scores", (INT32, FLOAT32)), ("tokenizer.ggml.token_type", (INT32,))):
        value = header.metadata.get(key)
        if value is None:
            continue
        if not isinstance(value, array) or header.types[key] - ARRAY_OF not in kinds or len(value) < len(tokens):
            raise _refuse(header, f"'{key}' does not give a number to each of {len(tokens)} tokens")
    merges = header.metadata.get("tokenizer.ggml.merges")
    needs_merges = model in ("gpt2", "gemma4") and header.pre_tokenizer != "kimi-k2"
    if needs_merges and not isinstance(merges, StringArray):
        raise _refuse(header, "its byte-pair tokenizer has no merges")
    for key, kind in header.types.items():
        if not key.startswith("tokenizer.ggml."):
            continue
        expected = UINT32 if key.endswith("_token_id") else BOOL if key.startswith("tokenizer.ggml.add_") else kind
        if kind != expected:
            raise _refuse(header, f"{quoted(key)} has the wrong type")
