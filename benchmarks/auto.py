"""Tokens per second of `--draft-max auto` over dense decoding, by task.

For each prompt the dense and the adaptive reply are decoded in turn, in the order A B B A from one repetition to the
next, to the same number of tokens. What auto learns it keeps from prompt to prompt, as in daily use; the first prompt
of each task is decoded once beforehand. The median of the ratios is printed with its range, and what auto says.

    python benchmarks/auto.py --repeat 3
    python benchmarks/auto.py --model qwen2.5-coder-1.5b-instruct-bf16.gguf --model-draft DRAFT.gguf
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from statistics import median

from localspec import config, library
from localspec.config import Settings
from localspec.events import Event, Finish, Round
from localspec.session import Message, Session
from localspec.stats import Figures, Statistics

CODE = """def invoice(items, tax):
    total = 0
    for item in items:
        if item.price < 0:
            raise ValueError("a price is negative")
        total += item.price * item.count
    total += total * tax
    return round(total, 2)


def report(items, tax):
    lines = []
    for item in items:
        lines.append(f"{item.name}: {item.count} x {item.price}")
    lines.append(f"total: {invoice(items, tax)}")
    return "\\n".join(lines)
"""
NEWS = """The harbour town of Ostrava Bay opened its new tidal bridge on Monday after four years of work. The bridge,
which lifts for ships twice a day, links the old fish market to the railway station and cuts the walk from forty minutes
to eight. Its builders had to stop for a whole winter when divers found the keel of a trading ship from the 1600s under
the third pillar; the keel now lies in the town museum. Shopkeepers hope for more visitors, while fishermen fear that
the lifting times will not suit the tides. The council promised to review the timetable after three months."""
TASKS = {
    "chat": (
        "What should I think about before I get a dog?",
        "How do I keep friends when I move to another city?",
    ),
    "code": (
        "Write a Python function that reverses a linked list.",
        "Write a Python class for a bounded queue with put, get and len.",
    ),
    "edit": (
        f"Rename the variable `total` to `amount` everywhere and print the whole file:\n\n```python\n{CODE}```",
        f"Add type hints to this file and print the whole file:\n\n```python\n{CODE}```",
    ),
    "math": (
        "A train goes 180 km in 2.5 hours. How far does it go in 4 hours at the same speed? Show each step.",
        "Solve 3x + 7 = 2x + 19 and check the result. Show each step.",
    ),
    "summary": (f"Summarize in five bullet points that quote the text:\n\n{NEWS}",),
}


@dataclass
class Row:
    """Measurements of one task."""

    ratios: list[float] = field(default_factory=list)
    dense: list[float] = field(default_factory=list)
    auto: list[float] = field(default_factory=list)
    ttft: list[float] = field(default_factory=list)
    figures: list[Figures] = field(default_factory=list)
    why: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=None, help="pair of the catalogue, or path of the target")
    parser.add_argument("--model-draft", default=None)
    parser.add_argument("--draft", default="auto")
    parser.add_argument("--draft-max", default="auto", help="a fixed K to compare with auto")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--temp", type=float, default=0.0)
    options = parser.parse_args()
    given = {"model": options.model, "model_draft": options.model_draft}
    values = {"temp": options.temp, "n_predict": options.tokens, "ignore_eos": True, "seed": 1, "ctx_size": 4096}
    values |= {"draft": options.draft, "draft_max": options.draft_max}
    values |= {name: value for name, value in given.items() if value is not None}
    settings = config.load(values).settings
    target, draft = library.resolve_pair(settings)
    with Session.open(settings, target, draft) as session:
        print(f"{session.target.name} + {session.draft.name if session.draft else 'no draft'}, {options.tokens} tokens")
        print(f"{'task':8}{'dense':>7}{'auto':>7}{'ratio':>7}  {'range':11}{'TTFT':>6}{'tok/round':>10}  drafters; why")
        for task in options.tasks:
            print(line(task, measure(session, settings, task, options.repeat)), flush=True)


def measure(session: Session, settings: Settings, task: str, repeat: int) -> Row:
    row, dense_settings = Row(), settings.changed(draft="none")
    answer(session, settings, TASKS[task][0])
    for prompt in TASKS[task]:
        for i in range(repeat):
            order = ("none", "auto") if i % 2 == 0 else ("auto", "none")
            found = {}
            for which in order:
                # Another conversation first, so that both read their prompt.
                answer(session, dense_settings.changed(n_predict=1), "Hi")
                found[which], why = answer(session, dense_settings if which == "none" else settings, prompt)
                row.why = why if which == "auto" else row.why
            dense, auto = found["none"], found["auto"]
            row.figures.append(auto)
            row.dense.append(dense.decode_per_second or 0.0)
            row.auto.append(auto.decode_per_second or 0.0)
            row.ratios.append(row.auto[-1] / row.dense[-1])
            row.ttft.append((auto.ttft_s or 0.0) / (dense.ttft_s or 1.0))
    return row


def answer(session: Session, settings: Settings, prompt: str) -> tuple[Figures, str]:
    statistics, last = Statistics(), ""
    events: list[Event] = list(session.reply([Message("user", prompt)], settings))
    for event in events:
        statistics.add(event)
        last = (event.reason or last) if isinstance(event, Round) else last
    assert isinstance(events[-1], Finish)
    return statistics.total(), last


def line(task: str, row: Row) -> str:
    spread = f"{min(row.ratios):.2f}-{max(row.ratios):.2f}"
    tokens = sum(figures.tokens for figures in row.figures) / sum(figures.rounds for figures in row.figures)
    drafted: dict[str, list[int]] = {}
    for figures in row.figures:
        for name, account in figures.accounts.items():
            both = drafted.setdefault(name, [0, 0])
            both[0] += account.accepted
            both[1] += account.drafted
    drafters = ", ".join(f"{name} {accepted}/{n}" for name, (accepted, n) in sorted(drafted.items())) or "none"
    return (
        f"{task:8}{median(row.dense):7.1f}{median(row.auto):7.1f}{median(row.ratios):7.2f}  {spread:11}"
        f"{median(row.ttft):6.2f}{tokens:10.2f}  {drafters}; {row.why}"
    )


if __name__ == "__main__":
    main()
