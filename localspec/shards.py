"""Models that are split over several files, named ``NAME-00001-of-00003.gguf`` and so on."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

from localspec.errors import GGUFError
from localspec.header import UINT16, Header

PATTERN = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")


def siblings(path: Path) -> tuple[Path, ...]:
    """Every file of the split model that ``path`` belongs to, in order, whether or not it exists; else ``path``."""
    match = PATTERN.fullmatch(path.name)
    if match is None:
        return (path,)
    count = int(match["count"])
    return tuple(path.with_name(f"{match['stem']}-{n:05d}-of-{count:05d}.gguf") for n in range(1, count + 1))


def join(first: Header, path: Path, read: Callable[[Path], Header]) -> Header:
    """The header of a whole split model from that of its first file; the other files are found by their names."""
    count = first.split_count
    match = PATTERN.fullmatch(path.name)
    if match is None or int(match["count"]) != count:
        raise GGUFError(f"{path} is one of {count} parts, so its name must end in -00001-of-{count:05d}.gguf.")
    paths = siblings(path)
    if first.integer("split.no") != 0 or int(match["number"]) != 1:
        raise GGUFError(f"{path} is not the first of {count} parts, so name {paths[0].name} instead.")
    missing = [part.name for part in paths if not part.is_file()]
    if missing:
        raise GGUFError(f"{path} is one of {count} parts and {', '.join(missing)} is missing, so download it as well.")
    parts = [first, *(read(part) for part in paths[1:])]
    for number, part in enumerate(parts):
        # llama.cpp aborts on a part number of another type.
        if part.integer("split.no") != number or part.types["split.no"] != UINT16:
            raise GGUFError(f"{part.source} is damaged: it does not say that it is part {number + 1} of {count}.")
    tensors = tuple(tensor for part in parts for tensor in part.tensors)
    if len({tensor.name for tensor in tensors}) != len(tensors):
        raise GGUFError(f"{path} is damaged: its parts hold the same tensor twice.")
    stated = first.integer("split.tensors.count")
    if stated != len(tensors):
        raise GGUFError(f"{path} is damaged: its parts hold {len(tensors)} tensors instead of {stated}.")
    size = sum(part.file_size or 0 for part in parts)
    return dataclasses.replace(first, tensors=tensors, file_size=size, shards=paths)
