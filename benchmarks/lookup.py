"""Tokens per second of `--draft lookup` over llama-cpp-python's own prompt lookup, on a code edit, greedy.

Both read the same prompt of the same file with the same threads and decode the same number of tokens, in the order
A B B A. Dense decoding of each is printed beside it.

    python benchmarks/lookup.py --repeat 3
"""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter

import psutil
from auto import TASKS

from localspec import config, library
from localspec.config import Settings
from localspec.events import Round
from localspec.session import Message, Session

N_CTX = 2048


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=None)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--draft-max", default="auto")
    options = parser.parse_args()
    values = {"temp": 0, "n_predict": options.tokens, "ignore_eos": True, "ctx_size": N_CTX, "draft": "lookup"}
    values["draft_max"] = options.draft_max
    if options.model:
        values["model"] = options.model
    settings = config.load(values).settings
    target, _ = library.resolve_pair(settings)
    with Session.open(settings, target, None) as session:
        ways: dict[str, Callable[[str], float]] = {
            "dense": lambda prompt: speed(session, settings, "none", prompt),
            "lookup": lambda prompt: speed(session, settings, "lookup", prompt),
            "peer dense": peer(target, options.tokens, lookup=False),
            "peer lookup": peer(target, options.tokens, lookup=True),
        }
        speeds: dict[str, list[float]] = {name: [] for name in ways}
        for prompt in TASKS["edit"]:
            ways["lookup"](prompt)
            for i in range(options.repeat):
                for name in list(ways) if i % 2 == 0 else list(reversed(ways)):
                    speeds[name].append(ways[name](prompt))
    for name, found in speeds.items():
        print(f"{name:12}{median(found):7.1f} tokens/s  {min(found):.1f}-{max(found):.1f}")
    ratios = [a / b for a, b in zip(speeds["lookup"], speeds["peer lookup"], strict=True)]
    print(f"lookup / peer lookup: {median(ratios):.2f}  range {min(ratios):.2f}-{max(ratios):.2f}")


def speed(session: Session, settings: Settings, draft: str, prompt: str) -> float:
    """Tokens per second after the first, of a prompt that is not in the cache."""
    list(session.reply([Message("user", "Hi")], settings.changed(draft="none", n_predict=1)))
    events = session.reply([Message("user", prompt)], settings.changed(draft=draft))
    rounds = [event for event in events if isinstance(event, Round)]
    return sum(len(event.tokens) for event in rounds[1:]) / (rounds[-1].seconds - rounds[0].seconds)


def peer(path: Path, tokens: int, *, lookup: bool) -> Callable[[str], float]:
    """llama-cpp-python's high-level class, with its defaults of 2-grams and 10 tokens."""
    from llama_cpp import Llama
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

    threads = psutil.cpu_count(logical=False) or 1
    with quiet():
        model = Llama(
            str(path),
            n_ctx=N_CTX,
            n_threads=threads,
            n_threads_batch=threads,
            draft_model=LlamaPromptLookupDecoding() if lookup else None,
            logits_all=lookup,
            verbose=False,
        )
    eos = {model.token_eos(): -100.0}

    def measured(prompt: str) -> float:
        messages = [{"role": "user", "content": prompt}]
        model.reset()
        stream = model.create_chat_completion(
            messages, max_tokens=tokens, temperature=0.0, stream=True, logit_bias=eos, repeat_penalty=1.0
        )
        times = [perf_counter() for chunk in stream if chunk["choices"][0]["delta"].get("content")]
        return (len(times) - 1) / (times[-1] - times[0])

    return measured


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """What the library prints while it loads."""
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stderr(nowhere):
        yield


if __name__ == "__main__":
    main()
