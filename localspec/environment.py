"""Settings from the environment: ``LOCALSPEC_<NAME>``, and below it llama.cpp's own variables of the same meaning."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

PREFIX = "LOCALSPEC_"
NOT_SETTINGS = ("LOCALSPEC_HOME", "LOCALSPEC_CONFIG", "LOCALSPEC_TEST_MODELS")

LLAMA: Mapping[str, str] = {
    "model": "LLAMA_ARG_MODEL",
    "model_draft": "LLAMA_ARG_SPEC_DRAFT_MODEL",
    "draft_max": "LLAMA_ARG_SPEC_DRAFT_N_MAX",
    "draft_min": "LLAMA_ARG_SPEC_DRAFT_N_MIN",
    "draft_p_min": "LLAMA_ARG_SPEC_DRAFT_P_MIN",
    "temp": "LLAMA_ARG_TEMPERATURE",
    "top_k": "LLAMA_ARG_TOP_K",
    "top_p": "LLAMA_ARG_TOP_P",
    "min_p": "LLAMA_ARG_MIN_P",
    "repeat_penalty": "LLAMA_ARG_REPEAT_PENALTY",
    "presence_penalty": "LLAMA_ARG_PRESENCE_PENALTY",
    "frequency_penalty": "LLAMA_ARG_FREQUENCY_PENALTY",
    "n_predict": "LLAMA_ARG_N_PREDICT",
    "ctx_size": "LLAMA_ARG_CTX_SIZE",
    "batch_size": "LLAMA_ARG_BATCH",
    "ubatch_size": "LLAMA_ARG_UBATCH",
    "threads": "LLAMA_ARG_THREADS",
    "n_gpu_layers": "LLAMA_ARG_N_GPU_LAYERS",
    "n_gpu_layers_draft": "LLAMA_ARG_N_GPU_LAYERS_DRAFT",
    "cache_type_k": "LLAMA_ARG_CACHE_TYPE_K",
    "cache_type_v": "LLAMA_ARG_CACHE_TYPE_V",
    "cache_type_k_draft": "LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_K",
    "cache_type_v_draft": "LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_V",
    "flash_attn": "LLAMA_ARG_FLASH_ATTN",
    "mmap": "LLAMA_ARG_LOAD_MODE",
    "mlock": "LLAMA_ARG_LOAD_MODE",
    "repack": "LLAMA_ARG_REPACK",
    "context_full": "LLAMA_ARG_CONTEXT_SHIFT",
    "offline": "LLAMA_ARG_OFFLINE",
}
"""The variable of each setting in llama.cpp's common/arg.cpp, where it has one."""

_ON = ("1", "on", "true", "enabled")
_OFF = ("0", "off", "false", "disabled")
_ALL_LAYERS = dict.fromkeys(("auto", "all", "-2"), -1)

LLAMA_WORDS: Mapping[str, Mapping[str, object]] = {
    "n_predict": {"-2": -1},
    "n_gpu_layers": _ALL_LAYERS,
    "n_gpu_layers_draft": _ALL_LAYERS,
    "flash_attn": {**dict.fromkeys(_ON, "on"), **dict.fromkeys(_OFF, "off"), "-1": "auto"},
    "mmap": {"auto": True, "none": False, "mmap": True, "mlock": False, "mmap+mlock": True, "dio": False},
    "mlock": {"auto": False, "none": False, "mmap": False, "mlock": True, "mmap+mlock": True, "dio": False},
    "context_full": {**dict.fromkeys(_ON, "drop"), **dict.fromkeys(_OFF, "stop")},
    "repack": {**dict.fromkeys(_ON, True), **dict.fromkeys(_OFF, False)},
    "offline": {**dict.fromkeys(_ON, True), **dict.fromkeys(_OFF, False)},
}
"""Values of those variables that localspec spells differently."""


def variable(name: str) -> str:
    """The variable of a setting."""
    return f"{PREFIX}{name.upper()}"


def llama(environ: Mapping[str, str]) -> dict[str, object]:
    """Settings that llama.cpp's variables ask for, by setting name."""
    found = {name: environ[variable] for name, variable in LLAMA.items() if environ.get(variable)}
    return {name: LLAMA_WORDS.get(name, {}).get(value, value) for name, value in found.items()}


def own(environ: Mapping[str, str], structured: Collection[str]) -> dict[str, object]:
    """Settings that ``LOCALSPEC_*`` asks for, by setting name; an empty variable counts as unset.

    ``structured`` names the lists and mappings, which are written as JSON. A name that is no setting is kept.
    """
    values: dict[str, object] = {}
    for variable, text in environ.items():
        if variable.startswith(PREFIX) and variable not in NOT_SETTINGS and text:
            name = variable.removeprefix(PREFIX).lower()
            values[name] = _json(text) if name in structured else text
    return values


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
