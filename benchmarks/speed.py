"""Tokens per second with a draft over without, by task and K.

For each prompt the dense and the speculative reply are decoded in turn, in the order A B B A from one repetition to the
next, to the same number of tokens. The median of the ratios over prompts and repetitions is printed with its range.

    python benchmarks/speed.py --model qwen2.5-coder-1.5b --draft-max 1 3 5 --repeat 2
"""

from __future__ import annotations

import argparse
from statistics import median

from localspec import config, library
from localspec.config import Settings
from localspec.events import Finish, Round
from localspec.session import Message, Session
from localspec.stats import Figures, Statistics

TASKS = {
    "code": (
        "Write a Python function that reverses a linked list.",
        "Write a Python class for a bounded queue with put, get and len.",
    ),
    "edit": (
        "Repeat this code with the name `total` changed to `amount`:\n\n"
        "def invoice(items, tax):\n    total = 0\n    for item in items:\n        total += item.price * item.count\n"
        "    total += total * tax\n    return round(total, 2)\n",
    ),
    "math": ("A train goes 180 km in 2.5 hours. How far does it go in 4 hours at the same speed? Show each step.",),
    "chat": (
        "What should I think about before I get a dog?",
        "Tell a short story about a lighthouse keeper who finds a letter.",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=None, help="pair of the catalogue, or path of the target")
    parser.add_argument("--model-draft", default=None)
    parser.add_argument("--draft-max", type=int, nargs="+", default=[1, 3, 5])
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--temp", type=float, default=0.0)
    options = parser.parse_args()
    overrides = {"temp": options.temp, "n_predict": options.tokens, "ignore_eos": True, "seed": 1}
    named = {"model": options.model, "model_draft": options.model_draft}
    settings = config.load({**overrides, **{k: v for k, v in named.items() if v is not None}}).settings
    target, draft = library.resolve_pair(settings)
    with Session.open(settings, target, draft) as session:
        print(f"{session.target.name} + {session.draft.name if session.draft else 'no draft'}, {options.tokens} tokens")
        print(
            f"{'task':6} {'K':>2} {'acceptance':>10} {'tokens/round':>12} {'dense':>7} {'draft':>7} {'ratio':>6}  range"
        )
        for task, prompts in TASKS.items():
            for k in options.draft_max:
                print(_row(session, settings.changed(draft_max=k), task, prompts, options.repeat), flush=True)


def _row(session: Session, settings: Settings, task: str, prompts: tuple[str, ...], repeat: int) -> str:
    dense_settings = settings.changed(draft="none")
    ratios, dense_speeds, draft_speeds, accepted, drafted, tokens, rounds = [], [], [], 0, 0, 0, 0
    for prompt in prompts:
        for i in range(repeat):
            order = (dense_settings, settings) if i % 2 == 0 else (settings, dense_settings)
            figures = {choice.draft: _answer(session, choice, prompt) for choice in order}
            dense, drafting = figures["none"], figures[settings.draft]
            dense_speeds.append(dense.decode_per_second or 0.0)
            draft_speeds.append(drafting.decode_per_second or 0.0)
            ratios.append(draft_speeds[-1] / dense_speeds[-1])
            accepted, drafted = accepted + drafting.accepted, drafted + drafting.drafted
            tokens, rounds = tokens + drafting.tokens, rounds + drafting.rounds
    return (
        f"{task:6} {settings.draft_max:2} {accepted / drafted:10.2f} {tokens / rounds:12.2f} "
        f"{median(dense_speeds):7.1f} {median(draft_speeds):7.1f} {median(ratios):6.2f}  "
        f"{min(ratios):.2f}-{max(ratios):.2f}"
    )


def _answer(session: Session, settings: Settings, prompt: str) -> Figures:
    statistics = Statistics()
    for event in session.reply([Message("user", prompt)], settings):
        if isinstance(event, Round | Finish):
            statistics.add(event)
    return statistics.total()


if __name__ == "__main__":
    main()
