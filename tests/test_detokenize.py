"""Text is released as soon as it is final: never half a character, never part of a stop string."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.detokenize import TextStream
from localspec.llama import Model


def streamed(pieces: Sequence[bytes], stop: Sequence[str] = ()) -> tuple[list[str], str, str | None]:
    """Text after each piece until a stop string, the text at the end, and the stop string."""
    stream = TextStream(stop)
    texts = []
    for piece in pieces:
        texts.append(stream.push(piece))
        if stream.stopped_by is not None:
            break
    return texts, stream.finish(), stream.stopped_by


def letters(text: str) -> list[bytes]:
    return [letter.encode() for letter in text]


def test_text_without_stop_strings_is_released_at_once() -> None:
    assert streamed([b"Hel", b"lo", b""]) == (["Hel", "lo", ""], "", None)


def test_a_character_over_several_tokens_comes_out_whole() -> None:
    assert streamed([b"a\xf0\x9f", b"\xa6", b"\x99b"]) == (["a", "", "🦙b"], "", None)


def test_an_emoji_that_a_real_vocabulary_splits_comes_out_whole(smollm2: Path) -> None:
    text = "🦙 and 👩‍🚀"
    with Model(smollm2) as model:
        pieces = [model.vocab.piece(token) for token in model.vocab.tokenize(text)]
    texts, rest, _ = streamed(pieces)
    assert "".join(texts) + rest == text
    assert not any("\ufffd" in part for part in texts)
    assert "" in texts


def test_half_a_character_at_the_end_is_shown_as_such() -> None:
    assert streamed([b"a", b"\xf0\x9f"]) == (["a", ""], "\ufffd", None)


def test_bytes_that_are_no_character_do_not_hold_up_what_follows() -> None:
    assert streamed([b"\xff", b"a"]) == (["\ufffd", "a"], "", None)


def test_a_stop_string_over_several_tokens_ends_the_text_before_it() -> None:
    assert streamed([b"one\n", b"\nUs", b"er", b": two"], ["\n\nUser:"]) == (["one", "", "", ""], "", "\n\nUser:")


def test_a_stop_string_inside_a_token_ends_the_text_before_it() -> None:
    assert streamed([b"one END two"], ["END"]) == (["one "], "", "END")


def test_the_start_of_a_stop_string_is_released_once_it_goes_on_otherwise() -> None:
    assert streamed([b"a<", b"/", b"b>"], ["</s>"]) == (["a", "", "</b>"], "", None)


def test_the_start_of_a_stop_string_is_released_at_the_end() -> None:
    assert streamed([b"a<", b"/"], ["</s>"]) == (["a", ""], "</", None)


def test_a_stop_string_that_overlaps_its_own_start_is_found() -> None:
    assert streamed(letters("xaaab"), ["aab"]) == (["x", "", "", "a", ""], "", "aab")


def test_of_two_stop_strings_the_first_in_the_text_wins_then_the_longer() -> None:
    for stop in (["cd", "bc"], ["bc", "cd"]):
        assert streamed([b"abcd"], stop) == (["a"], "", "bc")
    for stop in (["b", "bc"], ["bc", "b"]):
        assert streamed([b"abcd"], stop) == (["a"], "", "bc")


def test_a_stop_string_may_split_a_character_of_the_stream() -> None:
    assert streamed([b"a\xe2\x80", b"\xa6b"], ["…"]) == (["a", ""], "", "…")


def test_an_empty_stop_string_stops_nothing() -> None:
    assert streamed([b"abc"], [""]) == (["abc"], "", None)


@given(st.text("ab", max_size=30), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3))
def test_token_by_token_text_ends_where_the_first_stop_string_begins(text: str, stop: list[str]) -> None:
    texts, rest, stopped_by = streamed(letters(text), stop)
    released = "".join(texts) + rest
    # The earliest completed stop string is the one that ends a stream; it may begin after a longer unfinished one.
    ends = [index + len(s) for s in stop if (index := text.find(s)) >= 0]
    if not ends:
        assert (released, stopped_by) == (text, None)
    else:
        assert stopped_by is not None
        assert released + stopped_by == text[: min(ends)]


@pytest.mark.parametrize("pieces", [[b"aXYb"], [b"aX", b"Yb"], [b"a", b"X", b"Y", b"b"]])
def test_how_the_text_is_cut_into_tokens_does_not_matter(pieces: list[bytes]) -> None:
    texts, rest, stopped_by = streamed(pieces, ["XY"])
    assert ("".join(texts) + rest, stopped_by) == ("a", "XY")
