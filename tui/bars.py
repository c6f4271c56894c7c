"""Bars and figures as text: everything here is a pure function from numbers to ``Content``.

A bar is drawn by the length of its filled part, so that it reads the same without colour. A figure that does not
exist yet is ``None`` and shows as ``-``.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

HEIGHTS = "▁▂▃▄▅▆▇█"
NOTHING = "-"


def bar(fraction: float | None, width: int, colour: str) -> Content:
    """A horizontal bar over ``width`` cells, in steps of half a cell; ``colour`` is a theme variable.

    The full part is a heavy line and the rest a light one, which reads the same without colour.
    """
    halves = round(min(max(fraction or 0.0, 0.0), 1.0) * width * 2)
    whole, half = divmod(halves, 2)
    return Content.assemble(("━" * whole + "╸" * half, colour), ("─" * (width - whole - half), "$track"))


def split_bar(parts: Sequence[tuple[float, str]], width: int) -> Content:
    """Shares of a whole side by side, each with its colour, with a gap between them that is seen without colour.

    Empty without any share above zero.
    """
    shown = [(share, colour) for share, colour in parts if share > 0]
    whole = sum(share for share, _ in shown)
    if not shown:
        return Content.assemble(("─" * width, "$track"))
    room = width - (len(shown) - 1)
    # Every share keeps at least one cell; the largest takes what rounding leaves over.
    cells = [max(1, int(room * share / whole)) for share, _ in shown]
    cells[max(range(len(shown)), key=lambda index: shown[index][0])] += room - sum(cells)
    drawn = [Content.assemble(("━" * count, colour)) for count, (_, colour) in zip(cells, shown, strict=True)]
    return Content(" ").join(drawn)


def columns(fractions: Sequence[float], colour: str) -> Content:
    """One upright bar of one cell for each fraction."""
    top = len(HEIGHTS) - 1
    return Content.assemble(("".join(HEIGHTS[round(min(max(f, 0.0), 1.0) * top)] for f in fractions), colour))


def rate(value: float | None) -> str:
    """A share such as the acceptance rate: 0.78."""
    return NOTHING if value is None else f"{value:.2f}"


def speed(value: float | None) -> str:
    """Tokens a second with three digits at least: 7.31, 42.1, 187."""
    if value is None:
        return NOTHING
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def factor(value: float | None) -> str:
    """A speed-up: 1.34x."""
    return NOTHING if value is None else f"{value:.2f}x"


def milliseconds(seconds: float | None) -> str:
    """Seconds as 312 ms, or as 4.2 s from one second on."""
    if seconds is None:
        return NOTHING
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1e3:.0f} ms" if seconds >= 0.01 else f"{seconds * 1e3:.1f} ms"


def count(value: int | None) -> str:
    """A count of tokens with a thin gap at thousands: 8 192."""
    return NOTHING if value is None else f"{value:,}".replace(",", " ")


def plural(value: int, noun: str) -> str:
    """A count with its noun: 1 line, 1 204 lines."""
    return f"{count(value)} {noun}{'' if value == 1 else 's'}"


def short_count(value: int) -> str:
    """A count in at most four characters: 812, 1.2k, 32k."""
    if value < 1000:
        return str(value)
    thousands = value / 1000
    return f"{thousands:.1f}k" if thousands < 10 else f"{thousands:.0f}k"


def gibibytes(value: int | None) -> str:
    """Bytes in GiB, or in MiB below one tenth of it."""
    if value is None:
        return NOTHING
    return f"{value / 2**30:.2f} GiB" if value >= 2**30 / 10 else f"{value / 2**20:.0f} MiB"


def percent(fraction: float | None) -> str:
    return NOTHING if fraction is None else f"{fraction * 100:.0f}%"


def spread(left: Content | str, right: Content | str, width: int) -> Content:
    """Left and right at the two edges of a line of ``width`` cells; the left side gives way."""
    left = left if isinstance(left, Content) else Content(left)
    right = right if isinstance(right, Content) else Content(right)
    room = max(0, width - right.cell_length)
    if left.cell_length > max(0, room - 1):
        left = left.truncate(max(0, room - 1), ellipsis=True)
    return Content.assemble(left, " " * (room - left.cell_length), right)


def fit(segments: Sequence[Content], width: int, gap: str = "  ") -> Content:
    """As many segments as fit into ``width`` cells, the first ones being the most important."""
    line = Content("")
    for segment in segments:
        wider = Content.assemble(line, gap if line.cell_length else "", segment)
        if wider.cell_length > width:
            continue
        line = wider
    return line
