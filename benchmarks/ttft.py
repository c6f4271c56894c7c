"""Time to the first token: of a second turn over a cold start with the same history, and of auto over dense decoding.

The history is a conversation of about `--history` tokens. A cold start reads all of it; a second turn finds it in the
KV cache and reads what is new. Each pair of figures is taken in turn, and the median ratio is printed with its range.

    python benchmarks/ttft.py --history 4000 --repeat 3
"""

from __future__ import annotations

import argparse
from statistics import median

from auto import NEWS

from localspec import config, library
from localspec.config import Settings
from localspec.events import Round
from localspec.session import Message, Session

QUESTION = "Which of the two sides has the better reasons?"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=None)
    parser.add_argument("--model-draft", default=None)
    parser.add_argument("--history", type=int, default=4000, help="tokens")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    values: dict[str, object] = {"temp": 0, "n_predict": 4, "ignore_eos": True, "ctx_size": options.history + 1024}
    values |= {k: v for k, v in vars(options).items() if k.startswith("model") and v is not None}
    settings = config.load(values).settings
    target, draft = library.resolve_pair(settings)
    with Session.open(settings, target, draft) as session:
        history = conversation(options.history)
        turns, kinds = [], []
        for i in range(options.repeat):
            cold = ttft(session, settings, [Message("user", f"Hi {i}")], history)
            turns.append(ttft(session, settings, history, [*history, *answered()]) / cold)
            dense = settings.changed(draft="none")
            found = {}
            for name, choice in (("dense", dense), ("auto", settings))[:: 1 if i % 2 else -1]:
                found[name] = ttft(session, choice, [Message("user", f"Ho {i} {name}")], history)
            kinds.append(found["auto"] / found["dense"])
        print(f"{session.target.name} + {session.draft.name if session.draft else 'no draft'}")
        show("second turn / cold start", turns)
        show("auto / dense, cold start", kinds)


def conversation(tokens: int) -> list[Message]:
    """Questions and answers of about so many tokens in all, a question last; four characters are about a token."""
    pairs = max(1, tokens * 4 // (len(NEWS) + 60))
    turns = []
    for i in range(pairs):
        turns += [Message("user", f"What does report {i} say?"), Message("assistant", f"Report {i}: {NEWS}")]
    return [*turns, Message("user", QUESTION)]


def answered() -> list[Message]:
    return [Message("assistant", "That is for the reader to say."), Message("user", "And in one word?")]


def ttft(session: Session, settings: Settings, before: list[Message], messages: list[Message]) -> float:
    """Seconds to the first token of a reply to ``messages`` when the caches hold ``before``."""
    list(session.reply(before, settings.changed(draft="none", n_predict=1)))
    return next(event.seconds for event in session.reply(messages, settings) if isinstance(event, Round))


def show(name: str, ratios: list[float]) -> None:
    print(f"{name}: {median(ratios):.3f}  range {min(ratios):.3f}-{max(ratios):.3f}")


if __name__ == "__main__":
    main()
