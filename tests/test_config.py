"""Layers of the configuration, what they allow, and how they complain."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from localspec import config, environment
from localspec.errors import ConfigError


def user_file(home: Path, text: str) -> Path:
    path = home / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_setting_has_a_commented_default() -> None:
    text = config.default_file().read_text(encoding="utf-8")
    assert set(yaml.safe_load(text)) == set(config.Settings.model_fields)
    for name in config.Settings.model_fields:
        before = text[: text.index(f"\n{name}:")]
        assert before.rsplit("\n\n", 1)[-1].startswith("# "), name


def test_without_any_source_the_defaults_are_in_force() -> None:
    loaded = config.load()
    assert loaded.settings.model_dump() == yaml.safe_load(config.default_file().read_text(encoding="utf-8"))
    assert set(loaded.origin.values()) == {config.DEFAULT}


def test_settings_have_no_default_of_their_own() -> None:
    assert all(field.is_required() for field in config.Settings.model_fields.values())


def test_each_layer_wins_over_the_one_below(localspec_home: Path) -> None:
    path = user_file(localspec_home, "temp: 0.1\ntop_k: 1\ntop_p: 0.1\nmin_p: 0.1\n")
    environ = {"LLAMA_ARG_TOP_K": "2", "LLAMA_ARG_TOP_P": "0.2", "LLAMA_ARG_MIN_P": "0.2"}
    environ |= {"LOCALSPEC_TOP_P": "0.3", "LOCALSPEC_MIN_P": "0.3"}
    loaded = config.load({"min_p": 0.4}, environ=environ)
    values = loaded.settings
    assert (values.temp, values.top_k, values.top_p, values.min_p, values.draft_max) == (0.1, 2, 0.3, 0.4, "auto")
    assert loaded.origin["temp"] == str(path)
    assert loaded.origin["top_k"] == "LLAMA_ARG_TOP_K"
    assert loaded.origin["top_p"] == "LOCALSPEC_TOP_P"
    assert loaded.origin["min_p"] == config.FLAG
    assert loaded.origin["draft_max"] == config.DEFAULT


def test_an_override_of_none_is_a_value() -> None:
    assert config.load({"model": None}).settings.model is None


def test_another_user_file_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("seed: 7\n", encoding="utf-8")
    monkeypatch.setenv("LOCALSPEC_CONFIG", str(path))
    loaded = config.load()
    assert (loaded.settings.seed, loaded.origin["seed"]) == (7, str(path))


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}\n"])
def test_an_empty_user_file_changes_nothing(localspec_home: Path, text: str) -> None:
    user_file(localspec_home, text)
    assert set(config.load().origin.values()) == {config.DEFAULT}


@pytest.mark.parametrize(
    ("text", "value"), [("on", "on"), ("off", "off"), ("auto", "auto"), ('"on"', "on"), ("yes", "on")]
)
def test_yaml_truth_values_are_understood_as_on_and_off(localspec_home: Path, text: str, value: str) -> None:
    user_file(localspec_home, f"flash_attn: {text}\n")
    assert config.load().settings.flash_attn == value


def test_one_stop_text_may_be_written_without_a_list(localspec_home: Path) -> None:
    user_file(localspec_home, 'stop: "\\n\\n"\nlogit_bias: {15043: -100, 2: 1.5}\n')
    settings = config.load().settings
    assert settings.stop == ["\n\n"]
    assert settings.logit_bias == {15043: -100.0, 2: 1.5}


def test_lists_and_mappings_are_json_in_a_variable() -> None:
    environ = {"LOCALSPEC_STOP": '["a", "b"]', "LOCALSPEC_LOGIT_BIAS": '{"5": -1}'}
    settings = config.load(environ=environ).settings
    assert (settings.stop, settings.logit_bias) == (["a", "b"], {5: -1.0})
    assert config.load(environ={"LOCALSPEC_STOP": "END"}).settings.stop == ["END"]


def test_an_empty_variable_counts_as_unset() -> None:
    assert config.load(environ={"LOCALSPEC_TEMP": "", "LLAMA_ARG_TOP_K": ""}).origin["temp"] == config.DEFAULT


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("LLAMA_ARG_MODEL", "/m.gguf", "model", "/m.gguf"),
        ("LLAMA_ARG_SPEC_DRAFT_MODEL", "/d.gguf", "model_draft", "/d.gguf"),
        ("LLAMA_ARG_SPEC_DRAFT_N_MAX", "7", "draft_max", 7),
        ("LLAMA_ARG_N_GPU_LAYERS", "all", "n_gpu_layers", -1),
        ("LLAMA_ARG_N_GPU_LAYERS", "12", "n_gpu_layers", 12),
        ("LLAMA_ARG_FLASH_ATTN", "1", "flash_attn", "on"),
        ("LLAMA_ARG_FLASH_ATTN", "auto", "flash_attn", "auto"),
        ("LLAMA_ARG_LOAD_MODE", "mmap+mlock", "mlock", True),
        ("LLAMA_ARG_LOAD_MODE", "none", "mmap", False),
        ("LLAMA_ARG_CONTEXT_SHIFT", "true", "context_full", "drop"),
        ("LLAMA_ARG_N_PREDICT", "-2", "n_predict", -1),
        ("LLAMA_ARG_OFFLINE", "1", "offline", True),
        ("LLAMA_ARG_CACHE_TYPE_K", "q8_0", "cache_type_k", "q8_0"),
    ],
)
def test_llama_cpps_own_variables_are_read(variable: str, text: str, name: str, value: object) -> None:
    loaded = config.load(environ={variable: text})
    assert (getattr(loaded.settings, name), loaded.origin[name]) == (value, variable)


def test_every_llama_variable_belongs_to_a_setting() -> None:
    assert set(environment.LLAMA) <= set(config.Settings.model_fields)
    assert set(environment.LLAMA_WORDS) <= set(environment.LLAMA)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("draft_max", 33, "--draft-max is 33, but must be auto or a whole number from 0 to 32."),
        ("draft_max", "all", '--draft-max is "all", but must be auto or a whole number from 0 to 32.'),
        ("draft_max", True, "--draft-max is true, but must be auto or a whole number from 0 to 32."),
        ("draft_max", 2.5, "--draft-max is 2.5, but must be auto or a whole number from 0 to 32."),
        ("temp", -0.1, "--temp is -0.1, but must be a number, 0 or more."),
        ("temp", float("nan"), "--temp is NaN, but must be a number, 0 or more."),
        ("temp", float("inf"), "--temp is Infinity, but must be a number, 0 or more."),
        ("top_p", 1.5, "--top-p is 1.5, but must be a number from 0 to 1."),
        ("top_k", 2.5, "--top-k is 2.5, but must be a whole number, 0 or more."),
        ("top_k", True, "--top-k is true, but must be a whole number, 0 or more."),
        ("repeat_penalty", 0, "--repeat-penalty is 0, but must be a number above 0."),
        ("seed", -1, "--seed is -1, but must be a whole number from 0 to 4294967295, or null."),
        ("verify", "best", '--verify is "best", but must be auto, greedy, gumbel, rejection or block.'),
        ("mmap", "maybe", '--mmap is "maybe", but must be true or false.'),
        ("stop", [1], "--stop holds 1, but must be a list of texts."),
        ("logit_bias", {"a": 1}, '--logit-bias holds "a", but must be a mapping of token ids to numbers.'),
        ("model", 3, "--model is 3, but must be a text, or null."),
        ("verify", "greedy", "verify greedy needs temp 0; above it use gumbel, rejection or block."),
    ],
)
def test_a_value_that_is_not_allowed_is_named_with_what_is(name: str, value: object, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load({name: value})
    assert str(caught.value) == words


def test_the_complaint_names_the_file_or_the_variable(localspec_home: Path) -> None:
    with pytest.raises(ConfigError, match=r"^LOCALSPEC_TEMP is \"hot\", but must be"):
        config.load(environ={"LOCALSPEC_TEMP": "hot"})
    with pytest.raises(ConfigError, match=r"^LLAMA_ARG_TOP_K is \"-1\", but must be"):
        config.load(environ={"LLAMA_ARG_TOP_K": "-1"})
    path = user_file(localspec_home, "draft_max: many\n")
    with pytest.raises(ConfigError) as caught:
        config.load()
    assert str(caught.value) == f'draft_max in {path} is "many", but must be auto or a whole number from 0 to 32.'


def test_a_misspelt_key_is_refused_with_the_nearest_one(localspec_home: Path) -> None:
    path = user_file(localspec_home, "draftmax: 3\n")
    with pytest.raises(ConfigError) as caught:
        config.load()
    assert str(caught.value) == f"draftmax in {path} is not a setting; did you mean draft_max?"
    path.unlink()
    with pytest.raises(ConfigError, match=r"^LOCALSPEC_TMEP is not a setting; did you mean LOCALSPEC_TEMP\?$"):
        config.load(environ={"LOCALSPEC_TMEP": "0"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("temp: [1\nx", "is not valid YAML at line 2"),
        ("- temp\n", "must hold `key: value` lines, not a list"),
        ("just words\n", "must hold `key: value` lines, not a str"),
    ],
)
def test_a_broken_user_file_is_named(localspec_home: Path, text: str, words: str) -> None:
    path = user_file(localspec_home, text)
    with pytest.raises(ConfigError, match=words) as caught:
        config.load()
    assert str(path) in str(caught.value)


def test_a_user_file_that_is_not_text_is_named(localspec_home: Path) -> None:
    (localspec_home / "config.yaml").write_bytes(b"temp: \xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8 text"):
        config.load()


def test_a_named_file_that_is_missing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALSPEC_CONFIG", str(tmp_path / "none.yaml"))
    with pytest.raises(ConfigError, match="does not exist"):
        config.load()


def test_changed_settings_are_checked_too() -> None:
    loaded = config.load()
    assert loaded.changed(draft_max=5).settings.draft_max == 5
    assert loaded.changed(draft_max=5).origin["draft_max"] == config.FLAG
    assert loaded.settings.draft_max == "auto"
    with pytest.raises(ConfigError, match=r"^draft_min is 9, but must not be above draft_max \(5\)\.$"):
        loaded.changed(draft_max=5, draft_min=9)
    with pytest.raises(ConfigError, match="--draft-max is 50"):
        loaded.changed(draft_max=50)
    with pytest.raises(ConfigError, match="--draftmax is not a setting; did you mean --draft-max"):
        loaded.settings.changed(draftmax=5)


@pytest.mark.parametrize(
    ("temp", "verify", "mode"),
    [(0.0, "auto", "greedy"), (0.8, "auto", "gumbel"), (0.8, "block", "block"), (0.0, "block", "greedy")],
)
def test_temperature_0_is_greedy_and_the_rest_is_gumbel_unless_named(temp: float, verify: str, mode: str) -> None:
    assert config.load({"temp": temp, "verify": verify}).settings.verification == mode


def test_the_commented_file_changes_nothing_until_a_line_is_opened(localspec_home: Path) -> None:
    defaults = config.load().settings
    text = config.commented_defaults()
    user_file(localspec_home, text)
    assert set(config.load().origin.values()) == {config.DEFAULT}
    keys = tuple(f"#{name}:" for name in config.Settings.model_fields)
    opened = [line.removeprefix("#") if line.startswith(keys) else line for line in text.splitlines()]
    path = user_file(localspec_home, "\n".join(opened))
    assert set(config.load().origin.values()) == {str(path)}
    assert config.load().settings == defaults
