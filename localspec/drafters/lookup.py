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
LENGTHS = (2, 3, 4, 6, 9, 16, 32)
"""Lower ends of the classes of match lengths that acceptance is learned for."""
N_FEATURES = 2 * len(LENGTHS)
PRIOR = (0.30, 0.40, 0.55, 0.70, 0.85, 0.92, 0.95, 0.20, 0.30, 0.40, 0.50, 0.65, 0.75, 0.80)


@dataclass(frozen=True, slots=True)
class Match:
    """The end of the text stands at an earlier place too."""

    place: int
    """Index of the token that followed there."""
    length: int
    """Tokens that are the same before it, at most ``LONGEST``."""
    contested: bool
    """Whether another place with a match as long was followed by another token."""

    def feature(self, j: int) -> int:
        """Class of the j-th token proposed (0 for the first): each accepted token makes the match longer."""
        length = self.length + j
        found = next(i for i in range(len(LENGTHS) - 1, -1, -1) if length >= LENGTHS[i])
        return found + len(LENGTHS) * (self.contested and j == 0)


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

    def match(self) -> Match | None:
        """The longest match of the end of the text; of equals what most often followed, and of these the latest."""
        end = len(self.tokens)
        for n in ANCHORS:
            places = self._places[n].get(tuple(self.tokens[end - n :])) if end >= n else None
            if places:
                return self._best(places[-CANDIDATES:], n)
        return None

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
