"""``localspec config``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from localspec import config


def test_every_setting_is_shown_with_its_value_and_source(localspec: Any, localspec_home: Path) -> None:
    (localspec_home / "config.yaml").write_text("top_k: 7\n", encoding="utf-8")
    lines = localspec("config", LOCALSPEC_TEMP="0.5").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(config.Settings.model_fields)
    shown = {line.split()[0]: line.split()[1:] for line in lines}
    assert shown["temp"] == ["0.5", "LOCALSPEC_TEMP"]
    assert shown["top_k"] == ["7", str(localspec_home / "config.yaml")]
    assert shown["min_p"] == ["0.05", "default"]


def test_json_holds_the_same(localspec: Any) -> None:
    shown = json.loads(localspec("config", "--json", LLAMA_ARG_CTX_SIZE="512").stdout)
    assert shown["ctx_size"] == {"value": 512, "source": "LLAMA_ARG_CTX_SIZE"}
    assert {name: entry["value"] for name, entry in shown.items() if name != "ctx_size"} == {
        name: value
        for name, value in yaml.safe_load(config.default_file().read_text(encoding="utf-8")).items()
        if name != "ctx_size"
    }


def test_the_path_is_printed_whether_or_not_there_is_a_file(localspec: Any, localspec_home: Path) -> None:
    assert localspec("config", "path").stdout == f"{localspec_home / 'config.yaml'}\n"
    assert localspec("config", "path", LOCALSPEC_CONFIG="/a/b.yaml").stdout == "/a/b.yaml\n"


def test_init_writes_a_file_once(localspec: Any, is_error: Any, localspec_home: Path) -> None:
    file = localspec_home / "config.yaml"
    assert localspec("config", "init").stdout == f"{file}\n"
    assert file.read_text(encoding="utf-8") == config.commented_defaults()
    file.write_text("temp: 0\n", encoding="utf-8")
    is_error(localspec("config", "init"), "exists already")
    assert file.read_text(encoding="utf-8") == "temp: 0\n"


def test_init_makes_the_folder(localspec: Any, tmp_path: Path) -> None:
    home = tmp_path / "a" / "b"
    assert localspec("config", "init", LOCALSPEC_HOME=str(home)).returncode == 0
    assert (home / "config.yaml").is_file()


def test_a_folder_that_cannot_be_written_is_one_sentence(localspec: Any, is_error: Any) -> None:
    is_error(localspec("config", "init", LOCALSPEC_HOME="/dev/null/home"), "/dev/null/home")


def test_a_broken_file_is_one_sentence(localspec: Any, is_error: Any, localspec_home: Path) -> None:
    (localspec_home / "config.yaml").write_text("tmep: 0\n", encoding="utf-8")
    is_error(localspec("config"), "did you mean temp?")
