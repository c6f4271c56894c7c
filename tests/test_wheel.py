"""What a user gets who installs the wheel: one import, and commands that work from any folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LEFT_OUT = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "*.gguf", "docs", "benchmarks")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built by way of the source archive, as a release would be."""
    source = tmp_path_factory.mktemp("source") / "localspec"
    shutil.copytree(ROOT, source, ignore=LEFT_OUT)
    subprocess.run([sys.executable, "-m", "build", "--outdir", "dist"], cwd=source, check=True, capture_output=True)
    (built,) = (source / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel; what the wheel needs is borrowed from the environment of the tests."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    borrowed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (packages / "borrowed.pth").write_text("\n".join(sorted(borrowed)))
    return folder


def output(environment: Path, folder: Path, *command: str) -> str:
    """Standard output of a program of the environment that is run in ``folder``."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    program = [str(environment / "bin" / command[0]), *command[1:]]
    done = subprocess.run(program, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_installs_one_import(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"localspec"}


def test_the_wheel_holds_every_module_and_what_they_read(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder, package in (("localspec", "localspec"), ("tui", "localspec/tui"), ("models", "localspec/models")):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".yaml", ".tcss", ".typed"):
                assert f"{package}/{path.relative_to(ROOT / folder)}" in names
    assert "localspec/config.yaml" in names


def test_it_runs_from_another_folder(environment: Path, tmp_path: Path) -> None:
    assert "Usage: localspec" in output(environment, tmp_path, "localspec", "--help")
    assert "draft_max" in output(environment, tmp_path, "localspec", "config")
    assert "qwen2.5-coder-1.5b" in output(environment, tmp_path, "localspec", "doctor")


def test_its_own_files_are_read_from_the_installation(environment: Path, tmp_path: Path) -> None:
    code = (
        "import importlib.resources as r, localspec.config as c, localspec.catalog as k, localspec.tui.app; "
        "print(c.default_file()); print(len(k.load().pairs)); "
        "print(r.files('localspec.models').joinpath('catalog.yaml').is_file())"
    )
    file, pairs, readable = output(environment, tmp_path, "python", "-c", code).splitlines()
    assert Path(file).is_relative_to(environment)
    assert int(pairs) >= 15
    assert readable == "True"


def test_a_checkout_reads_its_own_config() -> None:
    from localspec import config

    assert config.default_file() in (ROOT / "config.yaml", Path(config.__file__).parent / "config.yaml")
