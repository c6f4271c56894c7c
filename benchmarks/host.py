"""Host time of one round by vocabulary size and verification mode: everything but the two models' forward passes.

Rows are random logits with a peaked head, as a language model's are. Each mode is timed in turn, K drafts to a round,
and the median is printed in milliseconds beside its ratio to the greedy mode.

    python benchmarks/host.py --draft-max 3
"""

from __future__ import annotations

import argparse
from statistics import median
from time import perf_counter

import numpy as np

from localspec.decode import DecodeSettings, Reply
from localspec.sampling import Processor, Sampling
from localspec.verify import DraftToken, Mode

VOCABULARIES = (32_000, 49_152, 128_256, 151_936, 262_144)


class NoVocab:
    eog: frozenset[int] = frozenset()

    def is_eog(self, token: int) -> bool:
        return False

    def piece(self, token: int, *, special: bool = False) -> bytes:
        return b"x"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draft-max", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    print(f"{'vocabulary':>10}  " + "".join(f"{mode:>20}" for mode in Mode))
    for n_vocab in VOCABULARIES:
        times: dict[Mode, list[float]] = {mode: [] for mode in Mode}
        # The cut that finds candidates adapts from row to row, so a processor lives as long as a reply.
        processors = {mode: _processors(mode, n_vocab) for mode in Mode}
        for seed in range(options.rounds):
            rows = _rows(n_vocab, options.draft_max + 1, seed)
            for mode in Mode:
                times[mode].append(_round(mode, rows, seed, *processors[mode]))
        greedy = median(times[Mode.GREEDY])
        cells = (f"{1e3 * median(values):9.2f} ms ({median(values) / greedy:4.1f}x)" for values in times.values())
        print(f"{n_vocab:10}  " + "".join(f"{cell:>20}" for cell in cells), flush=True)


def _rows(n_vocab: int, n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.normal(0.0, 2.5, (n, n_vocab)).astype(np.float32)
    rows[:, rng.choice(n_vocab, 50, replace=False)] += rng.exponential(5.0, 50).astype(np.float32)
    return rows


def _reply(mode: Mode, seed: int) -> Reply:
    sampling = Sampling(temp=0.8, top_k=40, top_p=0.95, min_p=0.0)
    return Reply(DecodeSettings(mode=mode, sampling=sampling, seed=seed), NoVocab())


def _processors(mode: Mode, n_vocab: int) -> tuple[Processor, Processor]:
    reply = _reply(mode, 0)
    return Processor(reply.sampling, n_vocab), Processor(reply.draft_sampling(), n_vocab)


def _round(mode: Mode, rows: np.ndarray, seed: int, target: Processor, draft: Processor) -> float:
    """Draft from the same rows that verify, so that every draft is accepted: the longest round there is."""
    reply = _reply(mode, seed)
    began = perf_counter()
    drafts = []
    for i in range(len(rows) - 1):
        q = draft(rows[i], [])
        drafts.append(DraftToken(reply.draw_draft(q, i), q))
    reply.verify(drafts, lambda i: target(rows[i], []))
    return perf_counter() - began


if __name__ == "__main__":
    main()
