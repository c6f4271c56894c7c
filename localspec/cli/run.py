"""``localspec run`` and ``localspec chat``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from localspec import config as configuration
from localspec.cli.flags import in_panels, overrides, setting_flags

if TYPE_CHECKING:
    from localspec.cli.answer import Answer
    from localspec.cli.interrupt import Interrupt
    from localspec.cli.status import Status
    from localspec.config import Config, Settings
    from localspec.events import Event
    from localspec.session import Session

INTERRUPTED = 130


@click.command(
    epilog='Example: localspec run --temp 0 "Explain a mutex."\n\nExample: git diff | localspec run "Review this."'
)
@click.argument("prompt", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with the text, the figures and timings.")
@click.option("--raw", is_flag=True, help="Continue the prompt as it is, without the model's chat template.")
@click.option("--compare", is_flag=True, help="Then answer without a draft too, and print both speeds.")
@setting_flags()
@in_panels("--json", "--raw", "--compare")
def run(prompt: str | None, as_json: bool, raw: bool, compare: bool, **given: Any) -> int:
    """Answer PROMPT and print the text; a line of figures goes to stderr.

    `-` or a pipe reads the prompt from standard input; with both, what is piped in follows PROMPT.
    """
    from localspec.cli.prompt import prompt_text

    config = configuration.load(overrides(given))
    if compare and not config.settings.drafts:
        raise click.UsageError("--compare needs a draft: leave out --draft none and --draft-max 0")
    return _answer(config, prompt_text(prompt, join_stdin=True), as_json=as_json, raw=raw, compare=compare)


@click.command(epilog='Example: localspec chat --temp 0 "Write a haiku about caches."')
@click.argument("prompt", required=False)
@click.option("--resume", metavar="ID", help="Go on with a conversation of before; its number, or `last`.")
@setting_flags()
@in_panels("--resume")
def chat(prompt: str | None, resume: str | None, **given: Any) -> int:
    """Open the terminal app, with PROMPT as the first message if there is one.

    Without a terminal PROMPT is answered as `run --compare` does.
    """
    config = configuration.load(overrides(given))
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        from localspec.cli.prompt import prompt_text

        text = prompt_text(prompt, join_stdin=False)
        return _answer(config, text, as_json=False, raw=False, compare=config.settings.drafts)
    target, draft = _pair(config.settings)
    from localspec.tui.app import run as open_app

    return open_app(config, target, draft, prompt, resume)


def _pair(settings: Settings) -> tuple[Path, Path | None]:
    """The files of the pair; pulls what is missing unless that is not allowed."""
    from localspec import catalog, library

    try:
        return library.resolve_pair(settings)
    except library.NotOnDiskError:
        if settings.offline:
            raise
    from localspec.pull import pull_pair, terminal_sink

    with terminal_sink() as sink:
        pulled = pull_pair(
            settings.model or catalog.load().default,
            settings.model_draft,
            progress=sink,
            with_draft="draft-model" in settings.drafters,
        )
    return pulled.target, pulled.draft


def _answer(config: Config, prompt: str, *, as_json: bool, raw: bool, compare: bool) -> int:
    target, draft = _pair(config.settings)
    from localspec.cli.interrupt import Interrupt
    from localspec.cli.status import status
    from localspec.session import Session

    with Interrupt() as interrupt, status() as shown:

        def loading(progress: Any) -> None:
            interrupt.check()
            shown.loading(progress)

        with Session.open(config.settings, target, draft, progress=loading) as session:
            shown.clear()
            if config.settings.verbose:
                click.echo(session.placement, err=True)
            job = _Job(session, config.settings, prompt, raw, interrupt, shown)
            answer = job.speak(as_json)
            click.echo(answer.summary(), err=True)
            if compare and answer.draft is not None and not answer.cancelled:
                click.echo(job.compare(answer), err=True)
    return INTERRUPTED if interrupt.requested else 0


class _Job:
    """One prompt and the session that answers it."""

    def __init__(
        self, session: Session, settings: Settings, prompt: str, raw: bool, interrupt: Interrupt, shown: Status
    ) -> None:
        self.session, self.settings, self.prompt, self.raw = session, settings, prompt, raw
        self.interrupt, self.shown = interrupt, shown

    def speak(self, as_json: bool) -> Answer:
        """Answers on stdout: text as it comes, or one object at the end."""
        ends_line = True

        def write(text: str) -> None:
            nonlocal ends_line
            self.shown.clear()
            sys.stdout.write(text)
            sys.stdout.flush()
            ends_line = text.endswith("\n")

        if as_json:
            answer = self._read(self.settings, write=lambda _: None, each=self.shown.reading)
            self.shown.clear()
            sys.stdout.write(json.dumps(answer.as_json(), ensure_ascii=False) + os.linesep)
        else:
            _keep_going_on_odd_characters()
            try:
                answer = self._read(self.settings, write=write, each=self.shown.reading)
            finally:
                self.shown.clear()
                if not ends_line:
                    sys.stdout.write("\n")
        sys.stdout.flush()
        return answer

    def compare(self, answer: Answer) -> str:
        """Answers again without a draft, from the same seed and to the same length, and says how both did."""
        from localspec.comparison import comparison

        count = 0

        def each(event: Event) -> None:
            nonlocal count
            count += len(getattr(event, "tokens", ()))
            self.shown.comparing(count, answer.figures.tokens)

        settings = self.settings.changed(draft="none", seed=answer.seed, n_predict=answer.figures.tokens)
        dense = self._read(settings, write=lambda _: None, each=each)
        self.shown.clear()
        return "the comparison was stopped" if dense.cancelled else comparison(answer, dense)

    def _read(self, settings: Settings, *, write: Callable[[str], None], each: Callable[[Event], None]) -> Answer:
        from localspec.cli.answer import read

        return read(
            self._events(settings),
            self.session,
            settings,
            write=write,
            each=each,
            cancelled=lambda: self.interrupt.requested,
        )

    def _events(self, settings: Settings) -> Iterator[Event]:
        from localspec.session import Message

        if self.raw:
            return self.session.complete(self.prompt, settings)
        system = [Message("system", settings.system)] if settings.system else []
        return self.session.reply([*system, Message("user", self.prompt)], settings)


def _keep_going_on_odd_characters() -> None:
    """A terminal that is not UTF-8 shows a question mark for what it cannot."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")
