"""Language models that are tables of logits: small enough to enumerate everything that decoding can do with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from localspec.decode import DecodeSettings, Reply, decode
from localspec.drafters import Drafter
from localspec.drafters.draft_model import DraftModel
from localspec.events import Round
from localspec.noise import Noise, Weights
from localspec.sampling import Processor
from localspec.sequence import CachedSequence

Rows = NDArray[np.float32]


class TableModel:
    """Logits that depend on the last two tokens."""

    def __init__(self, n_vocab: int, seed: int, *, n_ctx: int = 64, spread: float = 1.5) -> None:
        self.n_vocab, self.n_ctx, self.n_batch = n_vocab, n_ctx, 32
        shape = (n_vocab + 1, n_vocab, n_vocab)
        self.table = np.random.default_rng(seed).normal(0.0, spread, shape).astype(np.float32)
        self.held: list[int] = []

    def row(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        before = tokens[-2] if len(tokens) > 1 else self.n_vocab
        return self.table[before, tokens[-1]]

    def decode(self, tokens: Sequence[int], n_rows: int = 1) -> Rows:
        assert len(self.held) + len(tokens) <= self.n_ctx
        rows = []
        for token in tokens:
            self.held.append(token)
            rows.append(self.row(self.held))
        return np.array(rows[len(rows) - n_rows :], np.float32).reshape(n_rows, self.n_vocab)

    def rewind(self, n: int) -> int:
        del self.held[n:]
        return len(self.held)


class TableVocab:
    """A vocabulary of single letters, of which some end the text."""

    def __init__(self, eog: frozenset[int] = frozenset()) -> None:
        self.eog = eog

    def is_eog(self, token: int) -> bool:
        return token in self.eog

    def piece(self, token: int, *, special: bool = False) -> bytes:
        return bytes([ord("a") + token])


class ScriptedChance:
    """Takes the decisions of a script and weighs them, so that every run can be visited once."""

    def __init__(self) -> None:
        self.script: list[tuple[int, list[tuple[int, float]]]] = []
        self._next = 0
        self.weight = 1.0

    def accept(self, p: float, q: float) -> bool:
        probability = min(1.0, p / q)
        return self._decide([(1, probability), (0, 1.0 - probability)]) == 1

    def draw(self, weights: Weights) -> int:
        shares = weights / weights.sum()
        return self._decide(list(enumerate(float(share) for share in shares)))

    def _decide(self, options: list[tuple[int, float]]) -> int:
        if self._next == len(self.script):
            self.script.append((0, [option for option in options if option[1] > 0.0]))
        index, possible = self.script[self._next]
        self._next += 1
        choice, probability = possible[index]
        self.weight *= probability
        return choice

    def advance(self) -> bool:
        """Move to the next unvisited run; False when there is none."""
        while self.script and self.script[-1][0] + 1 == len(self.script[-1][1]):
            self.script.pop()
        if not self.script:
            return False
        index, possible = self.script[-1]
        self.script[-1] = (index + 1, possible)
        self._next, self.weight = 0, 1.0
        return True


def run(
    target: TableModel,
    draft: TableModel,
    settings: DecodeSettings,
    prompt: Sequence[int],
    *,
    eog: frozenset[int] = frozenset(),
    chance: ScriptedChance | None = None,
    noise: Noise | None = None,
    drafter: Callable[[TableModel], Drafter] = DraftModel,
) -> list[Round]:
    """Rounds of one reply of the real decode loop with the real draft-model drafter."""
    target.rewind(0)
    draft.rewind(0)
    reply = Reply(settings, TableVocab(eog), position=len(prompt), chance=chance, noise=noise)
    events = decode(CachedSequence(target), drafter(draft), prompt, reply)
    return [event for event in events if isinstance(event, Round)]


def emitted(rounds: Sequence[Round]) -> tuple[int, ...]:
    return tuple(token.id for event in rounds for token in event.tokens)


def law(generate: Callable[[ScriptedChance], tuple[int, ...]]) -> dict[tuple[int, ...], float]:
    """Probability of every text that ``generate`` can give, by visiting every run of it."""
    chance = ScriptedChance()
    found: dict[tuple[int, ...], float] = {}
    while True:
        text = generate(chance)
        found[text] = found.get(text, 0.0) + chance.weight
        if not chance.advance():
            return found


def dense_law(
    target: TableModel, settings: DecodeSettings, prompt: Sequence[int], eog: frozenset[int] = frozenset()
) -> dict[tuple[int, ...], float]:
    """Product of the processed target probabilities along every text, computed without the decode loop."""
    process = Processor(Reply(settings, TableVocab(eog)).sampling, target.n_vocab)

    def texts(path: tuple[int, ...], weight: float) -> Iterator[tuple[tuple[int, ...], float]]:
        if len(path) == settings.n_predict or (path and path[-1] in eog):
            yield path, weight
            return
        whole = [*prompt, *path]
        distribution = process(target.row(whole), whole)
        for token, p in zip(distribution.ids, distribution.p, strict=True):
            if p > 0.0:
                yield from texts((*path, int(token)), weight * float(p))

    return dict(texts((), 1.0))
