"""How often to draw while text streams."""

from __future__ import annotations

import time

SHORTEST_S = 1 / 15
LONGEST_S = 0.5
SHARE = 0.06
"""Of its time, the most that the drawing thread may spend; the rest is left to decoding."""


class Pace:
    """Spaces the redraws so that they neither come faster than the eye nor slow the decoding down.

    A long reply costs more to draw, and a busy processor draws more slowly: both are seen in the processor time of
    this thread, which is the thread that draws.
    """

    def __init__(self) -> None:
        self._used = time.thread_time()

    def pause(self) -> float:
        """Seconds to wait before the next redraw, judged by what was used since the last call."""
        used = time.thread_time()
        spent, self._used = used - self._used, used
        return min(max(spent / SHARE, SHORTEST_S), LONGEST_S)
