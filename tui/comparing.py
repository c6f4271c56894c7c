"""The same prompt answered twice, as the settings are and densely: both speeds, and whether the text is the same."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from localspec.comparison import comparison
from localspec.events import Finish, Round
from localspec.stats import Figures, Statistics

from . import bars
from .chat import Kind
from .pace import Pace
from .replying import Phase
from .worker import Ended, Streamed

if TYPE_CHECKING:
    from localspec.chat_template import Message
    from localspec.config import Settings

    from .app import LocalspecApp


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two replies."""

    text: str
    verify: str
    figures: Figures


class Comparing:
    """Decodes for the comparison; the conversation and the instruments stay as they are."""

    def __init__(self, app: LocalspecApp) -> None:
        self._app = app

    async def run(self, messages: list[Message]) -> None:
        """Answer ``messages`` twice, from one seed and to one length, and tell how both did. Esc stops it."""
        app = self._app
        settings = app.settings
        if not settings.drafts:
            app.complain("Drafting is off, so both replies would be dense: say /draft auto first.")
            return
        app.replying.phase = Phase.REPLYING
        try:
            seed = secrets.randbits(32) if settings.seed is None else settings.seed
            speculative = await self._side("comparing: with a draft", messages, settings.changed(seed=seed))
            if speculative is None:
                return
            length = speculative.figures.tokens
            plain = settings.changed(seed=seed, draft="none", n_predict=length)
            dense = await self._side("comparing: dense", messages, plain)
            if dense is not None:
                app.tell("\n".join(report(speculative, dense)))
        finally:
            app.replying.phase = Phase.READY
            app.show_state("ready")
            await app.reply_over()

    async def _side(self, what: str, messages: list[Message], settings: Settings) -> Side | None:
        """One reply; None where it was stopped or failed, which is told."""
        decoder, pace = self._app.decoder, Pace()
        statistics, pieces, tokens = Statistics(), [], 0
        decoder.submit(messages, settings)
        while True:
            await asyncio.sleep(pace.pause())
            for report in decoder.drain():
                if isinstance(report, Streamed):
                    statistics.add(report.event)
                    if isinstance(report.event, Round):
                        tokens += len(report.event.tokens)
                    if isinstance(report.event, Round | Finish):
                        pieces.append(report.event.text)
                elif isinstance(report, Ended):
                    if report.error:
                        self._app.tell(report.error, Kind.ERROR)
                    elif report.cancelled:
                        self._app.tell("The comparison was stopped.")
                    else:
                        return Side("".join(pieces), settings.verification, statistics.total())
                    return None
            self._app.show_state(f"{what}, {tokens} tokens")


def report(speculative: Side, dense: Side) -> list[str]:
    """What to tell: both replies by their figures, then the verdict."""
    return [_line("with a draft", speculative), _line("dense", dense), comparison(speculative, dense)]


def _line(name: str, side: Side) -> str:
    figures = side.figures
    parts = [f"{bars.speed(figures.decode_per_second)} tokens/s", f"{figures.tokens} tokens"]
    if figures.acceptance_rate is not None:
        parts.append(f"acceptance {bars.rate(figures.acceptance_rate)} at K {figures.draft_max}")
        parts.append(f"{bars.speed(figures.tokens_per_round)} tokens/round")
    return f"{name}: {', '.join(parts)}"
