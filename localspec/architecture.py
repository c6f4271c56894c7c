"""What llama.cpp knows of each architecture and a header does not say: how its cache works and what it is made for.

The names are those of ``LLM_ARCH_NAMES`` in llama.cpp's ``llama-arch.cpp``; the sets repeat its functions
``llm_arch_is_recurrent``, ``llm_arch_is_hybrid``, ``llm_arch_is_diffusion`` and ``llm_arch_supports_rs_rollback``.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from localspec.header import Header

RECURRENT = frozenset({"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})

HYBRID = frozenset({
    "jamba", "falcon-h1", "plamo2", "granitehybrid", "lfm2", "lfm2moe", "nemotron_h", "nemotron_h_moe", "qwen3next",
    "kimi-linear", "bailingmoe3", "kimi-k3", "glm5-next", "qwen35", "qwen35moe", "qwen4exp", "deepseek4", "minimax-01",
})  # fmt: skip

RS_ROLLBACK = frozenset({
    "kimi-k3", "qwen35", "qwen35moe", "qwen4exp", "deepseek4", "glm5-next", "nemotron_h", "nemotron_h_moe", "lfm2",
    "lfm2moe", "bailingmoe3",
})  # fmt: skip

# What a model is that cannot write text token by token on its own, for the message that refuses it.
UNFIT = {
    **dict.fromkeys(("clip",), "a multimodal projector"),
    **dict.fromkeys(
        (
            "bert", "modern-bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "jina-bert-v2", "jina-bert-v3",
            "eurobert", "gemma-embedding", "llama-embed",
        ),
        "an embedding model",
    ),
    "t5": "an encoder-decoder model",
    "t5encoder": "an encoder",
    **dict.fromkeys(("dream", "llada", "llada-moe", "rnd1"), "a diffusion model"),
    **dict.fromkeys(("wavtokenizer-dec", "qwen3tts", "pockettts"), "a speech model"),
    **dict.fromkeys(("eagle3", "dflash", "gemma4-assistant"), "a draft head that only runs inside its target"),
}  # fmt: skip


class Window(NamedTuple):
    """How llama.cpp reads a sliding window.

    ``period``: one layer in that many looks at everything, 0 for a pattern that the file must hold; the full layer is
    the last of each period, or the first with ``full_first``. ``default`` is the window where the file states none, -1
    for no window then. ``fixed`` overrides a window that the file states.
    """

    period: int
    default: int = -1
    full_first: bool = False
    fixed: int | None = None


# From each model's ``load_arch_hparams``. Architectures that are not here ignore a window that the file states
# (phi3 for one, where llama.cpp switches it off).
WINDOWS = {
    "afmoe": Window(4), "cohere2": Window(4), "cohere2moe": Window(4, full_first=True), "deepseek4": Window(0),
    "dots3note": Window(0), "exaone-moe": Window(4), "exaone4": Window(4), "gemma2": Window(2, 4096),
    "gemma3": Window(6), "gemma3n": Window(5), "gemma4": Window(0), "granite_swa": Window(0),
    "laguna": Window(4, full_first=True), "lfm2": Window(0), "llama4": Window(4, 8192, fixed=8192),
    "maple": Window(0), "mellum": Window(4), "mimo2": Window(0), "muse-glimmer": Window(4), "olmo2": Window(4),
    "gpt-oss": Window(2), "plamo3": Window(8), "smallthinker": Window(4, full_first=True, fixed=4096),
    "spark2_5": Window(0), "step35": Window(0),
}  # fmt: skip


def unfit(header: Header) -> str | None:
    """What the model is where it cannot write text on its own, for example ``an embedding model (bert)``; else None."""
    arch = header.architecture
    if kind := UNFIT.get(arch):
        return f"{kind} ({arch})"
    # Embedding models and rerankers made from a language model keep its architecture.
    if header.integer(".pooling_type"):
        return f"an embedding model ({arch} with pooling)"
    if header.flag(".attention.causal") is False:
        return f"an encoder or diffusion model ({arch} without causal attention)"
    return None


def sliding_window(header: Header) -> int | None:
    """Tokens that the windowed layers look back; None where llama.cpp lets every layer look at everything."""
    rule = WINDOWS.get(header.architecture)
    if rule is None:
        return None
    stated = header.integer(".attention.sliding_window")
    window = rule.default if stated is None else stated
    if header.architecture == "exaone4" and header.n_layer != 64:
        return None
    if window <= 0:
        return None
    return rule.fixed or window


def windowed_layers(header: Header) -> tuple[bool, ...]:
    """For each layer whether it looks back only over the sliding window."""
    n_layer = header.n_layer
    rule = WINDOWS.get(header.architecture)
    if rule is None or sliding_window(header) is None:
        return (False,) * n_layer
    pattern = header.metadata.get(f"{header.architecture}.attention.sliding_window_pattern")
    if isinstance(pattern, array):
        return tuple(bool(flag) for flag in header.per_layer(".attention.sliding_window_pattern"))
    period = pattern if isinstance(pattern, int) else rule.period
    if period == 0:
        return (True,) * n_layer
    full = 0 if rule.full_first else period - 1
    return tuple(layer % period != full for layer in range(n_layer))
