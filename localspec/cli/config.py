"""``localspec config``: the settings in force, where each came from, and a user file to start from."""

from __future__ import annotations

import json

import rich_click as click

from localspec import config as configuration
from localspec import paths
from localspec.errors import ConfigError


@click.group(
    "config",
    invoke_without_command=True,
    epilog="Example: localspec config\n\nExample: LOCALSPEC_TEMP=0 localspec config --json",
)
@click.option("--json", "as_json", is_flag=True, help="Print one object: value and source of every setting.")
@click.pass_context
def config(ctx: click.Context, as_json: bool) -> None:
    """Show every setting, its value, and where the value came from.

    What wins, weakest first: the defaults, your file, LLAMA_ARG_* variables, LOCALSPEC_* variables, flags.
    """
    if ctx.invoked_subcommand is not None:
        return
    loaded = configuration.load()
    values = loaded.settings.model_dump()
    if as_json:
        listed = {name: {"value": value, "source": loaded.origin[name]} for name, value in values.items()}
        click.echo(json.dumps(listed, ensure_ascii=False, indent=2))
        return
    width = max(len(name) for name in values)
    shown = {name: json.dumps(value, ensure_ascii=False) for name, value in values.items()}
    value_width = max(len(value) for value in shown.values() if len(value) <= 40)
    for name, value in shown.items():
        source = loaded.origin[name]
        line = f"{name:<{width}}  {value:<{value_width}}  {source}"
        click.echo(line if source == configuration.DEFAULT else click.style(line, bold=True))


@config.command(epilog="Example: $EDITOR $(localspec config path)")
def path() -> None:
    """Print where your configuration file is, or would be."""
    click.echo(paths.user_config())


@config.command(epilog="Example: localspec config init")
def init() -> None:
    """Write a configuration file with every setting commented out, unless there is one."""
    file = paths.user_config()
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(configuration.commented_defaults())
    except FileExistsError as error:
        raise ConfigError(f"{file} exists already; edit it, or move it away first.") from error
    click.echo(file)
