"""Flags and settings are one list."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

import click
import pytest

from localspec.cli.flags import FILE_ONLY, PANELS, SHORT, overrides
from localspec.cli.run import chat, run
from localspec.config import Settings, kind_of

FLAGGED = [name for names in PANELS.values() for name in names]


def options(command: click.Command) -> dict[str | None, click.Parameter]:
    return {parameter.name: parameter for parameter in command.params}


def test_every_setting_is_a_flag_or_for_the_file_only() -> None:
    assert sorted([*FLAGGED, *FILE_ONLY]) == sorted(Settings.model_fields)
    assert set(SHORT) <= set(FLAGGED)


@pytest.mark.parametrize("command", [run, chat])
@pytest.mark.parametrize("name", FLAGGED)
def test_the_flag_has_the_settings_name_help_and_choices(command: click.Command, name: str) -> None:
    option = options(command)[name]
    assert isinstance(option, click.Option)
    assert f"--{name.replace('_', '-')}" in option.opts
    assert SHORT.get(name, option.opts[0]) in option.opts
    assert option.help is not None
    assert option.help.startswith(Settings.model_fields[name].description or "?")
    kind, _ = kind_of(Settings.model_fields[name])
    if get_origin(kind) is Literal:
        assert isinstance(option.type, click.Choice)
        assert tuple(option.type.choices) == get_args(kind)


def parsed(*arguments: str) -> dict[str, object]:
    context = run.make_context("run", [*arguments, "prompt"])
    return overrides(dict(context.params))


def test_only_flags_that_were_given_override() -> None:
    assert parsed() == {}


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("-m", "a", "-md", "b"), {"model": "a", "model_draft": "b"}),
        (("--temp", "0", "-s", "0"), {"temp": 0.0, "seed": 0}),
        (("--draft", "none", "--draft-max", "0"), {"draft": "none", "draft_max": 0}),
        (("--no-mmap", "--mlock"), {"mmap": False, "mlock": True}),
        (("--mmap",), {"mmap": True}),
        (("--no-repack",), {"repack": False}),
        (("--stop", "a", "--stop", "b"), {"stop": ["a", "b"]}),
        (("--logit-bias", "5=-1", "--logit-bias", "7=2.5"), {"logit_bias": {5: -1.0, 7: 2.5}}),
        (("-ngl", "0", "-ngld", "3", "-c", "512"), {"n_gpu_layers": 0, "n_gpu_layers_draft": 3, "ctx_size": 512}),
        (
            ("-b", "64", "-ub", "32", "-t", "2", "-tb", "1"),
            {"batch_size": 64, "ubatch_size": 32, "threads": 2, "threads_batch": 1},
        ),
        (("-ctk", "q8_0", "-ctv", "q4_0"), {"cache_type_k": "q8_0", "cache_type_v": "q4_0"}),
        (("-fa", "off", "-n", "-1", "-v"), {"flash_attn": "off", "n_predict": -1, "verbose": True}),
        (("-sys", "Be brief.", "--context-full", "drop"), {"system": "Be brief.", "context_full": "drop"}),
    ],
)
def test_flags_become_settings(arguments: tuple[str, ...], found: dict[str, Any]) -> None:
    assert parsed(*arguments) == found


@pytest.mark.parametrize("text", ["5", "a=1", "5=", "=1"])
def test_a_bias_must_have_an_id_and_a_number(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not ID=BIAS"):
        parsed("--logit-bias", text)
