"""``localspec why``: what was learned of the pair on this machine, and what follows from it."""

from __future__ import annotations

import json
from typing import Any

import rich_click as click

from localspec import config as configuration
from localspec.cli.flags import overrides, setting_flags


@click.command(epilog="Example: localspec why\n\nExample: localspec why -m qwen2.5-coder-1.5b --json")
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
@setting_flags("model", "model_draft", "draft")
def why(as_json: bool, **given: Any) -> None:
    """Say why drafting is on or off for a pair: costs, acceptance by task, and seconds saved and wasted so far."""
    from localspec import library, verdict
    from localspec.errors import ConfigError

    settings = configuration.load(overrides(given)).settings
    pair = verdict.title(*library.resolve_pair(settings))
    record = verdict.latest(pair)
    if record is None:
        raise ConfigError(f"Nothing was learned of {pair} yet: use it once, for example with `localspec chat`.")
    if as_json:
        click.echo(json.dumps(verdict.as_json(record), ensure_ascii=False, indent=2))
        return
    click.echo("\n".join(verdict.explanation(record)))
