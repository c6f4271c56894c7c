"""Verification: which draft tokens stay, and which token follows them. Pure functions over distributions.

Each rule takes the draft tokens x_1..x_n with the distributions q_1..q_n that they were drawn from, and the target's
distributions p_1..p_{n+1} along the drafted path. What it emits, accepted drafts and one more token, has exactly the
law of decoding densely with p. Rows are asked for one by one, so that a row after the first rejection costs nothing
(except in block mode, which must see them all).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from localspec.noise import Chance, Noise
from localspec.sampling import Distribution, Ids, Probabilities

Rows = Callable[[int], Distribution]
"""``rows(i)`` is the target's distribution after the first ``i`` draft tokens, 0 <= i <= n."""


class Mode(StrEnum):
    """The verification rule."""

    GREEDY = "greedy"
    GUMBEL = "gumbel"
    REJECTION = "rejection"
    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class DraftToken:
    """A draft token and the distribution it was really drawn from; a point mass where there is none."""

    id: int
    q: Distribution


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a round emits: the first ``accepted`` draft tokens, then ``token``."""

    accepted: int
    token: int
    p: tuple[float, ...]
    """Target probability of each emitted token."""
    alphas: tuple[float, ...]
    """sum min(p, q) at each draft position on the emitted path, the one that was rejected included."""


def overlap(p: Distribution, q: Distribution) -> float:
    """sum over ids of min(p, q) = 1 - TV(p, q): how often the best coupling of the two agrees."""
    return float(np.minimum(p.p, q.probabilities(p.ids)).sum())


def verify_greedy(drafts: Sequence[DraftToken], rows: Rows) -> Verdict:
    """Accept while the draft token is the target's only choice. For distributions at temperature 0."""
    return _follow(drafts, rows, lambda _i, p: int(p.ids[np.argmax(p.p)]))


def verify_gumbel(drafts: Sequence[DraftToken], rows: Rows, noise: Noise, position: int) -> Verdict:
    """Emit y_i = argmax(log p_i + G_i) and go on while the draft drew the same token.

    G_i is the noise at ``position + i``. By the Gumbel-max trick (Gumbel 1954; Maddison, Tarlow and Minka 2014) y_i has
    the law p_i whatever was drafted, so the emitted text is that of dense decoding with the same noise.
    """
    return _follow(drafts, rows, lambda i, p: gumbel_argmax(p, noise, position + i))


def _follow(drafts: Sequence[DraftToken], rows: Rows, choose: Callable[[int, Distribution], int]) -> Verdict:
    """Emit the target's own choice at each position for as long as the draft had guessed it."""
    probabilities: list[float] = []
    alphas: list[float] = []
    for i in range(len(drafts) + 1):
        p = rows(i)
        chosen = choose(i, p)
        probabilities.append(p.probability(chosen))
        if i < len(drafts):
            alphas.append(overlap(p, drafts[i].q))
            if drafts[i].id == chosen:
                continue
        return Verdict(i, chosen, tuple(probabilities), tuple(alphas))
    raise AssertionError("unreachable: the last row always returns")


def gumbel_argmax(distribution: Distribution, noise: Noise, position: int) -> int:
    """The token with the largest log-probability plus noise."""
    if len(distribution.ids) == 1:
        return int(distribution.ids[0])
    scores = np.log(distribution.p, where=distribution.p > 0, out=np.full(len(distribution.p), -np.inf))
    return int(distribution.ids[np.argmax(scores + noise(position, distribution.ids))])


def verify_rejection(drafts: Sequence[DraftToken], rows: Rows, chance: Chance) -> Verdict:
    """Accept x_i with probability min(1, p_i(x_i) / q_i(x_i)), else draw from the residual (Leviathan, Kalman and
    Matias 2023, algorithm 1; Chen et al. 2023, algorithm 2)."""
    probabilities: list[float] = []
    alphas: list[float] = []
    for i, draft in enumerate(drafts):
        p = rows(i)
        p_x = p.probability(draft.id)
        alphas.append(overlap(p, draft.q))
        if not chance.accept(p_x, draft.q.probability(draft.id)):
            token = _draw(p.ids, _residual(p, draft.q, 1.0), p, chance)
            return Verdict(i, token, (*probabilities, p.probability(token)), tuple(alphas))
        probabilities.append(p_x)
    p = rows(len(drafts))
    token = _draw(p.ids, p.p, p, chance)
    return Verdict(len(drafts), token, (*probabilities, p.probability(token)), tuple(alphas))


def verify_block(drafts: Sequence[DraftToken], rows: Rows, chance: Chance) -> Verdict:
    """Accept the longest prefix that a joint test over the block keeps (Sun et al. 2024, algorithm 2).

    w_i = min(1, w_{i-1} p_i(x_i) / q_i(x_i)) is the weight of a prefix. Prefix i passes with probability h_i = w_n at
    the end of the block and, before it, m / (m + 1 - w_i) with m = sum max(w_i p_{i+1} - q_{i+1}, 0). The token after
    the longest prefix that passed comes from norm(max(w_i p_{i+1} - q_{i+1}, 0)), or from p after the whole block.
    """
    n = len(drafts)
    targets = [rows(i) for i in range(n + 1)]
    weight, accepted, weight_accepted = 1.0, 0, 1.0
    for i, draft in enumerate(drafts):
        weight = min(1.0, weight * targets[i].probability(draft.id) / draft.q.probability(draft.id))
        if i + 1 < n:
            mass = float(_residual(targets[i + 1], drafts[i + 1].q, weight).sum())
            # With w = 1 and no residual, p and q agree at the next position and the prefix never ends here.
            passes = mass / (mass + 1.0 - weight) if mass > 0.0 or weight < 1.0 else 1.0
        else:
            passes = weight
        if chance.accept(passes, 1.0):
            accepted, weight_accepted = i + 1, weight
    p = targets[accepted]
    weights = p.p if accepted == n else _residual(p, drafts[accepted].q, weight_accepted)
    token = _draw(p.ids, weights, p, chance)
    probabilities = [targets[i].probability(drafts[i].id) for i in range(accepted)]
    alphas = [overlap(targets[i], drafts[i].q) for i in range(min(accepted + 1, n))]
    return Verdict(accepted, token, (*probabilities, p.probability(token)), tuple(alphas))


def _residual(p: Distribution, q: Distribution, weight: float) -> Probabilities:
    """max(weight * p - q, 0) on the ids of p, unnormalised."""
    return np.maximum(weight * p.p - q.probabilities(p.ids), 0.0)


def _draw(ids: Ids, weights: Probabilities, p: Distribution, chance: Chance) -> int:
    # A residual without mass means that p and q agree to the last bit; then p itself is the right law.
    if not float(weights.sum()) > 0.0:
        weights = p.p
    return int(ids[chance.draw(weights)])
