"""Rejection and block verification on real weights: what they emit has the target's law, by a chi-square test.

At a fixed prefix the law of the next two tokens is known from dense passes. N rounds are drawn; the first token is
counted, and in rejection mode the second after the likeliest first. With N = 1500, ten equal cells and a level of 1e-4,
an error of total variation 0.1 in the first token is found with probability above 0.99: d = 0.02 in each cell gives the
noncentrality N sum(d^2 / p) = 60 against a critical value of 33.7. Seeds are fixed, so the outcome is too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2, ncx2

from localspec import llama
from localspec.decode import DecodeSettings, Reply
from localspec.noise import RandomChance
from localspec.sampling import Distribution, Processor, Sampling
from localspec.verify import DraftToken, Mode, Verdict

N = 1500
LEVEL = 1e-4
SAMPLING = Sampling(temp=1.0, top_k=12, top_p=1.0, min_p=0.0)
PREFIXES = ("The capital of France is", "Once upon a time there was a", "def reverse(head):\n   ")


class Tree:
    """Target and draft distributions at a fixed prefix and after each token that can follow it."""

    def __init__(self, target: llama.Context, draft: llama.Context, prefix: str) -> None:
        self._tokens = target.model.vocab.tokenize(prefix)
        self._contexts = {"p": target, "q": draft}
        self._process = Processor(SAMPLING, target.n_vocab)
        self._known: dict[tuple[str, tuple[int, ...]], Distribution] = {}

    def __call__(self, which: str, *path: int) -> Distribution:
        key = (which, path)
        if key not in self._known:
            context = self._contexts[which]
            context.rewind(0)
            tokens = [*self._tokens, *path]
            self._known[key] = self._process(context.decode(tokens, 1)[-1], tokens)
        return self._known[key]


@pytest.fixture(scope="module")
def trees(smollm2: Path, smollm2_q2k: Path) -> Iterator[list[Tree]]:
    options = llama.ContextOptions(n_ctx=128, n_threads=2, n_threads_batch=2)
    with llama.opened(smollm2, context=options) as target, llama.opened(smollm2_q2k, context=options) as draft:
        yield [Tree(target, draft, prefix) for prefix in PREFIXES]


def one_round(tree: Tree, mode: Mode, chance: RandomChance) -> Verdict:
    reply = Reply(DecodeSettings(mode=mode, sampling=SAMPLING), NoVocab(), chance=chance)
    drafts: list[DraftToken] = []
    for i in range(2):
        q = tree("q", *(draft.id for draft in drafts))
        drafts.append(DraftToken(reply.draw_draft(q, i), q))
    path = [draft.id for draft in drafts]
    verdict = reply.verify(drafts, lambda i: tree("p", *path[:i]))
    return Verdict(verdict.accepted, verdict.token, tuple(path[: verdict.accepted]), verdict.alphas)


class NoVocab:
    eog: frozenset[int] = frozenset()

    def is_eog(self, token: int) -> bool:
        return False

    def piece(self, token: int, *, special: bool = False) -> bytes:
        return b""


def p_value(counts: Counter[int], law: Distribution) -> float:
    """Pearson's test, with cells of expectation below 5 pooled."""
    n = sum(counts.values())
    assert set(counts) <= set(law.ids.tolist())
    observed = np.array([counts[int(i)] for i in law.ids], float)
    expected = n * law.p
    small = expected < 5
    observed = np.append(observed[~small], observed[small].sum())
    expected = np.append(expected[~small], expected[small].sum())
    observed, expected = observed[expected > 0], expected[expected > 0]
    return float(chi2.sf(((observed - expected) ** 2 / expected).sum(), max(1, len(expected) - 1)))


@pytest.mark.parametrize("index", range(len(PREFIXES)))
@pytest.mark.parametrize("mode", [Mode.REJECTION, Mode.BLOCK])
def test_the_emitted_tokens_have_the_targets_law(trees: list[Tree], mode: Mode, index: int) -> None:
    tree, chance = trees[index], RandomChance(seed=index)
    first: Counter[int] = Counter()
    second: dict[int, Counter[int]] = {}
    for _ in range(N):
        verdict = one_round(tree, mode, chance)
        text = [*map(int, verdict.p), verdict.token]
        first[text[0]] += 1
        if len(text) > 1:
            second.setdefault(text[0], Counter())[text[1]] += 1
    assert p_value(first, tree("p")) > LEVEL
    likely = max(second, key=lambda token: second[token].total())
    if mode is Mode.REJECTION:
        # In block mode how far a round gets depends on the second token, so only the first has an unconditional law.
        assert p_value(second[likely], tree("p", likely)) > LEVEL


def test_the_test_has_the_power_that_it_claims() -> None:
    cells, shift = 10, 0.02
    noncentrality = N * cells * shift**2 / (1 / cells)
    assert ncx2.sf(chi2.isf(LEVEL, cells - 1), cells - 1, noncentrality) > 0.99


def test_emitting_drafts_unchecked_is_found(trees: list[Tree]) -> None:
    chance = RandomChance(seed=0)
    q = trees[0]("q")
    counts = Counter(int(q.ids[chance.draw(q.p)]) for _ in range(N))
    p = trees[0]("p")
    outside = set(counts) - set(p.ids.tolist())
    assert outside or p_value(counts, p) < LEVEL
