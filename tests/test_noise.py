"""Noise is a pure function with the law that it claims; chances accept and draw by their weights."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from localspec.noise import GumbelNoise, RandomChance

IDS = np.arange(50_000, dtype=np.int64)
MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mixed(x: int) -> int:
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def unmixed(x: int) -> int:
    """The inverse of ``mixed``."""
    for shift, factor in ((31, 0x94D049BB133111EB), (27, 0xBF58476D1CE4E5B9), (30, 1)):
        y = x
        for _ in range(64 // shift):
            y = x ^ (y >> shift)
        x = y * pow(factor, -1, 1 << 64) & MASK
    return x


def id_with_bits(bits: int, seed: int, position: int) -> NDArray[np.int64]:
    """The token id, as large as it may be, whose hash is ``bits``."""
    key = mixed((mixed((seed + GOLDEN) & MASK) + position * GOLDEN) & MASK)
    token = (unmixed(bits) - key) * pow(GOLDEN, -1, 1 << 64) - 1
    return np.array([token & MASK], np.uint64).view(np.int64)


def test_noise_is_the_same_whenever_it_is_asked_for() -> None:
    noise = GumbelNoise(7)
    first = noise(3, IDS)
    noise(4, IDS)
    assert np.array_equal(noise(3, IDS), first)
    assert np.array_equal(GumbelNoise(7)(3, IDS), first)


def test_noise_of_a_token_does_not_depend_on_the_others() -> None:
    noise = GumbelNoise(7)
    some = np.array([2, 40, 49_999], np.int64)
    assert np.array_equal(noise(3, some), noise(3, IDS)[some])


@pytest.mark.parametrize(("seed", "position"), [(8, 3), (7, 4), (7, 0), (0, 3), (2**32 - 1, 3)])
def test_another_seed_or_position_has_unrelated_noise(seed: int, position: int) -> None:
    one, other = GumbelNoise(7)(3, IDS), GumbelNoise(seed)(position, IDS)
    # Of independent pairs the correlation has a standard deviation of 1 / sqrt(n); 6 of them.
    assert abs(np.corrcoef(one, other)[0, 1]) < 6 / np.sqrt(len(IDS))


def test_neighbouring_seeds_positions_and_tokens_are_not_each_others_shifts() -> None:
    base = GumbelNoise(7)(3, IDS)
    for other in (GumbelNoise(8)(2, IDS), GumbelNoise(7)(4, IDS), GumbelNoise(6)(4, IDS)):
        assert len(np.intersect1d(base, other)) < 5


def test_the_noise_is_standard_gumbel() -> None:
    values = np.sort(np.concatenate([GumbelNoise(seed)(seed, IDS) for seed in range(4)]))
    expected = np.exp(-np.exp(-values))
    found = (np.arange(len(values)) + 0.5) / len(values)
    # Kolmogorov-Smirnov: a true sample exceeds 1.95 / sqrt(n) once in a thousand, and the seeds here are fixed.
    assert np.abs(found - expected).max() < 1.95 / np.sqrt(len(values))


def test_the_largest_score_draws_from_the_distribution() -> None:
    p = np.array([0.5, 0.3, 0.15, 0.05])
    ids, n = np.array([4, 9, 11, 20_000], np.int64), 20_000
    noise = GumbelNoise(1)
    counts = np.bincount([int(np.argmax(np.log(p) + noise(position, ids))) for position in range(n)], minlength=4)
    # Chi-square with 3 degrees of freedom exceeds 16.3 once in a thousand.
    assert (((counts - n * p) ** 2) / (n * p)).sum() < 16.3


@pytest.mark.parametrize("bits", [0, 1, MASK >> 1, MASK - 1, MASK])
@pytest.mark.filterwarnings("error")
def test_no_hash_value_gives_infinite_noise(bits: int) -> None:
    (value,) = GumbelNoise(7)(3, id_with_bits(bits, 7, 3))
    assert -3.7 < value < 36.8


def test_a_token_without_probability_is_never_accepted_and_a_likelier_one_always() -> None:
    chance = RandomChance(0)
    assert not any(chance.accept(0.0, 0.3) for _ in range(10_000))
    assert all(chance.accept(0.3, 0.3) for _ in range(10_000))
    assert all(chance.accept(0.4, 0.3) for _ in range(10_000))


def test_a_token_is_accepted_in_proportion() -> None:
    chance, n = RandomChance(0), 20_000
    accepted = sum(chance.accept(0.1, 0.4) for _ in range(n))
    assert abs(accepted - n / 4) < 5 * np.sqrt(n * 0.25 * 0.75)


def test_an_index_is_drawn_in_proportion_to_its_weight() -> None:
    weights, n = np.array([0.0, 3.0, 0.0, 1.0, 0.0]), 20_000
    chance = RandomChance(0)
    counts = np.bincount([chance.draw(weights) for _ in range(n)], minlength=5)
    assert counts[[0, 2, 4]].tolist() == [0, 0, 0]
    assert abs(counts[1] - n * 0.75) < 5 * np.sqrt(n * 0.25 * 0.75)


def test_the_seed_decides_every_chance() -> None:
    def decisions(seed: int) -> list[int]:
        chance = RandomChance(seed)
        return [chance.draw(np.ones(10)) + 10 * chance.accept(0.5, 1.0) for _ in range(50)]

    assert decisions(3) == decisions(3)
    assert decisions(3) != decisions(4)
