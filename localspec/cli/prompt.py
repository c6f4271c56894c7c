"""The prompt of a command: its argument, standard input, or both."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import rich_click as click

from localspec.errors import SessionError

PATIENCE_S = 3.0
"""How long standard input may be silent before the user is told what the command waits for."""


def prompt_text(argument: str | None, *, join_stdin: bool) -> str:
    """The prompt. ``-`` or no argument reads standard input; with ``join_stdin`` what is piped in follows the argument.

    Raises SessionError where there is no prompt or it is not text.
    """
    piped = not sys.stdin.isatty()
    if argument not in (None, "-"):
        assert argument is not None
        rest = _stdin() if join_stdin and piped else ""
        text = f"{argument}\n\n{rest}" if rest.strip() else argument
    elif argument == "-" or piped:
        text = _stdin()
    else:
        text = ""
    if not text.strip():
        raise SessionError(
            'There is no prompt; give one, as in `localspec run "Why is the sky blue?"`, or pipe one in.'
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SessionError("The prompt is not valid UTF-8 text.") from error
    return text


def _stdin() -> str:
    with _told_after(PATIENCE_S, "localspec: reading the prompt from standard input (end it with Ctrl-D)"):
        data = sys.stdin.buffer.read()
    try:
        return data.decode("utf-8-sig").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise SessionError("Standard input is not UTF-8 text; convert it first, for example with iconv.") from error


@contextmanager
def _told_after(seconds: float, text: str) -> Iterator[None]:
    timer = threading.Timer(seconds, lambda: click.echo(text, err=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
