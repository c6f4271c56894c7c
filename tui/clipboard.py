"""The clipboard behind tmux, which by default does not pass on what an app copies through the terminal (OSC 52)."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress

PATIENCE_S = 2.0


def offer_to_tmux(text: str) -> None:
    """Within tmux, make a text its newest buffer, and let tmux hand it to the terminal's clipboard where it can."""
    if "TMUX" not in os.environ:
        return
    with suppress(OSError, subprocess.TimeoutExpired):
        # -w needs tmux 3.2; an older one gets its buffer at least.
        for command in (["tmux", "load-buffer", "-w", "-"], ["tmux", "load-buffer", "-"]):
            done = subprocess.run(
                command,
                input=text.encode("utf-8", "replace"),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=PATIENCE_S,
                check=False,
            )
            if done.returncode == 0:
                return
