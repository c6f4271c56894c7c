"""The text itself drafts: what followed the last words where they stood before is proposed again (prompt lookup,
Saxena 2023). No model, no time to speak of; made for edits, quotations and structured output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

ANCHORS = (8, 4, 2)
"""Lengths of the n-grams that find earlier places, the longest first."""
CANDIDATES = 8
"""The most recent places of an n-gram that are compared."""
LONGEST = 32
"""Matches are compared no further back than this."""
NEAR = 6
"""Tokens on both sides of where an earlier match would have gone on that are searched after it broke off."""
LENGTHS = (1, 2, 3, 4, 6, 9, 16, 32)
"""Lower ends of the classes of match lengths that acceptance is learned for."""
PRIOR = (
    *(0.15, 0.25, 0.35, 0.45, 0.60, 0.75, 0.82, 0.86),
    *(0.10, 0.15, 0.25, 0.35, 0.45, 0.60, 0.70, 0.75),
    *(0.35, 0.50, 0.60, 0.65, 0.75, 0.82, 0.87, 0.90),
)
"""Acceptance by class to begin with: of plain, of contested and of resumed matches. Low, because it costs nothing to
learn better: what a match would have proposed can be held against the text without drafting it."""


@dataclass(frozen=True, slots=True)
class Match:
    """The end of the text stands at an earlier place too."""

    place: int
    """Index of the token that followed there."""
    length: int
    """Tokens that are the same before it, at most ``LONGEST``."""
    contested: bool = False
    """Whether another place with a match as long was followed by another token."""
    resumed: bool = False
    """Whether it goes on where an earlier match was broken off by a word that was changed."""

    def feature(self, j: int) -> int:
        """Class of the j-th token proposed (0 for the first): each accepted token makes the match longer."""
        kind = 2 if self.resumed else 1 if self.contested and j == 0 else 0
        return kind * len(LENGTHS) + sum(self.length + j >= low for low in LENGTHS) - 1


class TextIndex:
    """Where each n-gram of a text stands. Adding or removing a token at the end takes the same few steps always."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._places: dict[int, dict[tuple[int, ...], list[int]]] = {n: {} for n in ANCHORS}

    def follow(self, tokens: Sequence[int]) -> None:
        """Become the index of ``tokens``, keeping what is common at the start."""
        held = len(self.tokens)
        if held > len(tokens) or self.tokens != tokens[:held]:
            common = next(
                (i for i, (a, b) in enumerate(zip(self.tokens, tokens, strict=False)) if a != b),
                min(held, len(tokens)),
            )
            while len(self.tokens) > common:
                self.pop()
        for token in tokens[len(self.tokens) :]:
            self.append(token)

    def append(self, token: int) -> None:
        end = len(self.tokens)
        for n in ANCHORS:
            if end >= n:
                self._places[n].setdefault(tuple(self.tokens[end - n :]), []).append(end)
        self.tokens.append(token)

    def pop(self) -> None:
        self.tokens.pop()
        end = len(self.tokens)
        for n in ANCHORS:
            if end >= n:
                gram = tuple(self.tokens[end - n :])
                places = self._places[n][gram]
                places.pop()
                if not places:
                    del self._places[n][gram]

    def match(self, expected: int | None = None) -> Match | None:
        """The longest match of the end of the text; of equals what most often followed, and of these the latest.

        ``expected`` is the place at which the match of the tokens before would go on. An edit changes a word here and
        there and copies the rest, so a match near that place is taken even where it is short.
        """
        end = len(self.tokens)
        near = None if expected is None else self._near(expected)
        for n in ANCHORS:
            places = self._places[n].get(tuple(self.tokens[end - n :])) if end >= n else None
            if places:
                best = self._best(places[-CANDIDATES:], n)
                return near if near is not None and near.length + NEAR >= best.length else best
        return near

    def _near(self, expected: int) -> Match | None:
        """The longest match near a place, the nearest of equals."""
        places = range(max(1, expected - NEAR), min(len(self.tokens), expected + NEAR + 1))
        best = max(places, key=lambda place: (self._length(place, 0), -abs(place - expected)), default=None)
        length = 0 if best is None else self._length(best, 0)
        return Match(best, length, resumed=True) if best is not None and length > 0 else None

    def after(self, place: int, k: int) -> list[int]:
        """``k`` tokens from ``place`` on; beyond the end of the text it repeats what it has proposed."""
        tokens = self.tokens[place : place + k]
        while len(tokens) < k:
            tokens.append(tokens[place + len(tokens) - len(self.tokens)])
        return tokens

    def _best(self, places: Sequence[int], n: int) -> Match:
        lengths = [self._length(place, n) for place in places]
        length = max(lengths)
        longest = [place for place, found in zip(places, lengths, strict=True) if found == length]
        following = Counter(self.tokens[place] for place in longest)
        often = max(following.values())
        place = max(place for place in longest if following[self.tokens[place]] == often)
        return Match(place, length, contested=len(following) > 1)

    def _length(self, place: int, n: int) -> int:
        tokens, end = self.tokens, len(self.tokens)
        most = min(LONGEST, place)
        while n < most and tokens[place - n - 1] == tokens[end - n - 1]:
            n += 1
        return n
