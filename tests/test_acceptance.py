"""Acceptance is learned by feature, follows a text that changes, and can be kept."""

from __future__ import annotations

import json
import random

import pytest

from localspec.acceptance import Acceptance

PRIOR = (0.2, 0.5, 0.8)


def test_before_anything_was_seen_the_prior_holds_moved_to_the_level() -> None:
    found = Acceptance(PRIOR, 0.5)
    assert [found.probability(i) for i in range(3)] == pytest.approx(PRIOR, abs=0.01)
    easier = Acceptance(PRIOR, 0.7)
    assert sum(easier.probability(i) for i in range(3)) / 3 == pytest.approx(0.7, abs=0.01)
    assert easier.level == 0.7


def test_each_feature_learns_its_own_rate() -> None:
    found, chance, true = Acceptance(PRIOR, 0.5), random.Random(1), (0.6, 0.3, 0.95)
    for _ in range(900):
        feature = chance.randrange(3)
        found.learn(feature, chance.random() < true[feature])
    assert [found.probability(i) for i in range(3)] == pytest.approx(true, abs=0.12)
    assert found.frequency == pytest.approx([1 / 3] * 3, abs=0.15)
    assert found.seen == 900


def test_a_text_that_changes_is_followed_within_a_few_tokens() -> None:
    found = Acceptance(PRIOR, 0.5)
    for _ in range(300):
        found.learn(2, accepted=True)
    assert found.probability(2) > 0.95
    for _ in range(16):
        found.learn(2, accepted=False)
    assert found.probability(2) < 0.8
    assert found.level < 0.5


def test_tokens_that_were_passed_over_lower_the_level_but_teach_nothing() -> None:
    found = Acceptance(PRIOR, 0.5)
    before = found.probability(0)
    for _ in range(50):
        found.pass_over(0)
    assert found.probability(0) == before
    assert found.level < 0.3
    assert found.seen == 0


def test_what_was_learned_survives_as_json() -> None:
    found = Acceptance(PRIOR, 0.5)
    for i in range(40):
        found.learn(i % 3, accepted=i % 2 == 0)
    kept = Acceptance(PRIOR, 0.9)
    kept.restore(json.loads(json.dumps(found.state())))
    # The shift belongs to the text, not to the task, and is not kept.
    assert kept.state() == found.state()


def test_what_one_text_taught_fades_while_nothing_is_drafted() -> None:
    found = Acceptance(PRIOR, 0.5)
    for _ in range(60):
        found.learn(2, accepted=False)
    bad = found.probability(2)
    found.begin()
    after_one = found.probability(2)
    # The shift belonged to the text before; the counts stay, because that text was drafted.
    assert bad < after_one < 0.15
    for _ in range(20):
        found.begin()
    assert found.probability(2) == pytest.approx(PRIOR[2], abs=0.05)
    for _ in range(60):
        found.learn(2, accepted=True)
        found.begin()
    assert found.probability(2) > 0.9


@pytest.mark.parametrize(
    "damage",
    [
        {"tried": [1.0]},
        {"kept": [9.0, 9.0, 9.0]},
        {"level": 2.0},
        {"seen": -1},
        {"tried": [float("nan")] * 3},
        {"frequency": [0.5, 0.5]},
        {"frequency": "none"},
    ],
)
def test_counts_that_do_not_fit_are_refused(damage: dict[str, object]) -> None:
    found = Acceptance(PRIOR, 0.5)
    before = found.state()
    with pytest.raises((ValueError, KeyError, TypeError)):
        found.restore({**before, **damage})
    assert found.state() == before
