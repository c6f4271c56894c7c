"""The number of threads is the one that decodes fastest, on a clock that the models move themselves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from localspec import threads
from tests.tables import TableModel


class Machine(TableModel):
    """A model whose passes take the time that its number of threads gives it."""

    def __init__(self, seconds: Callable[[int, int], float]) -> None:
        super().__init__(3, seed=1)
        self.now, self.n, self.passes, self._seconds = 0.0, 0, 0, seconds

    def set_threads(self, n: int) -> None:
        self.n = n

    def decode(self, tokens, n_rows=1):  # type: ignore[no-untyped-def]
        self.passes += 1
        self.now += self._seconds(self.n, self.passes) if self.n else 0.0
        return super().decode(tokens, n_rows)

    def choose(self, *numbers: int) -> int:
        return threads.choose(self, numbers, clock=lambda: self.now)


@pytest.mark.parametrize(("best", "usual"), [(2, 4), (8, 4), (4, 4)])
def test_the_fastest_number_is_chosen_and_set(best: int, usual: int) -> None:
    machine = Machine(lambda n, _: 0.01 * (1 + abs(n - best)))
    assert machine.choose(usual, 2, 4, 8) == best
    assert machine.n == best
    assert machine.held == []


def test_a_small_advantage_is_no_reason_to_leave_the_usual_number() -> None:
    assert Machine(lambda n, _: 0.0098 if n == 8 else 0.01).choose(4, 8) == 4


def test_one_pause_of_the_machine_does_not_decide() -> None:
    assert Machine(lambda n, i: (0.01 if n == 4 else 0.02) + (5.0 if i == 9 else 0.0)).choose(4, 8) == 4


def test_a_slow_model_is_not_measured_for_long() -> None:
    machine = Machine(lambda _n, _i: 2.0)
    machine.choose(1, 2)
    assert machine.passes <= 6


def test_candidates_begin_with_the_usual_number_and_are_allowed() -> None:
    found = threads.candidates()
    assert found[0] == threads.usual()
    assert len(found) == len(set(found))
    assert all(n >= 1 for n in found)
