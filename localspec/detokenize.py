"""From tokens to text, one token at a time: characters and stop strings may be split over several tokens."""

from __future__ import annotations

import codecs
from collections.abc import Sequence


class TextStream:
    """Releases text as soon as no later token can change it."""

    def __init__(self, stop: Sequence[str] = ()) -> None:
        """``stop``: strings that end the text; neither they nor what follows them is released."""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._stop = tuple(s for s in stop if s)
        self._held = ""
        self.stopped_by: str | None = None

    def push(self, piece: bytes) -> str:
        """Add the bytes of the next token. Returns the text that is now final; sets ``stopped_by`` at a stop string."""
        self._held += self._decoder.decode(piece)
        return self._release(last=False)

    def finish(self) -> str:
        """The held text, once no token follows."""
        if self.stopped_by is not None:
            return ""
        self._held += self._decoder.decode(b"", final=True)
        return self._release(last=True)

    def _release(self, *, last: bool) -> str:
        found = [(index, stop) for stop in self._stop if (index := self._held.find(stop)) >= 0]
        if found:
            # At the same place the longer string wins, so that the result does not depend on their order.
            index, self.stopped_by = min(found, key=lambda hit: (hit[0], -len(hit[1])))
            text, self._held = self._held[:index], ""
            return text
        keep = 0 if last else self._possible_stop()
        cut = len(self._held) - keep
        text, self._held = self._held[:cut], self._held[cut:]
        return text

    def _possible_stop(self) -> int:
        """Length of the longest end of the held text that may become a stop string."""
        longest = max((len(stop) - 1 for stop in self._stop), default=0)
        for n in range(min(longest, len(self._held)), 0, -1):
            if any(stop.startswith(self._held[-n:]) for stop in self._stop):
                return n
        return 0
