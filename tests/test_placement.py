"""Layers are put on the cards as far as they fit with their caches, the target's first."""

from __future__ import annotations

from pathlib import Path

import pytest

from localspec import memory
from localspec.ggml import Device
from localspec.gguf import read_header
from localspec.placement import Demand, Placement, layer_bytes, place
from tests import synthetic

GIB = 2**30


def card(free: int, name: str = "CUDA0") -> Device:
    """A card whose reserve is known: 512 MiB and a twentieth of 10 GiB."""
    return Device(name, "A card", "gpu", free + 512 * 2**20 + GIB // 2, 10 * GIB)


CPU = Device("CPU", "A processor", "cpu", 64 * GIB, 64 * GIB)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Demand, Demand]:
    folder = tmp_path_factory.mktemp("models")

    def demand(path: Path) -> Demand:
        header = read_header(path)
        return Demand(header, memory.estimate(header, 1024))

    return (
        demand(synthetic.tiny_llama(folder / "target.gguf", n_layer=6)),
        demand(synthetic.tiny_llama(folder / "draft.gguf", n_layer=2)),
    )


def needed(demand: Demand, n: int) -> int:
    return demand.memory.compute + sum(layer_bytes(demand)[:n])


def test_a_card_with_room_takes_both_models_whole(pair: tuple[Demand, Demand]) -> None:
    found = place(*pair, [CPU, card(8 * GIB)])
    assert (found.target_layers, found.draft_layers) == (7, 3)
    assert found.sentence.startswith(
        "On CUDA0 (A card, 9.0 GiB free): all 7 layers of the target and all 3 layers of the"
    )
    assert "makes room" not in found.sentence


@pytest.mark.parametrize("n", range(1, 8))
def test_a_small_card_takes_as_many_layers_of_the_target_as_fit(pair: tuple[Demand, Demand], n: int) -> None:
    target, draft = pair
    exactly = needed(target, n)
    assert place(target, None, [card(exactly)]).target_layers == n
    assert place(target, None, [card(exactly - 1)]).target_layers == n - 1
    # The draft gets what the target leaves, which is nothing here.
    assert place(target, draft, [card(exactly)]) == Placement(n, 0, place(target, draft, [card(exactly)]).sentence)


def test_the_draft_gets_what_the_target_leaves(pair: tuple[Demand, Demand]) -> None:
    target, draft = pair
    free = needed(target, 7) + needed(draft, 2)
    found = place(target, draft, [card(free)])
    assert (found.target_layers, found.draft_layers) == (7, 2)
    assert "2 of 3 layers of the draft" in found.sentence
    assert "a smaller `--ctx-size`" in found.sentence


def test_several_cards_add_up(pair: tuple[Demand, Demand]) -> None:
    target, _ = pair
    half = needed(target, 7) // 2 + 1
    found = place(target, None, [card(half), card(half, "CUDA1")])
    assert found.target_layers == 7
    assert "CUDA1" in found.sentence


def test_what_the_user_asks_for_is_done(pair: tuple[Demand, Demand]) -> None:
    target, draft = pair
    asked = Demand(target.header, target.memory, layers=2)
    assert place(asked, draft, [card(8 * GIB)]).target_layers == 2
    assert place(Demand(target.header, target.memory, layers=0), None, [card(8 * GIB)]).target_layers == 0
    assert place(Demand(target.header, target.memory, layers=99), None, [card(0)]).target_layers == 7


def test_a_full_card_takes_nothing(pair: tuple[Demand, Demand]) -> None:
    found = place(*pair, [Device("CUDA0", "A card", "gpu", 100, 10 * GIB)])
    assert (found.target_layers, found.draft_layers) == (0, 0)


def test_without_a_card_everything_is_on_the_cpu(pair: tuple[Demand, Demand]) -> None:
    found = place(*pair, [CPU])
    assert (found.target_layers, found.draft_layers) == (0, 0)
    assert "everything runs on the CPU" in found.sentence


def test_the_layers_add_up_to_the_weights_and_the_cache(pair: tuple[Demand, Demand]) -> None:
    for demand in pair:
        embeddings = sum(t.n_bytes for t in demand.header.tensors if t.name == "token_embd.weight")
        tied = all(not t.name.startswith("output.") for t in demand.header.tensors)
        expected = demand.header.weight_bytes + demand.memory.kv - (0 if tied else embeddings)
        assert sum(layer_bytes(demand)) == pytest.approx(expected, abs=demand.header.n_layer)
