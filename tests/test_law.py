"""The text of speculative decoding has the law of dense decoding: proved by visiting every run on small vocabularies.

The real decode loop runs with the real draft-model drafter over tables of logits. Every random decision it takes is
branched over, and the probabilities of all runs that give one text add up to that text's probability under dense
decoding, to 1e-12.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

from localspec.controller import Controller, Plan
from localspec.costs import Costs, Curve
from localspec.decode import DecodeSettings
from localspec.drafters.draft_model import DraftModel
from localspec.drafters.stack import Stack
from localspec.sampling import Distribution, Processor, Sampling
from localspec.verify import DraftToken, Mode
from tests.tables import ScriptedChance, TableModel, dense_law, emitted, law, run

PLAIN = Sampling(temp=1.0, top_k=0, top_p=1.0, min_p=0.0)
SAMPLINGS = {
    "plain": PLAIN,
    "cold": replace(PLAIN, temp=0.6),
    "top-k": replace(PLAIN, top_k=2),
    "top-p": replace(PLAIN, top_p=0.7),
    "min-p": replace(PLAIN, min_p=0.3),
    "penalties": replace(PLAIN, repeat_penalty=1.4, presence_penalty=0.3, frequency_penalty=0.2, repeat_last_n=4),
    "bias": replace(PLAIN, logit_bias=((0, 0.7), (2, -0.9))),
    "everything": Sampling(
        temp=0.8, top_k=3, top_p=0.9, min_p=0.1, repeat_penalty=1.2, repeat_last_n=-1, logit_bias=((1, 0.4),)
    ),
}
DRAFTING = {
    "fixed": {},
    "early stop": {"draft_p_min": 0.5},
    "early stop after one": {"draft_p_min": 0.9, "draft_min": 1},
    "hot draft": {"draft_temp": 2.0},
    "greedy draft": {"draft_temp": 0.0},
}


def assert_same_law(found: dict[tuple[int, ...], float], expected: dict[tuple[int, ...], float]) -> None:
    assert found.keys() == expected.keys()
    assert max(abs(found[text] - expected[text]) for text in expected) < 1e-12


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize("mode", [Mode.REJECTION, Mode.BLOCK])
def test_filters_and_penalties_follow_the_accepted_path(mode: Mode, sampling: Sampling) -> None:
    target, draft = TableModel(3, seed=1), TableModel(3, seed=2)
    settings = DecodeSettings(mode=mode, sampling=sampling, draft_max=2, n_predict=3)
    found = law(lambda chance: emitted(run(target, draft, settings, [0, 1], chance=chance)))
    assert_same_law(found, dense_law(target, settings, [0, 1]))


@pytest.mark.parametrize("drafting", DRAFTING.values(), ids=DRAFTING)
@pytest.mark.parametrize("mode", [Mode.REJECTION, Mode.BLOCK])
@pytest.mark.parametrize(("k", "n_vocab", "n_predict"), [(1, 3, 4), (2, 3, 4), (3, 3, 4), (4, 2, 5)])
def test_any_depth_and_any_way_of_drafting_gives_the_dense_law(
    mode: Mode, drafting: dict[str, float], k: int, n_vocab: int, n_predict: int
) -> None:
    target, draft = TableModel(n_vocab, seed=3), TableModel(n_vocab, seed=4)
    settings = replace(DecodeSettings(mode=mode, sampling=PLAIN, draft_max=k, n_predict=n_predict), **drafting)
    found = law(lambda chance: emitted(run(target, draft, settings, [1], chance=chance)))
    assert_same_law(found, dense_law(target, settings, [1]))


@pytest.mark.parametrize("mode", [Mode.REJECTION, Mode.BLOCK])
def test_an_end_of_generation_token_ends_the_text_where_dense_decoding_does(mode: Mode) -> None:
    target, draft = TableModel(3, seed=5), TableModel(3, seed=6)
    eog = frozenset({2})
    settings = DecodeSettings(mode=mode, sampling=PLAIN, draft_max=2, n_predict=3)
    found = law(lambda chance: emitted(run(target, draft, settings, [0], eog=eog, chance=chance)))
    assert_same_law(found, dense_law(target, settings, [0], eog))
    ignoring = replace(settings, ignore_eos=True)
    found = law(lambda chance: emitted(run(target, draft, ignoring, [0], eog=eog, chance=chance)))
    assert_same_law(found, dense_law(target, ignoring, [0], eog))
    assert all(2 not in text for text in found)


@pytest.mark.parametrize("mode", [Mode.REJECTION, Mode.BLOCK])
def test_a_draft_equal_to_the_target_is_always_accepted(mode: Mode) -> None:
    target, draft = TableModel(3, seed=7), TableModel(3, seed=7)
    settings = DecodeSettings(mode=mode, sampling=PLAIN, draft_max=2, n_predict=3)

    def generate(chance: ScriptedChance) -> tuple[int, ...]:
        rounds = run(target, draft, settings, [0], chance=chance)
        assert all(event.accepted == event.drafted for event in rounds)
        return emitted(rounds)

    assert_same_law(law(generate), dense_law(target, settings, [0]))


@pytest.mark.parametrize("mode", [Mode.REJECTION, Mode.BLOCK])
def test_drafts_that_the_target_never_says_are_never_emitted(mode: Mode) -> None:
    target, draft = TableModel(3, seed=8), TableModel(3, seed=9)
    target.table[:, :, 1] = -np.inf
    settings = DecodeSettings(mode=mode, sampling=PLAIN, draft_max=2, n_predict=3)
    found = law(lambda chance: emitted(run(target, draft, settings, [0], chance=chance)))
    assert_same_law(found, dense_law(target, settings, [0]))


def test_block_verification_accepts_at_least_as_much_as_rejection() -> None:
    def mean_accepted(mode: Mode) -> float:
        target, draft = TableModel(2, seed=10), TableModel(2, seed=11)
        settings = DecodeSettings(mode=mode, sampling=PLAIN, draft_max=3, n_predict=4)
        total = 0.0
        first = law(lambda chance: (run(target, draft, settings, [0], chance=chance)[0].accepted,))
        for (accepted,), weight in first.items():
            total += accepted * weight
        return total

    assert mean_accepted(Mode.BLOCK) >= mean_accepted(Mode.REJECTION) - 1e-12


class Untimed(Controller):
    """A controller that takes no notice of time, so that every visit of a run decides alike."""

    def learn_time(self, width: int, target_s: float, tokens: int) -> None: ...

    def learn_draft(self, steps: int, behind: int, seconds: float, accepted: int, plan: Plan) -> None: ...


CHEAP = Curve(0.01, ((1, 1.0), (8, 1.3)), 0.2, 0.01)
"""Drafting pays where the draft is fairly sure, so that the controller stops now and then."""


def stack(draft: TableModel) -> Stack:
    return Stack(DraftModel(draft), Untimed(Costs(CHEAP)))


STACKS = {
    "lookup": {"drafters": ("lookup",)},
    "adaptive lookup": {"drafters": ("lookup",), "adaptive": True},
    "adaptive draft model": {"drafters": ("draft-model",), "adaptive": True},
    "adaptive both": {"adaptive": True},
    "both": {},
}
REPEATED = (0, 1, 0, 1, 1, 0, 1, 0, 1, 1)


@pytest.mark.parametrize("drafting", STACKS.values(), ids=STACKS)
@pytest.mark.parametrize("mode", [Mode.REJECTION, Mode.BLOCK])
def test_lookups_and_an_adaptive_k_keep_the_dense_law(mode: Mode, drafting: dict[str, object]) -> None:
    target, draft = TableModel(2, seed=3, spread=2.5), TableModel(2, seed=4, spread=2.5)
    settings = replace(DecodeSettings(mode=mode, sampling=PLAIN, draft_max=3, n_predict=4), **drafting)  # type: ignore[arg-type]
    drafted: set[int] = set()

    def generate(chance: ScriptedChance) -> tuple[int, ...]:
        rounds = run(target, draft, settings, REPEATED, chance=chance, drafter=stack)
        drafted.update(event.drafted for event in rounds)
        return emitted(rounds)

    assert_same_law(law(generate), dense_law(target, settings, REPEATED))
    assert max(drafted) > 1


@pytest.mark.parametrize("drafting", STACKS.values(), ids=STACKS)
@pytest.mark.parametrize("mode", [Mode.GREEDY, Mode.GUMBEL])
def test_lookups_and_an_adaptive_k_give_the_dense_text(mode: Mode, drafting: dict[str, object]) -> None:
    n_drafted = 0
    for seed in range(12):
        target, draft = TableModel(4, seed=seed, spread=2.5), TableModel(4, seed=seed, spread=2.0)
        dense = DecodeSettings(mode=mode, sampling=PLAIN, draft_max=0, n_predict=24, seed=seed)
        fast = replace(dense, draft_max=6, **drafting)  # type: ignore[arg-type]
        rounds = run(target, draft, fast, REPEATED, drafter=stack)
        assert emitted(rounds) == emitted(run(target, draft, dense, REPEATED))
        n_drafted += sum(event.drafted for event in rounds)
    assert n_drafted > 40


class DropsAfterTheDraw(DraftModel):
    """The trap that early stop must avoid: it drops a drawn token because that token's own probability is low."""

    def propose(self, tokens: Sequence[int], k: int) -> list[DraftToken]:
        drafts = super().propose(tokens, k)
        unlikely = (i for i, draft in enumerate(drafts) if draft.q.probability(draft.id) < 0.5)
        return drafts[: next(unlikely, len(drafts))]


def test_a_drafter_that_drops_what_it_has_drawn_is_caught() -> None:
    target, draft = TableModel(3, seed=1), TableModel(3, seed=2, spread=3.0)
    settings = DecodeSettings(mode=Mode.REJECTION, sampling=PLAIN, draft_max=2, n_predict=3)
    found = law(lambda chance: emitted(run(target, draft, settings, [0], chance=chance, drafter=DropsAfterTheDraw)))
    expected = dense_law(target, settings, [0])
    assert max(abs(found[text] - expected[text]) for text in expected) > 1e-3


def test_gumbel_text_is_the_dense_text_for_the_same_noise_whatever_is_drafted() -> None:
    target, draft = TableModel(4, seed=12), TableModel(4, seed=13)
    for sampling in SAMPLINGS.values():
        for seed in range(12):
            settings = DecodeSettings(mode=Mode.GUMBEL, sampling=sampling, draft_max=0, n_predict=12, seed=seed)
            dense = emitted(run(target, draft, settings, [0, 1]))
            for k, drafting in product((1, 2, 5), DRAFTING.values()):
                assert emitted(run(target, draft, replace(settings, draft_max=k, **drafting), [0, 1])) == dense


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_gumbel_rounds_have_the_dense_law(sampling: Sampling) -> None:
    """Visits every joint outcome (draft token, target token) of two positions, weighed by the closed-form probability
    of that outcome under shared Gumbel noise, with noise that realises it."""
    target, draft = TableModel(3, seed=14), TableModel(3, seed=15)
    settings = DecodeSettings(mode=Mode.GUMBEL, sampling=sampling, draft_max=2, n_predict=3)
    prompt = [0, 1]
    p_of, q_of = Processor(sampling, 3), Processor(sampling, 3)
    found: dict[tuple[int, ...], float] = {}
    reached: dict[tuple[int, ...], float] = {(): 1.0}
    for (d_1, y_1), (d_2, y_2) in product(product(range(3), repeat=2), repeat=2):
        first = Coupling(p_of(target.row(prompt), prompt), q_of(draft.row(prompt), prompt), y_1, d_1)
        path = [*prompt, d_1]
        second = Coupling(p_of(target.row(path), path), q_of(draft.row(path), path), y_2, d_2)
        weight = first.probability * second.probability
        if weight <= 0.0:
            continue
        noise = {2: first.noise, 3: second.noise}
        event = run(target, draft, settings, prompt, noise=lambda i, ids, n=noise: n.get(i, np.zeros(3))[ids])[0]
        text = tuple(token.id for token in event.tokens[:2])
        found[text[:1]] = found.get(text[:1], 0.0) + weight
        if len(text) == 2:
            reached[text[:1]] = reached.get(text[:1], 0.0) + weight
            found[text] = found.get(text, 0.0) + weight
    assert abs(sum(w for text, w in found.items() if len(text) == 1) - 1.0) < 1e-12
    for text, weight in found.items():
        path = [*prompt, *text[:-1]]
        p = p_of(target.row(path), path).probability(text[-1])
        assert abs(weight - reached[text[:-1]] * p) < 1e-12


class Coupling:
    """The event argmax(log p + G) = y and argmax(log q + G) = d for standard Gumbel noise G."""

    def __init__(self, p: Distribution, q: Distribution, y: int, d: int) -> None:
        n = 3
        self._p = np.array([p.probability(i) for i in range(n)])
        self._q = np.array([q.probability(i) for i in range(n)])
        self.probability = self._both(y) if y == d else self._each(y, d)
        self.noise = np.full(n, -60.0)
        if self.probability > 0.0:
            self.noise[y] = self.noise[d] = 0.0
            if y != d:
                # Any value between these two logarithms makes y win under p and d win under q.
                low = np.log(self._p[d] / self._p[y]) if self._p[d] > 0 else -40.0
                high = np.log(self._q[d] / self._q[y]) if self._q[y] > 0 else 40.0
                self.noise[y] = (low + high) / 2

    def _both(self, i: int) -> float:
        """With E = exp(-G) exponential, token i wins both races when E_k > E_i max(p_k / p_i, q_k / q_i) for all k."""
        if self._p[i] == 0.0 or self._q[i] == 0.0:
            return 0.0
        return float(1.0 / np.maximum(self._p / self._p[i], self._q / self._q[i]).sum())

    def _each(self, y: int, d: int) -> float:
        """Integral over r = E_y / E_d of (r + 1 + sum_k max(r p_k / p_y, q_k / q_d))^-2, which is piecewise linear in
        r: y beats d under p while r < p_y / p_d, and d beats y under q while r > q_y / q_d."""
        p, q = self._p, self._q
        if p[y] == 0.0 or q[d] == 0.0:
            return 0.0
        low = q[y] / q[d]
        high = p[y] / p[d] if p[d] > 0 else np.inf
        others = [k for k in range(3) if k not in (y, d)]
        knots = [q[k] / q[d] * p[y] / p[k] for k in others if p[k] > 0]
        cuts = [low, *sorted(knot for knot in knots if low < knot < high), high]
        total = 0.0
        for a, b in pairwise(cuts):
            if not a < b:
                continue
            middle = (a + b) / 2 if np.isfinite(b) else a + 1.0
            constant, slope = 1.0, 1.0
            for k in others:
                if middle * p[k] / p[y] > q[k] / q[d]:
                    slope += p[k] / p[y]
                else:
                    constant += q[k] / q[d]
            total += (1.0 / (constant + slope * a) - (1.0 / (constant + slope * b) if np.isfinite(b) else 0.0)) / slope
        return float(total)
