"""What pyproject.toml cannot say: which folders make up the one import, and that config.yaml ships inside it."""

import shutil
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

# Folders at the top of the repository that are installed as sub-packages.
MAPPED = {"localspec.tui": "tui", "localspec.models": "models"}


class BuildPy(build_py):
    """Adds the top-level config.yaml to the package; an editable install reads it where it is."""

    def _config(self) -> str:
        return str(Path(self.build_lib) / "localspec" / "config.yaml")

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            shutil.copyfile("config.yaml", self._config())

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        own = [] if self.editable_mode else [self._config()]
        return [*super().get_outputs(include_bytecode), *own]


def packages() -> list[str]:
    mapped = [name for top, folder in MAPPED.items() for name in (top, *(f"{top}.{p}" for p in find_packages(folder)))]
    return [*find_packages(include=["localspec", "localspec.*"]), *mapped]


setup(packages=packages(), package_dir=MAPPED, cmdclass={"build_py": BuildPy})
