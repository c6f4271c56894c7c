"""What ``localspec list`` says about the models here and the pairs they make, as rows and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import rich_click as click

from localspec import catalog, library
from localspec.catalog import CatalogPair
from localspec.errors import GGUFError
from localspec.library import Entry
from localspec.sizes import size_text


@dataclass(frozen=True)
class Model:
    """One model here, with what its header says; ``broken`` says why there is no header."""

    entry: Entry
    quant: str | None
    architecture: str | None
    context: int | None
    pairs: tuple[str, ...]
    """Pairs of the catalogue that it belongs to."""
    broken: str | None = None

    @classmethod
    def read(cls, entry: Entry) -> Model:
        from localspec.gguf import read_header

        file = library.catalog_file(entry)
        pairs = tuple(pair.name for pair in catalog.load() if file is not None and file in pair.files)
        try:
            header = read_header(entry.path)
        except GGUFError as error:
            return cls(entry, None, None, None, pairs, str(error))
        return cls(entry, header.file_type, header.architecture, header.n_ctx_train, pairs)

    def row(self, complete: set[str]) -> tuple[str, ...]:
        pairs = [name for name in self.pairs if name in complete] or list(self.pairs[:1])
        shown = ", ".join(name if name in complete else f"{name} (not whole)" for name in pairs)
        context = str(self.context) if self.context else "-"
        quant, architecture = self.quant or "-", self.architecture or ("damaged" if self.broken else "-")
        size = size_text(self.entry.bytes)
        return (self.entry.name, size, quant, architecture, context, shown or "-", str(self.entry.owner))

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.entry.name,
            "path": str(self.entry.path),
            "size": self.entry.bytes,
            "quant": self.quant,
            "architecture": self.architecture,
            "context": self.context,
            "owner": str(self.entry.owner),
            "complete": self.entry.complete,
            "pairs": list(self.pairs),
            "broken": self.broken,
        }


HEADINGS = ("NAME", "SIZE", "QUANT", "ARCH", "CONTEXT", "PAIR", "WHERE")
PAIR_HEADINGS = ("PAIR", "SIZE", "CARD", "HERE", "LICENCE", "FOR")


def here(pair: CatalogPair, entries: Sequence[Entry]) -> tuple[str, ...]:
    """Which of ``target`` and ``draft`` are on this disk."""
    roles = zip(("target", "draft"), pair.files, strict=False)
    return tuple(role for role, file in roles if any(library.is_file(entry, file) for entry in entries))


def complete_pairs(entries: Sequence[Entry]) -> set[str]:
    """Names of the pairs of which everything is on this disk."""
    return {pair.name for pair in catalog.load() if len(here(pair, entries)) == len(pair.files)}


def pair_row(pair: CatalogPair, entries: Sequence[Entry]) -> tuple[str, ...]:
    present = here(pair, entries)
    shown = "yes" if len(present) == len(pair.files) else f"{present[0]} only" if present else "-"
    licences = ", ".join(dict.fromkeys(file.licence for file in pair.files))
    about = "~" if any(file.bytes_approximate for file in pair.files) else ""
    return (pair.name, about + size_text(pair.bytes), f"{pair.vram_gb} GB", shown, licences, pair.summary)


def pair_json(pair: CatalogPair, entries: Sequence[Entry]) -> dict[str, Any]:
    present = here(pair, entries)
    files = [file.model_dump(exclude={"wheels", "gated"}) for file in pair.files]
    return {
        "name": pair.name,
        "family": pair.family,
        "vram_gb": pair.vram_gb,
        "size": pair.bytes,
        "here": list(present),
        "complete": len(present) == len(pair.files),
        "files": files,
    }


def print_table(rows: Sequence[Sequence[str]], headings: Sequence[str]) -> None:
    """Columns as wide as their longest cell, the last one ragged."""
    widths = [max(len(cell) for cell in column) for column in zip(headings, *rows, strict=True)]
    for row in (headings, *rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        line = "  ".join(cells).rstrip()
        click.echo(click.style(line, bold=True) if row is headings else line)
