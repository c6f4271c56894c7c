"""Numbers as text."""

from __future__ import annotations

import pytest
from localspec.tui import bars


@pytest.mark.parametrize(
    ("fraction", "drawn"),
    [
        (None, "────────"),
        (0.0, "────────"),
        (0.5, "━━━━────"),
        (0.56, "━━━━╸───"),
        (1.0, "━━━━━━━━"),
        (7.0, "━━━━━━━━"),
        (-1.0, "────────"),
    ],
)
def test_a_bar_is_as_long_as_its_fraction(fraction: float | None, drawn: str) -> None:
    assert bars.bar(fraction, 8, "red").plain == drawn


def test_a_split_bar_fills_its_width_and_shows_every_share() -> None:
    drawn = bars.split_bar([(0.90, "red"), (0.09, "green"), (0.01, "blue")], 20).plain
    assert len(drawn) == 20
    assert [len(part) for part in drawn.split()] == [16, 1, 1]


def test_a_split_bar_without_shares_is_empty() -> None:
    assert bars.split_bar([(0.0, "red")], 5).plain == "─────"


def test_columns_are_as_high_as_their_fractions() -> None:
    assert bars.columns([0.0, 0.5, 1.0], "red").plain == "▁▅█"


def test_what_is_not_known_is_a_dash() -> None:
    for shown in (bars.rate, bars.speed, bars.milliseconds, bars.count, bars.gibibytes, bars.percent):
        assert shown(None) == "-"


def test_figures_have_the_digits_that_mean_something() -> None:
    assert [bars.speed(v) for v in (7.312, 42.14, 187.2)] == ["7.31", "42.1", "187"]
    assert [bars.milliseconds(v) for v in (0.0042, 0.312, 4.2)] == ["4.2 ms", "312 ms", "4.2 s"]
    assert bars.count(8192) == "8 192"
    assert [bars.gibibytes(v) for v in (98 << 20, 3 << 30)] == ["98 MiB", "3.00 GiB"]
    assert bars.rate(0.777) == "0.78"
    assert bars.percent(0.41) == "41%"


def test_the_left_side_of_a_line_gives_way() -> None:
    assert bars.spread("left", "right", 12).plain == "left   right"
    assert bars.spread("a long left side", "right", 12).plain == "a lon… right"


def test_segments_that_do_not_fit_are_left_out() -> None:
    segments = [bars.Content(text) for text in ("first", "much too long", "last")]
    assert bars.fit(segments, 12).plain == "first  last"
