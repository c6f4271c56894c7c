"""The line at the top, the line at the bottom, and what an empty chat shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from . import bars

if TYPE_CHECKING:
    from localspec.config import Settings
    from localspec.session import LoadProgress, ModelInfo

    from .messages import LogItem

HINTS = (
    ("stop", "Esc", "stop"),
    ("help", "F1", "help"),
    ("command_palette", "^P", "commands"),
    ("sessions", "^S", "sessions"),
    ("new", "^N", "new"),
    ("quit", "^Q", "quit"),
)


class Line(Widget):
    """One line: a left part, and as many segments at the right as fit beside it, the first the most important."""

    left: reactive[Content] = reactive(Content)
    right: reactive[Sequence[Content]] = reactive(tuple)

    def render(self) -> Content:
        width = self.content_size.width
        return bars.spread(self.left, bars.fit(self.right, width - self.left.cell_length - 2), width)


def hints(*, replying: bool) -> list[Content]:
    """The keys worth knowing now; each can be clicked."""
    return [
        Content.from_markup(f"[bold @click=app.{action}]{key}[/] [$dim]{word}[/]")
        for action, key, word in HINTS
        if replying or action != "stop"
    ]


def message_hints(item: LogItem) -> list[Content]:
    """The keys of the selected message; each can be clicked."""
    return [Content.from_markup(f'[bold @click="{action}"]{key}[/] [$dim]{word}[/]') for action, key, word in item.KEYS]


def settings_line(settings: Settings, k: int | None, pair: str) -> list[Content]:
    """How replies are decoded, for the top line; ``k`` is 0 without a draft, None where it adapts."""
    decoding = "dense" if k == 0 else settings.verification
    parts = (f"K {'auto' if k is None else k}", decoding, f"temp {settings.temp:g}", *pair.split(" ", 1))
    return [Content.assemble((part, "$dim")) for part in parts]


def loading_line(progress: LoadProgress, width: int = 16) -> Content:
    """Which model is being loaded, and how far it is."""
    return Content.assemble(
        ("loading ", "$dim"),
        f"{progress.model} ",
        bars.bar(progress.fraction, width, "$primary"),
        f" {bars.percent(progress.fraction)}",
    )


class Welcome(Static):
    """What an empty chat shows: the pair, and how to begin."""

    def __init__(self, pair: str) -> None:
        super().__init__()
        self._pair = pair

    def on_mount(self) -> None:
        self.update(Content.assemble(("localspec", "bold $primary"), "\n\n", self._pair))

    def show_models(self, target: ModelInfo, draft: ModelInfo | None, n_ctx: int) -> None:
        """The pair is in memory."""
        rows = [("target", _describe(target))]
        rows.append(("draft", "none: every token is decoded densely" if draft is None else _describe(draft)))
        rows.append(("context", f"{bars.count(n_ctx)} tokens"))
        lines: list[Content] = [Content.assemble(("localspec", "bold $primary")), Content("")]
        lines += [Content.assemble((f"{label:<9}", "$dim"), text) for label, text in rows]
        lines += [
            Content(""),
            Content.assemble(("Ask something. / lists the commands, @ attaches a file, F1 helps.", "$dim")),
        ]
        self.update(Content("\n").join(lines))


def _describe(model: ModelInfo) -> str:
    return f"{model.name}  {bars.gibibytes(model.size_bytes)}"
