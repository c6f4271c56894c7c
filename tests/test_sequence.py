"""A cached sequence knows what its model's cache holds, also after a failure."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from localspec.errors import ModelError
from localspec.sequence import CachedSequence
from tests.tables import Rows, TableModel


class FailingModel(TableModel):
    """A model that fails when asked for token 3; like a recurrent one it can then only be cleared, if ``clears``."""

    def __init__(self, *, clears: bool) -> None:
        super().__init__(4, seed=0)
        self.clears = clears

    def decode(self, tokens: Sequence[int], n_rows: int = 1) -> Rows:
        if 3 in tokens:
            if self.clears:
                self.held.clear()
            raise ModelError("The back end failed.")
        return super().decode(tokens, n_rows)


def test_the_shared_prefix_is_kept_and_the_rest_dropped() -> None:
    sequence = CachedSequence(TableModel(4, seed=0))
    sequence.decode([0, 1, 2, 1], 0)
    assert sequence.keep_prefix([0, 1, 1, 2, 2]) == 2
    assert sequence.tokens == sequence.model.held == [0, 1]  # type: ignore[attr-defined]


def test_nothing_is_dropped_for_a_continuation() -> None:
    sequence = CachedSequence(TableModel(4, seed=0))
    sequence.decode([0, 1, 2], 0)
    assert sequence.keep_prefix([0, 1, 2, 1]) == 3
    assert sequence.rewind(7) == 3


@pytest.mark.parametrize("clears", [False, True])
def test_after_a_failed_pass_it_claims_only_what_the_cache_still_holds(clears: bool) -> None:
    model = FailingModel(clears=clears)
    sequence = CachedSequence(model)
    sequence.decode([0, 1, 2], 0)
    with pytest.raises(ModelError):
        sequence.decode([1, 3], 2)
    assert sequence.tokens == model.held == ([] if clears else [0, 1, 2])
    assert sequence.keep_prefix([0, 1, 2, 1]) == len(model.held)
