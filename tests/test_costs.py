"""Costs are measured in little time, put the caches back, and follow a machine whose speed changes."""

from __future__ import annotations

import random

import pytest

from localspec.costs import BUDGET_S, FLAT, MAX_WIDTH, WIDTHS, Costs, Curve, measure
from tests.tables import TableModel

CURVE = Curve(0.04, ((1, 1.0), (2, 1.7), (4, 3.1), (8, 6.0)), 0.6, 0.1)


class Clocked(TableModel):
    """A model whose passes take a time of their own on a clock that nothing else moves."""

    now = 0.0

    def __init__(self, step: float, token: float) -> None:
        super().__init__(3, seed=1)
        self._step, self._token, self.widest = step, token, 0

    def decode(self, tokens, n_rows=1):  # type: ignore[no-untyped-def]
        Clocked.now += self._step + self._token * (len(tokens) - 1)
        self.widest = max(self.widest, len(tokens))
        return super().decode(tokens, n_rows)


def clock() -> float:
    return Clocked.now


def test_a_first_measurement_finds_the_costs_and_leaves_the_caches_empty() -> None:
    target, draft = Clocked(0.010, 0.005), Clocked(0.004, 0.001)
    seen: list[float] = []
    curve = measure(target, draft, progress=seen.append, clock=clock)
    costs = Costs(curve)
    assert curve.dense_s == pytest.approx(0.010)
    for width in (1, 2, 3, 7, 8, 16, 32):
        assert costs.width(width) == pytest.approx(1 + 0.5 * (width - 1), rel=1e-6)
    assert costs.step == pytest.approx(0.4)
    assert costs.catch_up(10) == pytest.approx(1.0)
    assert (target.held, draft.held) == ([], [])
    assert seen == sorted(seen)
    assert seen[-1] <= 1.0


def test_a_slow_model_is_measured_within_the_budget() -> None:
    target = Clocked(0.3, 0.2)
    began = clock()
    curve = measure(target, None, clock=clock)
    # Beside the first passes, which bring the weights into memory, and two widths at least.
    assert clock() - began < BUDGET_S + 4.0
    assert [width for width, _ in curve.widths][:3] == [1, 2, 4]
    assert max(width for width, _ in curve.widths) < max(WIDTHS)
    assert curve.draft_step == 0.0


@pytest.mark.parametrize("n_batch", [1, 2, 7])
def test_only_passes_that_fit_into_a_batch_are_measured(n_batch: int) -> None:
    target, draft = Clocked(0.010, 0.005), Clocked(0.004, 0.001)
    target.n_batch = draft.n_batch = n_batch
    curve = measure(target, draft, clock=clock)
    assert max(target.widest, draft.widest) <= n_batch
    assert [width for width, _ in curve.widths] == [w for w in (1, 2, 3, 4, 5, 6) if w <= n_batch]
    assert (target.held, draft.held) == ([], [])


def test_widths_between_and_beyond_the_measured_ones_have_a_cost_too() -> None:
    costs = Costs(CURVE)
    assert costs.width(3) == pytest.approx(2.4)
    assert costs.width(12) == pytest.approx(9.0)
    assert [costs.width(w) for w in range(1, MAX_WIDTH + 1)] == sorted(costs.width(w) for w in range(1, MAX_WIDTH + 1))


def test_before_anything_was_measured_there_is_no_dense_time() -> None:
    costs = Costs()
    assert costs.dense_s is None
    assert costs.width(2) == Costs(FLAT).width(2)
    costs.observe_target(1, 0.05)
    assert costs.dense_s == pytest.approx(0.05)


@pytest.mark.parametrize("factor", [0.5, 3.0])
def test_a_machine_that_changes_its_speed_changes_the_dense_time_and_not_the_ratios(factor: float) -> None:
    costs = Costs(CURVE)
    before = [costs.width(w) for w in (2, 4, 8)], costs.step
    chance = random.Random(1)
    for _ in range(60):
        width = chance.choice((1, 2, 4, 5, 8))
        slowness = factor * chance.lognormvariate(0, 0.05)
        costs.observe_target(width, slowness * 0.04 * Costs(CURVE).width(width))
        costs.observe_draft(2, 1, slowness * 0.04 * (2 * 0.6 + 0.1))
    assert costs.dense_s == pytest.approx(factor * 0.04, rel=0.15)
    assert [costs.width(w) for w in (2, 4, 8)] == pytest.approx(before[0], rel=0.2)
    assert costs.step == pytest.approx(before[1], rel=0.15)


def test_one_pause_of_the_machine_changes_little() -> None:
    costs = Costs(CURVE)
    costs.observe_target(4, 30.0)
    assert costs.dense_s == pytest.approx(0.04, rel=0.1)
    assert costs.width(4) == pytest.approx(3.1, rel=0.05)


def test_one_pause_while_the_draft_reads_does_not_make_reading_dear() -> None:
    costs = Costs(CURVE)
    costs.observe_draft(2, 100, 60.0)
    assert costs.catch_up(100) < 1.5 * CURVE.draft_token * 100
    for _ in range(40):
        costs.observe_draft(2, 100, 0.04 * (2 * 0.6 + 100 * 0.3))
    assert costs.catch_up(100) == pytest.approx(30.0, rel=0.1)


def test_a_ratio_that_was_measured_wrongly_is_corrected_by_real_rounds() -> None:
    costs = Costs(CURVE)
    for i in range(600):
        costs.observe_target(1 if i % 2 else 4, 0.04 * (1.0 if i % 2 else 2.0))
    assert costs.width(4) == pytest.approx(2.0, rel=0.1)
    assert costs.dense_s == pytest.approx(0.04, rel=0.1)


@pytest.mark.parametrize("wrong", [0.4, 2.5])
def test_a_curve_that_is_wrong_throughout_is_soon_corrected_where_dense_rounds_come_between(wrong: float) -> None:
    costs, chance = Costs(Curve(0.04, ((1, 1.0), (2, 1.0 + 0.7 * wrong), (4, 1.0 + 2.1 * wrong)))), random.Random(1)
    for i in range(120):
        width = 1 if i % 8 == 0 else chance.choice((2, 4))
        costs.observe_target(width, chance.lognormvariate(0, 0.1) * 0.04 * Costs(CURVE).width(width))
    assert costs.dense_s == pytest.approx(0.04, rel=0.15)
    assert [costs.width(2), costs.width(4)] == pytest.approx([1.7, 3.1], rel=0.25)


def test_noise_alone_moves_no_ratio() -> None:
    costs, chance = Costs(CURVE), random.Random(2)
    for i in range(2000):
        width = 1 if i % 8 == 0 else chance.choice((2, 4))
        costs.observe_target(width, chance.lognormvariate(0, 0.15) * 0.04 * Costs(CURVE).width(width))
    assert [costs.width(2), costs.width(4)] == pytest.approx([1.7, 3.1], rel=0.1)


def test_a_dense_round_is_due_after_many_that_were_not_and_later_where_all_is_as_expected() -> None:
    costs, waited = Costs(CURVE), []
    for _ in range(6):
        rounds = 0
        while not costs.dense_is_due:
            costs.observe_target(4, 0.04 * 3.1)
            rounds += 1
        costs.observe_target(1, 0.04)
        waited.append(rounds)
    assert waited == [8, 16, 32, 64, 64, 64]


def test_what_was_refined_can_be_kept() -> None:
    costs = Costs(CURVE)
    costs.observe_target(2, 0.1)
    kept = Costs(costs.curve())
    assert kept.dense_s == pytest.approx(costs.dense_s)
    assert kept.width(2) == pytest.approx(costs.width(2))
    assert kept.step == pytest.approx(costs.step)
