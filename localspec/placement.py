"""How many layers of a pair go to the graphics cards: as many as fit with their KV caches, the target's first.

llama.cpp puts the last layers of a model on the cards, and its output layer with the last of all; the embeddings of the
input stay in RAM. A layer takes its weights and its share of the KV cache; what a pass computes needs room once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from localspec.ggml import Device
from localspec.header import Header
from localspec.memory import MemoryEstimate

RESERVE_BYTES = 512 * 2**20
"""Left free on each card, for its driver's own needs and for other programs."""
RESERVE_SHARE = 0.05
_BLOCK = re.compile(r"blk\.(\d+)\.")
_OUTPUT = ("output", "output_norm")


@dataclass(frozen=True, slots=True)
class Demand:
    """A model and the memory of its context."""

    header: Header
    memory: MemoryEstimate
    layers: int = -1
    """As many as the user asks for; negative for as many as fit."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Layers on the cards, the output layer counted as one, as llama.cpp's ``n_gpu_layers`` counts."""

    target_layers: int
    draft_layers: int
    sentence: str
    """What was decided and why, for the user."""


def place(target: Demand, draft: Demand | None, devices: Sequence[Device]) -> Placement:
    """Decide for a pair. Without a card everything is on the CPU."""
    cards = [device for device in devices if device.kind == "gpu"]
    if not cards:
        return Placement(0, 0, "There is no graphics card that this build can use: everything runs on the CPU.")
    free = sum(max(0, card.free_bytes - RESERVE_BYTES - int(RESERVE_SHARE * card.total_bytes)) for card in cards)
    taken, layers = 0, []
    for demand in (target, draft):
        if demand is None:
            layers.append(0)
            continue
        n, used = _fitting(demand, free - taken)
        taken += used
        layers.append(n)
    return Placement(layers[0], layers[1], _sentence(target, draft, layers, cards, taken))


def layer_bytes(demand: Demand) -> list[int]:
    """Bytes of each layer on a card, in the order in which llama.cpp puts them there: the output first, then the last
    layer, down to the first."""
    header = demand.header
    blocks, output = [0] * header.n_layer, 0
    tied = all(not tensor.name.startswith("output.") for tensor in header.tensors)
    for tensor in header.tensors:
        found = _BLOCK.match(tensor.name)
        if found and int(found.group(1)) < header.n_layer:
            blocks[int(found.group(1))] += tensor.n_bytes
        elif tensor.name.partition(".")[0] in _OUTPUT or (tied and tensor.name == "token_embd.weight"):
            output += tensor.n_bytes
    cache = demand.memory.kv // max(1, header.n_layer)
    return [output, *(weights + cache for weights in reversed(blocks))]


def _fitting(demand: Demand, free: int) -> tuple[int, int]:
    """Layers that fit into ``free`` bytes, or that were asked for, and the bytes that they take."""
    sizes = layer_bytes(demand)
    used = demand.memory.compute
    if demand.layers >= 0:
        n = min(demand.layers, len(sizes))
        return n, used + sum(sizes[:n]) if n else 0
    n = 0
    while n < len(sizes) and used + sizes[n] <= free:
        used += sizes[n]
        n += 1
    return (n, used) if n else (0, 0)


def _sentence(target: Demand, draft: Demand | None, layers: Sequence[int], cards: Sequence[Device], taken: int) -> str:
    parts = [_share("target", target, layers[0])]
    if draft is not None:
        parts.append(_share("draft", draft, layers[1]))
    names = ", ".join(f"{card.name} ({card.description}, {card.free_bytes / 2**30:.1f} GiB free)" for card in cards)
    whole = layers[0] == len(layer_bytes(target)) and (draft is None or layers[1] == len(layer_bytes(draft)))
    hint = "" if whole else "; a smaller `--ctx-size` or `-ctk q8_0 -ctv q8_0` makes room for more"
    return f"On {names}: {' and '.join(parts)}, about {taken / 2**30:.1f} GiB{hint}."


def _share(role: str, demand: Demand, n: int) -> str:
    most = len(layer_bytes(demand))
    return f"all {most} layers of the {role}" if n == most else f"{n} of {most} layers of the {role}"
