"""The instruments: what the pair of models really does, from the event stream and from nothing else.

Two forms of the same readings: a panel at the side of wide terminals, and a strip of two lines in narrow ones.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from localspec.stats import Figures, Statistics

from . import bars

NO_FIGURES = Statistics().total()
ACCEPTED, DRAFT, TARGET, HOST = "$success", "$accent", "$primary", "$secondary"
DIM = "$dim"
WHY_LINES = 3
FULL_CONTEXT = 0.9
"""From this share on the context bar warns."""


@dataclass(frozen=True, slots=True)
class Readings:
    """All that the instruments show."""

    now: Figures = NO_FIGURES
    """The last rounds of the latest reply."""
    total: Figures = NO_FIGURES
    """Every round of the conversation in this sitting."""
    latest: tuple[float, ...] = ()
    """Accepted drafts over K of each of the last rounds that drafted, oldest first."""
    draft_max: int | None = None
    """K of the next reply; 0 without a draft, None where it adapts."""
    reason: str = ""
    """Why the last round drafted as much as it did."""
    n_ctx: int | None = None
    target_bytes: int | None = None
    draft_bytes: int | None = None

    @property
    def k(self) -> int | None:
        """K of the rounds shown, or of the next ones; None where it adapts."""
        return self.now.draft_max if self.now.rounds and self.draft_max is not None else self.draft_max

    @property
    def survival(self) -> tuple[float, ...]:
        return self.now.survival

    @property
    def shares(self) -> tuple[float, float, float] | None:
        """Draft, verify and host as shares of the time that the last rounds spent in them."""
        whole = self.now.draft_s + self.now.verify_s + self.now.host_s
        if whole <= 0:
            return None
        return self.now.draft_s / whole, self.now.verify_s / whole, self.now.host_s / whole

    @property
    def context_used(self) -> int:
        return self.now.context_used


def panel_lines(readings: Readings, width: int, height: int) -> list[Content]:
    """The panel as lines of ``width`` cells, at most ``height`` of them.

    A low terminal first loses the latest rounds, then the blank lines between the groups, then the bars of survival to
    a single line, then what stands lowest.
    """
    for latest, upright, gap in ((True, False, 1), (False, False, 1), (False, False, 0), (False, True, 0)):
        groups = _groups(readings, width, latest=latest, upright=upright)
        lines = [line for group in groups for line in (*group, *[Content("")] * gap)]
        if len(lines) - gap <= height:
            break
    return lines[: min(len(lines) - gap, height)]


def _groups(readings: Readings, width: int, *, latest: bool, upright: bool) -> list[list[Content]]:
    now, used, n_ctx = readings.now, readings.context_used, readings.n_ctx
    fill = used / n_ctx if n_ctx else None
    groups = [_rates(readings, width)]
    if readings.reason:
        groups.append(_why(readings.reason, width, WHY_LINES if latest else 1))
    groups.append(_survival(readings.survival, width, upright=upright))
    if latest:
        groups.append(_latest(readings, width))
    groups.append(_shares(readings, width))
    groups.append(
        [
            bars.spread(_label("first token"), bars.milliseconds(now.ttft_s), width),
            bars.spread(
                _label("rounds p50 / p99"),
                f"{bars.milliseconds(now.itl_p50_s)} / {bars.milliseconds(now.itl_p99_s)}",
                width,
            ),
        ]
    )
    groups.append(
        [
            bars.spread(_label("context"), f"{bars.count(used)} / {bars.count(n_ctx)}", width),
            bars.bar(fill, width, "$warning" if fill is not None and fill >= FULL_CONTEXT else "$foreground"),
            bars.spread(_label("memory"), _memory(readings), width),
        ]
    )
    return groups


def _rates(readings: Readings, width: int) -> list[Content]:
    now, total = readings.now, readings.total

    def row(label: str, recent: str, overall: str, style: str = "bold") -> Content:
        return bars.spread(label, Content.assemble((f"{recent:>8}", style), (f"{overall:>8}", DIM)), width)

    return [
        bars.spread(
            Content.assemble((f"K {_k(readings)}", "bold")), Content.assemble((f"{'now':>8}{'all':>8}", DIM)), width
        ),
        row("acceptance", bars.rate(now.acceptance_rate), bars.rate(total.acceptance_rate), f"bold {ACCEPTED}"),
        bars.bar(now.acceptance_rate, width, ACCEPTED),
        row("tokens/s", bars.speed(now.decode_per_second), bars.speed(total.decode_per_second)),
        row("dense, estimated", bars.speed(now.dense_per_second), bars.speed(total.dense_per_second), ""),
        row("speed-up", bars.factor(now.speed_up), bars.factor(total.speed_up)),
        row("tokens/round", bars.speed(now.tokens_per_round), bars.speed(total.tokens_per_round)),
    ]


def _why(reason: str, width: int, most: int) -> list[Content]:
    lines = textwrap.wrap(reason, width, max_lines=most, placeholder=" …")
    return [Content.assemble((line, DIM)) for line in lines]


def _latest(readings: Readings, width: int) -> list[Content]:
    heading = bars.spread(_label("latest rounds"), Content.assemble(("drafts accepted", DIM)), width)
    return [heading, bars.columns(readings.latest[-width:], ACCEPTED)]


def _memory(readings: Readings) -> str:
    if readings.draft_bytes is None:
        return bars.gibibytes(readings.target_bytes)
    return f"{bars.gibibytes(readings.target_bytes)} + {bars.gibibytes(readings.draft_bytes)}"


def _survival(survival: Sequence[float], width: int, *, upright: bool) -> list[Content]:
    heading = bars.spread(_label("survival"), Content.assemble(("first j drafts accepted", DIM)), width)
    if not survival:
        return [bars.spread(_label("survival"), bars.NOTHING, width)]
    if upright or len(survival) > width - 12:
        first, last = bars.rate(survival[0]), bars.rate(survival[-1])
        return [bars.fit([_label("survival"), bars.columns(survival, ACCEPTED), Content(f"{first} to {last}")], width)]
    label = len(f"s{len(survival)} ")
    return [
        heading,
        *(
            Content.assemble(
                (f"s{j}".ljust(label), DIM), bars.bar(s, width - label - 5, ACCEPTED), f"{bars.rate(s):>5}"
            )
            for j, s in enumerate(survival, 1)
        ),
    ]


def _shares(readings: Readings, width: int) -> list[Content]:
    shares = readings.shares
    now = readings.now
    per_round = now.decode_s / now.rounds if now.rounds else None
    draft, verify, host = shares or (None, None, None)
    return [
        bars.spread(_label("time per round"), bars.milliseconds(per_round), width),
        bars.split_bar([(draft or 0.0, DRAFT), (verify or 0.0, TARGET), (host or 0.0, HOST)], width),
        _justify(
            [
                Content.assemble(("draft ", DIM), (bars.percent(draft), f"bold {DRAFT}")),
                Content.assemble(("verify ", DIM), (bars.percent(verify), f"bold {TARGET}")),
                Content.assemble(("host ", DIM), (bars.percent(host), f"bold {HOST}")),
            ],
            width,
        ),
    ]


def strip_lines(readings: Readings, width: int) -> list[Content]:
    """The same readings in two lines for a narrow terminal; what does not fit is left out, the last parts first."""
    now, total = readings.now, readings.total
    roomy = width >= 60
    draft, verify, host = readings.shares or (None, None, None)
    fill = readings.context_used / readings.n_ctx if readings.n_ctx else None
    first = [
        Content.assemble(
            ("acceptance " if roomy else "acc ", DIM),
            (bars.rate(now.acceptance_rate), f"bold {ACCEPTED}"),
            (f" all {bars.rate(total.acceptance_rate)}" if roomy else "", DIM),
            (f" K {_k(readings)}", DIM),
        ),
        Content.assemble((bars.speed(now.decode_per_second), "bold"), (" tokens/s" if roomy else " tok/s", DIM)),
        Content.assemble((bars.factor(now.speed_up), "bold"), (" of dense" if roomy else "", DIM)),
        Content.assemble((bars.speed(now.tokens_per_round), "bold"), (" tokens/round" if roomy else " /round", DIM)),
    ]
    second = [
        Content.assemble(("s ", DIM), bars.columns(readings.survival, ACCEPTED) if readings.survival else bars.NOTHING),
        Content.assemble(
            ("draft " if roomy else "d", DIM),
            (bars.percent(draft), DRAFT),
            (" verify " if roomy else " v", DIM),
            (bars.percent(verify), TARGET),
            (" host " if roomy else " h", DIM),
            (bars.percent(host), HOST),
        ),
        Content.assemble(("ctx ", DIM), bars.percent(fill)),
        Content.assemble(("first ", DIM), bars.milliseconds(now.ttft_s)),
        Content.assemble(("p50 ", DIM), bars.milliseconds(now.itl_p50_s)),
        Content.assemble(("mem ", DIM), bars.gibibytes(_sum(readings.target_bytes, readings.draft_bytes))),
    ]
    return [bars.fit(first, width), bars.fit(second, width)]


def _label(text: str) -> Content:
    return Content.assemble((text, DIM))


def _k(readings: Readings) -> str:
    if readings.k is not None:
        return str(readings.k)
    return f"auto {readings.now.draft_max}" if readings.now.rounds else "auto"


def _sum(target: int | None, draft: int | None) -> int | None:
    return None if target is None else target + (draft or 0)


def _justify(parts: Sequence[Content], width: int) -> Content:
    """Three parts: at the left edge, in the middle and at the right edge."""
    left, middle, right = parts
    free = width - sum(part.cell_length for part in parts)
    before = max(1, free // 2)
    return Content.assemble(left, " " * before, middle, " " * max(1, free - before), right)


class Panel(Widget):
    """The instruments beside the chat."""

    readings: reactive[Readings] = reactive(Readings, repaint=True)

    def render(self) -> Content:
        return Content("\n").join(panel_lines(self.readings, self.content_size.width, self.content_size.height))


class Strip(Widget):
    """The instruments of a narrow terminal."""

    readings: reactive[Readings] = reactive(Readings, repaint=True)

    def render(self) -> Content:
        return Content("\n").join(strip_lines(self.readings, self.content_size.width))
