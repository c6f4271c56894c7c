"""Flags for settings, made from ``Settings``: names, types, ranges and help have no second source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar, get_args, get_origin

import rich_click as click

from localspec import config

Command = TypeVar("Command", bound=Callable[..., Any])

PANELS: dict[str, tuple[str, ...]] = {
    "Models": ("model", "model_draft", "draft", "offline"),
    "Speculation": ("draft_max", "draft_min", "draft_p_min", "draft_temp", "verify"),
    "Sampling": (
        "temp",
        "top_k",
        "top_p",
        "min_p",
        "repeat_penalty",
        "repeat_last_n",
        "presence_penalty",
        "frequency_penalty",
        "logit_bias",
        "seed",
    ),
    "Reply": ("system", "n_predict", "stop", "ignore_eos", "context_full"),
    "Context and memory": (
        "ctx_size",
        "batch_size",
        "ubatch_size",
        "threads",
        "threads_batch",
        "n_gpu_layers",
        "n_gpu_layers_draft",
        "cache_type_k",
        "cache_type_v",
        "cache_type_k_draft",
        "cache_type_v_draft",
        "flash_attn",
        "mmap",
        "mlock",
        "repack",
        "verbose",
    ),
}
"""Settings that have a flag, in the order of the help."""

FILE_ONLY = ("theme",)
"""Settings without a flag: the user's file or a variable sets them."""

SHORT: dict[str, str] = {
    "model": "-m",
    "model_draft": "-md",
    "seed": "-s",
    "system": "-sys",
    "n_predict": "-n",
    "ctx_size": "-c",
    "batch_size": "-b",
    "ubatch_size": "-ub",
    "threads": "-t",
    "threads_batch": "-tb",
    "n_gpu_layers": "-ngl",
    "n_gpu_layers_draft": "-ngld",
    "cache_type_k": "-ctk",
    "cache_type_v": "-ctv",
    "cache_type_k_draft": "-ctkd",
    "cache_type_v_draft": "-ctvd",
    "flash_attn": "-fa",
    "verbose": "-v",
}
"""llama.cpp's short forms."""

METAVARS = {
    "draft_max": "K|auto",
    "model": "NAME|PATH",
    "model_draft": "NAME|PATH",
    "logit_bias": "ID=BIAS",
    "stop": "TEXT",
    "system": "TEXT",
}


def setting_flags(*names: str) -> Callable[[Command], Command]:
    """Adds the flags of these settings, or all of ``PANELS``; ``overrides(kwargs)`` has those that were given."""
    wanted = names or [name for panel in PANELS.values() for name in panel]

    def decorate(command: Command) -> Command:
        for name in reversed(wanted):
            command = _option(name)(command)
        return command

    return decorate


def in_panels(*own: str) -> Callable[[Command], Command]:
    """Groups the flags in the help, those that are the command's ``own`` first."""

    def decorate(command: Command) -> Command:
        for title, names in reversed(PANELS.items()):
            options = [config.flag_name(name) for name in names]
            command = click.option_panel(title, options=options)(command)
        return click.option_panel("Options", options=[*own, "--help"])(command)

    return decorate


def overrides(given: dict[str, Any]) -> dict[str, object]:
    """The settings that were given as flags, for ``config.load``; takes them out of ``given``."""
    found: dict[str, object] = {}
    for name in config.Settings.model_fields:
        value = given.pop(name, None)
        if value is None or value == ():
            continue
        found[name] = dict(value) if name == "logit_bias" else list(value) if name == "stop" else value
    return found


def _option(name: str) -> Callable[[Command], Command]:
    field = config.Settings.model_fields[name]
    kind, _ = config.kind_of(field)
    flag = config.flag_name(name)
    declaration = [*([SHORT[name]] if name in SHORT else []), flag]
    if kind is bool:
        default = config.default(name)
        both = f"{flag}/--no-{flag[2:]}" if default else flag
        return click.option(*declaration[:-1], both, name, is_flag=True, default=None, help=field.description)
    return click.option(
        *declaration,
        name,
        type=_click_type(name, kind),
        multiple=get_origin(kind) in (list, dict),
        metavar=METAVARS.get(name, "TYPE" if name.startswith("cache_type") else None),
        help=_help(name, field.description or ""),
    )


def _help(name: str, description: str) -> str:
    default = config.default(name)
    return description if default in (None, [], {}) else f"{description} [{default}]"


def _click_type(name: str, kind: Any) -> Any:
    if name == "logit_bias":
        return _bias
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind))
    if name == "draft_max":
        return _k
    return kind if kind in (int, float) else str


def _k(text: str) -> int | str:
    """``auto`` or a whole number; the range is checked with the other settings."""
    try:
        return text if text == "auto" else int(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not auto or a whole number") from None


def _bias(text: str) -> tuple[int, float]:
    """``ID=BIAS``, such as 15043=-100."""
    token, _, bias = text.partition("=")
    try:
        return int(token), float(bias)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not ID=BIAS, such as 15043=-100") from None
