"""Takes the pictures of the terminal app in this folder from a real reply of a real pair.

    python docs/screenshots/make.py                              # the default pair
    python docs/screenshots/make.py --model A.gguf --draft B.gguf

The pair answers once, greedily; then the same conversation is shown in several sizes and themes. Each picture is
written as SVG, and as PNG where the package ``resvg-py`` is installed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from localspec.tui.app import LocalspecApp
    from textual.pilot import Pilot

HERE = Path(__file__).parent
PROMPT = "Write a Python function that reverses a linked list."
EARLIER = ("How does speculative decoding keep the text exact?", "What does K mean?", "Explain a mutex to a cat.")
FONT = "DejaVu Sans Mono, Menlo, Consolas, monospace"
SHOTS = (
    # Name, columns, rows, theme, keys pressed before the picture is taken
    ("chat", 120, 36, "localspec-dark", ()),
    ("chat-light", 120, 36, "localspec-light", ()),
    ("chat-80x24", 80, 24, "localspec-dark", ()),
    ("chat-40x20", 40, 20, "localspec-dark", ()),
    ("chat-200x50", 200, 50, "localspec-dark", ()),
    ("sessions-80x24", 80, 24, "localspec-dark", ("ctrl+s",)),
    ("help-80x24", 80, 24, "localspec-dark", ("f1",)),
    ("palette-80x24", 80, 24, "localspec-dark", ("ctrl+p",)),
)


async def take(target: Path, draft: Path | None) -> None:
    """Let the pair answer and write every picture."""
    from localspec.tui.app import LocalspecApp
    from localspec.tui.composer import Composer

    from localspec import config, paths
    from localspec.session import Session

    settings = config.load({"temp": 0, "ctx_size": 2048}).settings
    app = LocalspecApp(
        settings,
        lambda progress: Session.open(settings, target, draft, progress=progress),
        pair=target.stem,
        database=paths.database(),
    )
    async with app.run_test(size=(120, 36)) as pilot:
        for prompt, length in (*((earlier, 32) for earlier in EARLIER), (PROMPT, 220)):
            await reach(app, pilot)
            await app.action_new()
            app.settings = settings.changed(n_predict=length)
            app.query_one(Composer).put(prompt)
            await pilot.press("enter")
            await pilot.pause(0.5)
        await reach(app, pilot)
        for name, columns, rows, theme, keys in SHOTS:
            app.theme = theme
            await pilot.resize_terminal(columns, rows)
            await pilot.pause(0.5)
            for key in keys:
                await pilot.press(key)
                await pilot.pause(0.5)
            write(name, app.export_screenshot(title="localspec"))
            if keys:
                await pilot.press("escape")
                await pilot.pause(0.2)


async def reach(app: LocalspecApp, pilot: Pilot[int]) -> None:
    """Wait until the models are loaded and the reply is over."""
    while app.phase != "ready":
        if app.phase == "failed":
            raise SystemExit("The models could not be loaded.")
        await pilot.pause(0.2)


def write(name: str, svg: str) -> None:
    """Save a picture; its fonts are taken from the machine that shows it, never from the network."""
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family: [^;]+;", f"font-family: {FONT};", svg)
    (HERE / f"{name}.svg").write_text(svg, encoding="utf-8")
    try:
        import resvg_py
    except ImportError:
        return
    (HERE / f"{name}.png").write_bytes(bytes(resvg_py.svg_to_bytes(svg_string=svg)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="target GGUF; by default that of the default pair")
    parser.add_argument("--draft", type=Path, help="draft GGUF")
    given = parser.parse_args()
    if given.model is None:
        from localspec import config, library

        given.model, given.draft = library.resolve_pair(config.load().settings)
    with tempfile.TemporaryDirectory() as home:
        os.environ["LOCALSPEC_HOME"] = home
        asyncio.run(take(given.model, given.draft))


if __name__ == "__main__":
    main()
