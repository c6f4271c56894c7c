"""Entry point: a table of commands that are imported when they run, and how every error ends.

A user's mistake ends in one sentence on stderr and exit code 2, Ctrl-C in 130, a reader that went away in silence.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any, cast

import rich_click as click

from localspec import __version__
from localspec.errors import LocalspecError

COMMANDS: dict[str, tuple[str, str]] = {
    "chat": ("localspec.cli.run:chat", "Talk to a pair in the terminal and watch it decode."),
    "run": ("localspec.cli.run:run", "Answer one prompt and print the text."),
    "pull": ("localspec.cli.models:pull", "Download a target + draft pair."),
    "list": ("localspec.cli.models:list_", "List the models on this machine and the pairs they make."),
    "show": ("localspec.cli.models:show", "Show what a model file says about itself and the memory it needs."),
    "rm": ("localspec.cli.models:rm", "Delete a model that localspec downloaded."),
    "why": ("localspec.cli.why:why", "Say why drafting is on or off for a pair, and what it has earned."),
    "doctor": ("localspec.cli.doctor:doctor", "Check this machine: back ends, devices, memory, the default pair."),
    "config": ("localspec.cli.config:config", "Show every setting and where its value came from."),
}
"""Name, where the command is, and its line in the help."""

INTERRUPTED = 130


class Deferred(click.RichCommand):
    """A command that is known by its name and its line of help until it is run."""

    def __init__(self, name: str, where: str, summary: str) -> None:
        super().__init__(name=name, help=summary)
        self.where = where

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        module, attribute = self.where.split(":")
        command = cast(click.RichCommand, getattr(importlib.import_module(module), attribute))
        return command.make_context(info_name, args, parent, **extra)


class Commands(click.RichGroup):
    """The commands of the table, in its order."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return Deferred(cmd_name, *COMMANDS[cmd_name]) if cmd_name in COMMANDS else None


@click.command(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog='Example: localspec run "Write a Python function that reverses a linked list."',
)
@click.version_option(__version__, "--version", prog_name="localspec", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Speculative decoding of GGUF models on your own machine, exact and measured.

    Without a command: `chat` in a terminal, this help elsewhere.
    """
    if ctx.invoked_subcommand is not None:
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        click.echo(ctx.get_help())
        return
    chat = Deferred("chat", *COMMANDS["chat"])
    with chat.make_context("chat", [], parent=ctx) as inner:
        inner.command.invoke(inner)


def main() -> None:
    sys.exit(guarded(lambda: cli.main(prog_name="localspec", standalone_mode=False)))


def guarded(command: Callable[[], object]) -> int:
    """Run ``command`` and turn how it ends into an exit code, with one sentence on stderr where it failed."""
    try:
        result = command()
        sys.stdout.flush()
    except LocalspecError as error:
        return complain(str(error), error.exit_code)
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "localspec"
        return complain(f"{error.format_message().rstrip('.')}; see `{path} --help`.", error.exit_code)
    except click.ClickException as error:
        return complain(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except OSError as error:
        return _system_error(error)
    return result if isinstance(result, int) else 0


def complain(sentence: str, exit_code: int) -> int:
    click.echo(f"localspec: error: {' '.join(sentence.split())}", err=True)
    return exit_code


def _system_error(error: OSError) -> int:
    if error.errno == errno.EPIPE:
        _discard_stdout()
        return 1
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    if not full and error.filename is None:
        raise error
    _discard_stdout()
    what = f"{error.filename}: " if error.filename else ""
    hint = "free some space and try again" if full else "check that this path is right and open to you"
    return complain(f"{what}{error.strerror}; {hint}.", LocalspecError.exit_code)


def _discard_stdout() -> None:
    """What is still buffered cannot be written; without this Python would try again at exit and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
