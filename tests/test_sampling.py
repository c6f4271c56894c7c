"""Filters and penalties against a plain implementation that sorts everything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from localspec.errors import ModelError
from localspec.sampling import BLOCK, Distribution, Processor, Sampling


def plain(row: NDArray[np.float32], path: Sequence[int], s: Sampling) -> dict[int, float]:
    """The same chain, token by token: logit bias, penalties, top-k, top-p, min-p, temperature."""
    logits = {i: float(x) for i, x in enumerate(row)}
    for token, bias in s.logit_bias:
        logits[token] += bias
    recent = path if s.repeat_last_n < 0 else path[len(path) - min(len(path), s.repeat_last_n) :]
    for token, n in Counter(recent).items():
        logits[token] = logits[token] * s.repeat_penalty if logits[token] <= 0 else logits[token] / s.repeat_penalty
        logits[token] -= n * s.frequency_penalty + s.presence_penalty
    kept = sorted((x for x in logits if logits[x] > -np.inf), key=lambda x: (-np.float32(logits[x]), x))
    if s.top_k > 0:
        kept = kept[: s.top_k]
    if s.top_p < 1.0:
        weights = np.exp([logits[x] - logits[kept[0]] for x in kept])
        kept = kept[: int(np.searchsorted(np.cumsum(weights / weights.sum()), s.top_p)) + 1]
    if s.min_p > 0.0:
        kept = [x for x in kept if logits[x] >= logits[kept[0]] + np.log(s.min_p)]
    scaled = np.exp([(logits[x] - logits[kept[0]]) / s.temp for x in kept])
    return dict(zip(kept, (scaled / scaled.sum()).tolist(), strict=True))


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n_vocab=st.sampled_from([3, 40, 700, 9000]),
    spread=st.sampled_from([0.5, 3.0, 12.0]),
    temp=st.sampled_from([0.3, 0.8, 1.5]),
    top_k=st.sampled_from([0, 1, 5, 40]),
    top_p=st.sampled_from([1.0, 0.95, 0.5]),
    min_p=st.sampled_from([0.0, 0.05, 0.4]),
    penalty=st.sampled_from([(1.0, 0.0, 0.0), (1.3, 0.2, 0.1)]),
    last_n=st.sampled_from([-1, 0, 8]),
)
def test_the_distribution_is_that_of_the_plain_chain(
    seed: int,
    n_vocab: int,
    spread: float,
    temp: float,
    top_k: int,
    top_p: float,
    min_p: float,
    penalty: tuple[float, float, float],
    last_n: int,
) -> None:
    rng = np.random.default_rng(seed)
    row = rng.normal(0.0, spread, n_vocab).astype(np.float32)
    path = rng.integers(0, n_vocab, 20).tolist()
    sampling = Sampling(temp, top_k, top_p, min_p, penalty[0], last_n, penalty[1], penalty[2], ((1, 0.5),))
    before = row.copy()
    found = Processor(sampling, n_vocab)(row, path)
    assert (row == before).all()
    expected = plain(row, path, sampling)
    # float32 sums may move the edge of a nucleus by one token when it falls on it.
    assert abs(len(found.ids) - len(expected)) <= (1 if top_p < 1.0 else 0)
    assert found.p.sum() == pytest.approx(1.0, abs=1e-12)
    if len(found.ids) == len(expected):
        assert set(found.ids.tolist()) == set(expected)
        for token, p in zip(found.ids, found.p, strict=True):
            assert p == pytest.approx(expected[int(token)], rel=1e-4, abs=1e-9)


def test_equal_logits_are_cut_at_the_lower_ids() -> None:
    row = np.zeros(BLOCK * 100, np.float32)
    found = Processor(Sampling(temp=1.0, top_k=4, top_p=1.0, min_p=0.0), len(row))(row, [])
    assert found.ids.tolist() == [0, 1, 2, 3]


def test_the_largest_logit_wins_at_temperature_zero_and_the_lower_id_in_a_tie() -> None:
    row = np.array([0.0, 3.0, 3.0, 1.0], np.float32)
    found = Processor(Sampling(temp=0.0), 4)(row, [])
    assert (found.ids.tolist(), found.p.tolist()) == ([1], [1.0])


def test_ids_beyond_the_smaller_vocabulary_are_never_kept() -> None:
    row = np.array([0.0, 1.0, 9.0], np.float32)
    assert 2 not in Processor(Sampling(), 2)(row, []).ids


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_logits_that_are_no_numbers_are_an_error_and_not_a_text(value: float) -> None:
    row = np.full(8, value, np.float32)
    with pytest.raises(ModelError, match="not numbers"):
        Processor(Sampling(), 8)(row, [])


def test_a_banned_token_has_no_probability() -> None:
    row = np.array([5.0, 1.0, 0.0], np.float32)
    found = Processor(Sampling(top_k=0, top_p=1.0, min_p=0.0, logit_bias=((0, float("-inf")),)), 3)(row, [])
    assert found.ids.tolist() == [1, 2]


def test_probabilities_are_looked_up_by_token_id() -> None:
    distribution = Distribution(np.array([2, 5, 9]), np.array([0.2, 0.3, 0.5]))
    assert distribution.probabilities(np.array([0, 2, 6, 9, 12])).tolist() == [0.0, 0.2, 0.0, 0.5, 0.0]
    assert [distribution.probability(token) for token in (5, 6, 99)] == [0.3, 0.0, 0.0]
