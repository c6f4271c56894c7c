"""The instruments show the figures of the event stream, at every size."""

from __future__ import annotations

import pytest
from localspec.tui.meter import Meter
from localspec.tui.panel import Readings, panel_lines, strip_lines
from scripted import ScriptedSession
from textual.content import Content

from localspec.config import Settings
from localspec.events import Prefill, Round
from localspec.stats import Statistics


@pytest.fixture
def meter(settings: Settings) -> Meter:
    session = ScriptedSession(text="word " * 60)
    meter = Meter()
    meter.load(session.target, session.draft, session.n_ctx)
    meter.begin_reply()
    for event in session.reply([], settings):
        meter.add(event)
    return meter


def text(lines: list[Content]) -> str:
    return "\n".join(line.plain for line in lines)


def test_every_figure_of_the_panel_is_that_of_the_event_stream(meter: Meter, settings: Settings) -> None:
    statistics = Statistics()
    for event in ScriptedSession(text="word " * 60).reply([], settings):
        statistics.add(event)
    figures = statistics.rolling()
    shown = text(panel_lines(meter.readings(final=True), 36, 40))
    assert figures.acceptance_rate is not None
    assert figures.decode_per_second is not None
    assert figures.tokens_per_round is not None
    for line, *values in (
        ("acceptance", f"{figures.acceptance_rate:.2f}"),
        ("tokens/s", f"{figures.decode_per_second:.1f}"),
        ("dense, estimated", f"{figures.dense_per_second:.1f}"),
        ("speed-up", f"{figures.speed_up:.2f}x"),
        ("tokens/round", f"{figures.tokens_per_round:.2f}"),
        ("s1", f"{figures.survival[0]:.2f}"),
        ("s3", f"{figures.survival[2]:.2f}"),
        ("draft ", "20%", "60%", "20%"),
        ("first token", "250 ms"),
        ("rounds p50", "50 ms / 50 ms"),
        ("context", f"{figures.context_used} / 512"),
        ("memory", "3.25 GiB + 1.25 GiB"),
    ):
        found = next(row for row in reversed(shown.splitlines()) if row.startswith(line))
        assert all(value in found for value in values), found


def test_without_figures_there_are_dashes_and_no_numbers() -> None:
    shown = text(panel_lines(Readings(), 36, 40))
    assert not any(character.isdigit() for character in shown.replace("p50 / p99", "").replace("0 / -", ""))
    assert strip_lines(Readings(), 78)[0].plain.startswith("acceptance - all - K auto")


@pytest.mark.parametrize("height", range(1, 45))
@pytest.mark.parametrize("k", [0, 3, 8, 32])
def test_the_panel_never_leaves_its_frame(height: int, k: int, settings: Settings) -> None:
    meter = Meter()
    for event in ScriptedSession(text="word " * 100).reply([], settings.changed(draft_max=k)):
        meter.add(event)
    lines = panel_lines(meter.readings(final=True), 36, height)
    assert len(lines) <= height
    assert all(line.cell_length <= 36 for line in lines)
    assert "acceptance" in text(lines) or height < 2


@pytest.mark.parametrize("width", range(20, 100, 3))
def test_the_strip_never_leaves_its_frame(width: int, meter: Meter) -> None:
    lines = strip_lines(meter.readings(final=True), width)
    assert len(lines) == 2
    assert all(line.cell_length <= width for line in lines)
    assert "acc" in lines[0].plain


def test_a_panel_of_an_80x24_neighbour_shows_survival_bars(meter: Meter) -> None:
    assert "s3 ━" in text(panel_lines(meter.readings(final=True), 36, 21))


def test_now_is_the_latest_reply_and_all_is_the_conversation(settings: Settings) -> None:
    meter = Meter()
    meter.begin_reply()
    for event in ScriptedSession(text="word " * 60).reply([], settings):
        meter.add(event)
    first = meter.readings(final=True).now
    meter.begin_reply()
    meter.add(Prefill(5, 5, 0, 0.1))
    meter.add(Round(0, (), "", 3, 3, 0, (), (), 0.1, 0.1, 0.1, 0.4, 9))
    readings = meter.readings(final=True)
    assert readings.now.acceptance_rate == 0.0
    assert readings.total.drafted == first.drafted + 3
    meter.begin_conversation()
    assert meter.readings(final=True).total.rounds == 0
