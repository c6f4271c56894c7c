"""The index of a text finds where its end stood before, and costs the same few steps for every token."""

from __future__ import annotations

import random

import pytest

from localspec.drafters.lookup import ANCHORS, LONGEST, PRIOR, Match, TextIndex


def index_of(tokens: list[int] | range) -> TextIndex:
    index = TextIndex()
    index.follow(list(tokens))
    return index


def longest_match(tokens: list[int]) -> int:
    """By comparing every place: the length of the longest match of the end that a shortest anchor can find."""
    best = 0
    for place in range(1, len(tokens)):
        n = 0
        while n < min(place, LONGEST) and tokens[place - 1 - n] == tokens[len(tokens) - 1 - n]:
            n += 1
        best = max(best, n)
    return best if best >= min(ANCHORS) else 0


def test_what_followed_the_same_words_is_found() -> None:
    index = index_of([1, 2, 3, 4, 5, 9, 2, 3, 4])
    match = index.match()
    assert match == Match(place=4, length=3)
    assert index.after(match.place, 3) == [5, 9, 2]


def test_a_text_that_does_not_repeat_has_no_match() -> None:
    assert index_of(range(100)).match() is None
    assert index_of([]).match() is None
    assert index_of([1, 2, 3, 1]).match() is None


def test_the_longest_match_wins_then_the_most_frequent_then_the_latest() -> None:
    assert index_of([7, 1, 2, 5, 8, 1, 2, 6, 7, 1, 2]).match() == Match(3, 3, contested=False)
    frequent = index_of([1, 2, 5, 1, 2, 6, 1, 2, 5, 1, 2, 6, 1, 2, 5, 9, 1, 2])
    match = frequent.match()
    assert match is not None
    assert (frequent.tokens[match.place], match.contested) == (5, True)
    latest = index_of([1, 2, 5, 3, 1, 2, 6, 4, 1, 2]).match()
    assert latest == Match(6, 2, contested=True)


def test_a_proposal_goes_on_with_itself_where_the_text_ends() -> None:
    index = index_of([5, 1, 2, 1, 2])
    match = index.match()
    assert match is not None
    assert index.after(match.place, 6) == [1, 2, 1, 2, 1, 2]


@pytest.mark.parametrize("seed", range(20))
def test_on_random_texts_the_match_is_as_long_as_any(seed: int) -> None:
    chance = random.Random(seed)
    tokens = [chance.randrange(3) for _ in range(chance.randrange(4, 40))]
    match = index_of(tokens).match()
    found = 0 if match is None else match.length
    # Only the latest places of an n-gram are compared, so a longer match further back may be missed, never invented.
    assert found <= longest_match(tokens)
    assert (found > 0) == (longest_match(tokens) > 0)
    if match is not None:
        assert tokens[match.place - found : match.place] == tokens[len(tokens) - found :]


@pytest.mark.parametrize("seed", range(10))
def test_following_another_text_leaves_the_index_of_that_text(seed: int) -> None:
    chance = random.Random(seed)
    index = TextIndex()
    for _ in range(6):
        common = index.tokens[: chance.randrange(len(index.tokens) + 1)]
        tokens = common + [chance.randrange(4) for _ in range(chance.randrange(30))]
        index.follow(tokens)
        fresh = index_of(tokens)
        assert index.tokens == fresh.tokens
        assert index._places == fresh._places


def test_a_match_is_resumed_after_a_changed_word() -> None:
    old = list(range(10, 30))
    # The copy says 99 for 14 and goes on with 15, which stood elsewhere too, with another token after it.
    index = index_of([1, 15, 77, 2, *old, 10, 11, 12, 13, 99, 15])
    place = 4 + old.index(16)
    assert index.match(place) == Match(place, 1, resumed=True)
    # A word left out or put in moves the place by a few tokens.
    assert index.match(place + 2) == Match(place, 1, resumed=True)
    assert index.match() is None
    assert index.match(len(index.tokens) + 50) is None
    # A much longer match elsewhere wins.
    longer = index_of([*old, 50, 51, *old[:12]])
    assert longer.match(3) == Match(12, 12)


def test_a_token_costs_the_same_however_long_the_text() -> None:
    class Counted(list):  # type: ignore[type-arg]
        touched = 0

        def __getitem__(self, place: object) -> object:
            found = super().__getitem__(place)  # type: ignore[index]
            Counted.touched += len(found) if isinstance(found, list) else 1
            return found

    def touched(length: int) -> int:
        index = TextIndex()
        index.tokens = Counted()
        for i in range(length):
            index.append(i % 50)
        Counted.touched = 0
        index.append(length % 50)
        index.match()
        return Counted.touched

    assert touched(40_000) == touched(4_000)


def test_every_length_has_its_class_and_accepted_tokens_move_up() -> None:
    for contested in (False, True):
        features = [Match(100, length, contested).feature(0) for length in range(2, 50)]
        assert features == sorted(features)
        assert all(0 <= feature < len(PRIOR) for feature in features)
    contested = Match(100, 2, contested=True)
    assert contested.feature(1) == Match(100, 3, contested=False).feature(0)
