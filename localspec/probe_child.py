"""The child process of ``probe``: load one GGUF, decode one token, report, and let any crash end here.

Run as ``python -m localspec.probe_child PATH EXTRA_BYTES``. Prints one JSON object, ``{"error": null}`` or the reason.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def main() -> None:
    path, extra_bytes = Path(sys.argv[1]), int(sys.argv[2])
    # llama.cpp must not write into the answer.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    print(json.dumps({"error": _load(path, extra_bytes)}), file=answer, flush=True)
    # Skip the clean-up of a native library that may have been fed nonsense.
    os._exit(0)


def _load(path: Path, extra_bytes: int) -> str | None:
    """Why the file cannot be used, or None."""
    import numpy as np

    from localspec import llama
    from localspec.errors import ModelError

    _limit(extra_bytes)
    options = llama.ContextOptions(n_ctx=256, n_batch=8, n_ubatch=8, n_rows_max=1)
    try:
        with llama.opened(path, llama.ModelOptions(n_gpu_layers=0, repack=False), options) as context:
            token = max(context.model.vocab.bos, 0)
            context.model.vocab.tokenize("Hello, world")
            context.model.vocab.piece(token, special=True)
            if np.isnan(context.decode([token], 1)).any():
                return f"{path.name} is damaged: its weights give no numbers; remove it and fetch it again."
    except ModelError as error:
        return str(error)
    return None


def _limit(extra_bytes: int) -> None:
    """No core dump, and no more address space than the file can need. Only Linux enforces the latter."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        used = pages * resource.getpagesize()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        wanted = used + extra_bytes
        resource.setrlimit(resource.RLIMIT_AS, (wanted if hard < 0 else min(wanted, hard), hard))


if __name__ == "__main__":
    main()
