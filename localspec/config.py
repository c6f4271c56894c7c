"""The one configuration loader.

Values come from four layers, weakest first: the ``config.yaml`` that ships with localspec, the user's file, the
environment (``LLAMA_ARG_*``, then ``LOCALSPEC_*``), and the caller's overrides (command-line flags). The defaults are
in ``config.yaml`` and nowhere else; ``Settings`` says which values are allowed.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args, get_origin

import yaml
from annotated_types import Ge, Gt, Le
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from localspec import environment, paths
from localspec.errors import ConfigError

DEFAULT = "default"
FLAG = "flag"

MOST_DRAFTED = 32

KVType = Literal["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl"]


def _number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a switch is not a number")  # pydantic turns only ValueError into its own error
    return value


def _on_off(value: object) -> object:
    """YAML reads a bare ``on`` or ``off`` as a truth value."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


def _strings(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _k(value: object) -> object:
    """``auto``, or a whole number of ``MOST_DRAFTED`` at most."""
    if value == "auto":
        return value
    number = int(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= MOST_DRAFTED:
        raise ValueError("not a K")
    return number


Int = Annotated[int, BeforeValidator(_number)]
K = Annotated[int | Literal["auto"], BeforeValidator(_k)]
Float = Annotated[float, BeforeValidator(_number)]


class Settings(BaseModel):
    """Every setting. Names are those of the long flags; the descriptions are the flags' help."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())

    model: str | None = Field(description="Model that answers: catalogue pair, path of a GGUF, or a known name.")
    model_draft: str | None = Field(description="Small model that drafts; by default the catalogue's for the model.")
    draft: Literal["auto", "draft-model", "lookup", "none"] = Field(
        description="Where drafts come from; none is dense decoding."
    )
    draft_max: K = Field(description="K: most tokens drafted per round; auto drafts as many as pay, or none.")
    draft_min: Int = Field(ge=0, le=32, description="Draft tokens of a round before draft-p-min may stop it.")
    draft_p_min: Float = Field(ge=0, le=1, description="Stop drafting where the best token is less likely.")
    draft_temp: Float | None = Field(ge=0, description="Temperature of the draft model; by default that of the model.")
    verify: Literal["auto", "greedy", "gumbel", "rejection", "block"] = Field(
        description="How drafts are checked; auto is greedy at temperature 0 and gumbel above."
    )
    temp: Float = Field(ge=0, description="Temperature; 0 always takes the most likely token.")
    top_k: Int = Field(ge=0, description="Keep the K most likely tokens; 0 keeps all.")
    top_p: Float = Field(ge=0, le=1, description="Keep the most likely tokens up to this total probability.")
    min_p: Float = Field(ge=0, le=1, description="Drop tokens below this share of the most likely one's probability.")
    repeat_penalty: Float = Field(gt=0, description="Divide the logits of recent tokens by this; 1 is off.")
    repeat_last_n: Int = Field(ge=-1, description="Recent tokens the penalties look at; -1 is the whole context.")
    presence_penalty: Float = Field(ge=-100, le=100, description="Subtract from the logit of every recent token.")
    frequency_penalty: Float = Field(ge=-100, le=100, description="Subtract from it once per occurrence.")
    logit_bias: dict[Int, Float] = Field(description="Add to the logit of a token id, as ID=BIAS.")
    seed: Int | None = Field(ge=0, le=2**32 - 1, description="Seed of the random choices; drawn by default.")
    stop: Annotated[list[str], BeforeValidator(_strings)] = Field(description="Text that ends the reply.")
    n_predict: Int = Field(ge=-1, description="Most tokens in the reply; -1 is until the context is full.")
    ignore_eos: bool = Field(description="Do not let the model end the reply by itself; for measuring.")
    ctx_size: Int = Field(ge=0, description="Tokens of context; 0 is what the model was trained with.")
    batch_size: Int = Field(ge=1, description="Prompt tokens per call.")
    ubatch_size: Int = Field(ge=1, description="Prompt tokens per pass.")
    threads: Int = Field(ge=0, description="Threads for answering; 0 measures which number is fastest.")
    threads_batch: Int = Field(ge=0, description="Threads for reading the prompt; 0 is the same as --threads.")
    n_gpu_layers: Int = Field(ge=-1, description="Layers of the model on the GPU; -1 is as many as fit.")
    n_gpu_layers_draft: Int = Field(ge=-1, description="Layers of the draft model on the GPU; -1 is as many as fit.")
    cache_type_k: KVType = Field(description="Type of the K cache: f32, f16, bf16, q8_0, q5_1, q5_0 ...")
    cache_type_v: KVType = Field(description="Type of the V cache.")
    cache_type_k_draft: KVType = Field(description="Type of the draft model's K cache.")
    cache_type_v_draft: KVType = Field(description="Type of the draft model's V cache.")
    flash_attn: Annotated[Literal["auto", "on", "off"], BeforeValidator(_on_off)] = Field(
        description="Flash attention."
    )
    mmap: bool = Field(description="Map the model file into memory instead of reading it.")
    mlock: bool = Field(description="Keep the model in RAM, never swapped.")
    repack: bool = Field(description="Let the CPU rearrange weights: faster, but near ties may fall the other way.")
    context_full: Literal["stop", "drop"] = Field(
        description="When the context is full: end the reply, or forget the oldest turns."
    )
    system: str | None = Field(description="Instructions that come before the conversation.")
    offline: bool = Field(description="Never use the network.")
    verbose: bool = Field(description="Show what llama.cpp logs.")
    theme: str | None = Field(description="Colours of the terminal app.")

    @model_validator(mode="after")
    def _a_draft_can_be_long_enough(self) -> Self:
        if self.draft_max != "auto" and 0 < self.draft_max < self.draft_min:
            raise ValueError(f"draft_min is {self.draft_min}, but must not be above draft_max ({self.draft_max})")
        return self

    @model_validator(mode="after")
    def _greedy_is_for_temperature_0(self) -> Self:
        if self.verify == "greedy" and self.temp > 0:
            raise ValueError("verify greedy needs temp 0; above it use gumbel, rejection or block")
        return self

    @property
    def verification(self) -> str:
        """The mode in force: greedy at temperature 0, and gumbel where ``verify`` leaves the choice."""
        if self.temp == 0:
            return "greedy"
        return "gumbel" if self.verify == "auto" else self.verify

    @property
    def drafts(self) -> bool:
        """Whether anything may be drafted at all."""
        return self.draft != "none" and self.draft_max != 0

    @property
    def adaptive(self) -> bool:
        """Whether K adapts."""
        return self.drafts and self.draft_max == "auto"

    @property
    def drafters(self) -> tuple[str, ...]:
        """The drafters that ``draft`` stands for."""
        if self.draft == "none":
            return ()
        return ("draft-model", "lookup") if self.draft == "auto" else (self.draft,)

    def most_drafted(self, most: int) -> int:
        """The largest K, ``most`` where it adapts."""
        return most if self.draft_max == "auto" else self.draft_max

    def changed(self, **values: object) -> Settings:
        """A copy with other values, checked like any other; raises ConfigError."""
        return _validated({**self.model_dump(), **values}, dict.fromkeys(values, FLAG))


@dataclass(frozen=True, slots=True)
class Config:
    """The settings in force, and for each name the source that won: ``default``, a file, a variable or ``flag``."""

    settings: Settings
    origin: Mapping[str, str]

    def changed(self, **values: object) -> Config:
        """A copy with other values, whose origin is ``flag``; raises ConfigError."""
        return replace(
            self, settings=self.settings.changed(**values), origin={**self.origin, **dict.fromkeys(values, FLAG)}
        )


def load(overrides: Mapping[str, object] | None = None, *, environ: Mapping[str, str] | None = None) -> Config:
    """The configuration in force. ``overrides`` win over everything; ``environ`` stands in for ``os.environ``.

    Raises ConfigError naming the source and the key of a value that is unknown, malformed or out of range.
    """
    environ = os.environ if environ is None else environ
    layers: list[tuple[Mapping[str, object], Callable[[str], str]]] = [
        (_defaults(), lambda _: DEFAULT),
        *_user_layers(environ),
        (environment.llama(environ), lambda name: environment.LLAMA[name]),
        (environment.own(environ, _STRUCTURED), environment.variable),
        (overrides or {}, lambda _: FLAG),
    ]
    values: dict[str, object] = {}
    origin: dict[str, str] = {}
    for layer, source in layers:
        for name, value in layer.items():
            if name not in Settings.model_fields:
                raise ConfigError(_unknown(name, source(name)))
            values[name], origin[name] = value, source(name)
    return Config(_validated(values, origin), origin)


def default_file() -> Path:
    """config.yaml: inside the package once installed, at the top of the repository in a checkout."""
    package = Path(__file__).parent
    installed = package / "config.yaml"
    return installed if installed.is_file() else package.parent / "config.yaml"


@cache
def _defaults() -> Mapping[str, object]:
    return _read(default_file())


def default(name: str) -> object:
    """The value of ``name`` in config.yaml."""
    return _defaults()[name]


def flag_name(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def allowed(name: str) -> str:
    """The values that ``name`` may have, in words."""
    field = Settings.model_fields[name]
    kind, optional = kind_of(field)
    words = _allowed_words(kind, field)
    return f"{words}, or null" if optional else words


def commented_defaults() -> str:
    """The default file with every value commented out: a user file to start from that changes nothing."""
    own = ["# Your settings of localspec. Take the # away before a key to change it; what stays commented keeps its"]
    own += ["# default. `localspec config` shows what is in force.", ""]
    keys = {f"{name}:" for name in Settings.model_fields}
    lines = default_file().read_text(encoding="utf-8").splitlines()
    body = lines[next(i for i, line in enumerate(lines) if line.startswith("# ---")) :]
    own += [f"#{line}" if line.split(" ", 1)[0] in keys else line for line in body]
    return "\n".join(own) + "\n"


def _user_layers(environ: Mapping[str, str]) -> list[tuple[Mapping[str, object], Callable[[str], str]]]:
    path = paths.user_config()
    if path.exists():
        return [(_read(path), lambda _: str(path))]
    if environ.get("LOCALSPEC_CONFIG"):
        raise ConfigError(f"LOCALSPEC_CONFIG names {path}, which does not exist; write it or unset the variable.")
    return []


def _read(path: Path) -> Mapping[str, object]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        raise ConfigError(f"{path} is not valid YAML{where}; mend it or delete it.") from error
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"{path} cannot be read ({reason}); mend it or delete it.") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{path} must hold `key: value` lines, not a {type(values).__name__}.")
    return {str(name): value for name, value in values.items()}


def _validated(values: Mapping[str, object], origin: Mapping[str, str]) -> Settings:
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_complaint(error.errors()[0], origin)) from error


def _complaint(error: Any, origin: Mapping[str, str]) -> str:
    if not error["loc"]:
        return f"{error['ctx']['error']}."
    name = str(error["loc"][0])
    if name not in Settings.model_fields:
        return _unknown(name, FLAG)
    source = origin.get(name, DEFAULT)
    if error["type"] == "missing":
        return f"{default_file()} lacks {name}; reinstall localspec."
    value = json.dumps(error["input"], default=str)
    if len(error["loc"]) > 1:
        return f"{_label(name, source)} holds {value}, but must be {allowed(name)}."
    return f"{_label(name, source)} is {value}, but must be {allowed(name)}."


def _label(name: str, source: str) -> str:
    if source == FLAG:
        return flag_name(name)
    if source in (environment.variable(name), environment.LLAMA.get(name)):
        return source
    return f"{name} in {default_file() if source == DEFAULT else source}"


def _unknown(name: str, source: str) -> str:
    close = difflib.get_close_matches(name, Settings.model_fields, n=1)
    known = [flag_name(close[0]) if source == FLAG else close[0]] if close else []
    if source == environment.variable(name):
        known = [environment.variable(close[0])] if close else []
    hint = f"did you mean {known[0]}?" if known else "see `localspec config` for the settings there are."
    return f"{_label(name, source)} is not a setting; {hint}"


def kind_of(field: FieldInfo) -> tuple[Any, bool]:
    """The type of a field without None and annotations, and whether None is allowed."""
    kinds = [kind for kind in get_args(field.annotation) if kind is not type(None)]
    optional = type(None) in get_args(field.annotation)
    kind = kinds[0] if optional else field.annotation
    return (get_args(kind)[0] if get_origin(kind) is Annotated else kind), optional


def _allowed_words(kind: Any, field: FieldInfo) -> str:
    if get_origin(kind) is Literal:
        *first, last = get_args(kind)
        return f"{', '.join(first)} or {last}"
    if get_origin(kind) is list:
        return "a list of texts"
    if get_origin(kind) is dict:
        return "a mapping of token ids to numbers"
    if kind == (int | Literal["auto"]):
        return f"auto or a whole number from 0 to {MOST_DRAFTED}"
    if kind is bool:
        return "true or false"
    if kind is str:
        return "a text"
    return f"{'a whole number' if kind is int else 'a number'}{_range_words(field)}"


def _range_words(field: FieldInfo) -> str:
    bounds = {type(bound): bound for bound in field.metadata}
    low, high, above = bounds.get(Ge), bounds.get(Le), bounds.get(Gt)
    if isinstance(low, Ge) and isinstance(high, Le):
        return f" from {low.ge} to {high.le}"
    if isinstance(low, Ge):
        return f", {low.ge} or more"
    return f" above {above.gt}" if isinstance(above, Gt) else ""


_STRUCTURED = frozenset(
    name for name, field in Settings.model_fields.items() if get_origin(kind_of(field)[0]) in (list, dict)
)
