"""The decode loop: the one place where tokens are produced, dense (K = 0) or speculative.

A round drafts up to K tokens, evaluates the last committed token and the drafts in one target pass, verifies, and emits
the accepted drafts and one token of the target's own. Between rounds the target's cache holds every committed token but
the last, whose pass gives the first row of the next round.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter

from localspec.detokenize import TextStream
from localspec.drafters import KINDS, Drafter, DraftRules, TargetOutputs, above
from localspec.errors import ModelError
from localspec.events import Finish, FinishReason, Origin, Prefill, Round, Token
from localspec.noise import Chance, GumbelNoise, Noise, RandomChance
from localspec.sampling import Distribution, Processor, Sampling
from localspec.sequence import CachedSequence, Logits, Vocabulary
from localspec.verify import (
    DraftToken,
    Mode,
    Rows,
    Verdict,
    gumbel_argmax,
    verify_block,
    verify_greedy,
    verify_gumbel,
    verify_rejection,
)

PREFILL_TOKENS = 256
"""Prompt tokens between two progress events; a reader can cancel at each."""


@dataclass(frozen=True, slots=True)
class DecodeSettings:
    """How a reply is decoded."""

    mode: Mode = Mode.GUMBEL
    sampling: Sampling = field(default_factory=Sampling)
    draft_temp: float | None = None
    """Temperature of the draft; None is the target's."""
    draft_max: int = 3
    """K, or the most that it may be where it is adaptive."""
    adaptive: bool = False
    """Whether the drafter chooses K for each round."""
    drafters: tuple[str, ...] = KINDS
    """The drafters that may be used."""
    draft_min: int = 0
    draft_p_min: float = 0.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    n_predict: int = -1
    """The most tokens to emit; negative goes on until the context is full."""
    ignore_eos: bool = False


@dataclass(frozen=True, slots=True)
class Ending:
    """Why decoding ended."""

    reason: FinishReason
    stopped_by: str | None = None
    context_is_full: bool = False


class Reply:
    """State of one reply that outlives a change of its prompt: its text, its count of tokens and its randomness."""

    def __init__(
        self,
        settings: DecodeSettings,
        vocab: Vocabulary,
        *,
        position: int = 0,
        noise: Noise | None = None,
        chance: Chance | None = None,
        current: Callable[[], DecodeSettings] | None = None,
    ) -> None:
        """``position``: of the first token, for the noise. ``noise`` and ``chance`` replace those of the seed.

        ``current`` is asked before each round for the settings then in force.
        """
        self.settings = settings
        self.vocab = vocab
        self._current = current or (lambda: settings)
        self.text = TextStream(settings.stop)
        self.started = perf_counter()
        self.position = position
        self.noise: Noise = noise or GumbelNoise(settings.seed)
        self.chance: Chance = chance or RandomChance(settings.seed)
        self.tokens: list[int] = []
        self.n_rounds = 0
        self.prompt_tokens = 0
        self.sampling = self._sampling()

    def renew(self) -> bool:
        """Take over settings that were changed since the last round; the stop strings stay. Whether there were any."""
        settings = self._current()
        if settings == self.settings:
            return False
        if settings.seed != self.settings.seed:
            self.noise, self.chance = GumbelNoise(settings.seed), RandomChance(settings.seed)
        self.settings = settings
        self.sampling = self._sampling()
        return True

    def _sampling(self) -> Sampling:
        sampling = self.settings.sampling
        if self.settings.ignore_eos:
            banned = tuple((token, float("-inf")) for token in sorted(self.vocab.eog))
            sampling = replace(sampling, logit_bias=sampling.logit_bias + banned)
        return sampling if self.settings.mode is not Mode.GREEDY else replace(sampling, temp=0.0)

    @property
    def seconds(self) -> float:
        return perf_counter() - self.started

    def draft_sampling(self) -> Sampling:
        temp = self.settings.draft_temp
        return self.sampling if temp is None or self.settings.mode is Mode.GREEDY else replace(self.sampling, temp=temp)

    def draw_draft(self, q: Distribution, offset: int) -> int:
        """A draft token, with the same noise that verification will use at its position in gumbel mode."""
        if self.settings.mode is Mode.GREEDY:
            return int(q.ids[0])
        if self.settings.mode is Mode.GUMBEL:
            return gumbel_argmax(q, self.noise, self.position + offset)
        return int(q.ids[self.chance.draw(q.p)])

    def verify(self, drafts: Sequence[DraftToken], rows: Rows) -> Verdict:
        match self.settings.mode:
            case Mode.GREEDY:
                return verify_greedy(drafts, rows)
            case Mode.GUMBEL:
                return verify_gumbel(drafts, rows, self.noise, self.position)
            case Mode.REJECTION:
                return verify_rejection(drafts, rows, self.chance)
            case Mode.BLOCK:
                return verify_block(drafts, rows, self.chance)

    def remaining(self) -> int | None:
        """Tokens that may still be emitted, None for no limit."""
        n = self.settings.n_predict
        return None if n < 0 else n - len(self.tokens)

    def finish(self, ending: Ending) -> Finish:
        """The last event of the reply."""
        text = self.text.finish()
        return Finish(ending.reason, text, self.prompt_tokens, len(self.tokens), self.seconds, ending.stopped_by)


def decode(
    target: CachedSequence, drafter: Drafter, prompt: Sequence[int], reply: Reply
) -> Generator[Prefill | Round, None, Ending]:
    """Continue ``prompt`` (at least one token), re-using what the caches share with it. Returns why it ended.

    Closing the generator cancels between two passes; the caches then hold a prefix of what was emitted, and the next
    call re-uses it. Raises ModelError when the target fails.
    """
    tokens = list(prompt)
    reply.prompt_tokens = reply.prompt_tokens or len(tokens)
    process = Processor(reply.sampling, target.model.n_vocab)
    drafter.begin(tokens, _draft_rules(reply, target))
    yield from _prefill(target, drafter, tokens, reply)
    ending = _ending(tokens, target, reply)
    while ending is None:
        if reply.renew():
            process = Processor(reply.sampling, target.model.n_vocab)
            drafter.begin(tokens, _draft_rules(reply, target))
        event = _round(target, drafter, process, tokens, reply)
        ending = _ending(tokens, target, reply)
        yield event
    target.rewind(len(tokens))
    return ending


def _draft_rules(reply: Reply, target: CachedSequence) -> DraftRules:
    settings = reply.settings
    return DraftRules(
        process=Processor(reply.draft_sampling(), target.model.n_vocab),
        draw=reply.draw_draft,
        is_eog=reply.vocab.is_eog,
        go_on=above(settings.draft_p_min, settings.draft_min),
        kinds=settings.drafters,
        adaptive=settings.adaptive,
        remaining=reply.remaining,
    )


def _prefill(target: CachedSequence, drafter: Drafter, tokens: list[int], reply: Reply) -> Iterator[Prefill]:
    cached = done = target.keep_prefix(tokens[:-1])
    yield Prefill(done, len(tokens), cached, reply.seconds)
    step = min(PREFILL_TOKENS, target.model.n_batch)
    drafting = reply.settings.draft_max > 0
    while True:
        if drafting:
            drafter.prefill(tokens[:done])
        if done >= len(tokens) - 1:
            return
        piece = tokens[done : min(done + step, len(tokens) - 1)]
        target.decode(piece, n_rows=0)
        done += len(piece)
        yield Prefill(done, len(tokens), cached, reply.seconds)


def _round(target: CachedSequence, drafter: Drafter, process: Processor, tokens: list[int], reply: Reply) -> Round:
    began = perf_counter()
    k = _room(target, tokens, reply)
    drafts = drafter.propose(tokens, k)[:k]
    drafted_at = perf_counter()
    batch = [tokens[-1], *(draft.id for draft in drafts)]
    logits = target.decode(batch, n_rows=len(batch))
    verified_at = perf_counter()
    drafter.observe(TargetOutputs(len(tokens) - 1, tuple(batch), logits))
    verdict = reply.verify(drafts, _rows(process, logits, tokens, drafts))
    emitted, text = _emit(drafts, verdict, reply)
    accepted = min(verdict.accepted, len(emitted))
    if target.rewind(len(tokens) + accepted) != len(tokens) + accepted:
        raise ModelError("The target's cache could not be rolled back after a rejected draft; use `--draft none`.")
    drafter.accept(accepted)
    tokens.extend(token.id for token in emitted)
    reply.n_rounds += 1
    remarks = drafter.remarks()
    ended = perf_counter()
    event = Round(
        index=reply.n_rounds - 1,
        tokens=tuple(emitted),
        text=text,
        draft_max=len(drafts) if reply.settings.adaptive else reply.settings.draft_max,
        drafted=len(drafts),
        accepted=verdict.accepted,
        rejected=tuple(_rejected(drafts[verdict.accepted :], reply)),
        alphas=verdict.alphas,
        draft_s=drafted_at - began,
        verify_s=verified_at - drafted_at,
        host_s=ended - verified_at,
        seconds=reply.seconds,
        context_used=len(tokens),
        drafter=remarks.drafter,
        dense_s=remarks.dense_s,
        reason=remarks.reason,
    )
    drafter.learn(event)
    return event


def _room(target: CachedSequence, tokens: list[int], reply: Reply) -> int:
    """Draft tokens that fit into K, the context and ``n_predict``, so that a reply has the same length for every K."""
    room = min(reply.settings.draft_max, target.model.n_ctx - len(tokens), target.model.n_batch - 1)
    remaining = reply.remaining()
    return max(0, room if remaining is None else min(room, remaining - 1))


def _rows(process: Processor, logits: Logits, tokens: list[int], drafts: Sequence[DraftToken]) -> Rows:
    path = list(tokens)

    def rows(i: int) -> Distribution:
        # Penalties see the accepted path: the committed tokens and the drafts before this row.
        path[len(tokens) :] = [draft.id for draft in drafts[:i]]
        return process(logits[i], path)

    return rows


def _emit(drafts: Sequence[DraftToken], verdict: Verdict, reply: Reply) -> tuple[list[Token], str]:
    """The tokens of the verdict up to the first that ends the reply, and the text they release."""
    ids = [*(draft.id for draft in drafts[: verdict.accepted]), verdict.token]
    emitted: list[Token] = []
    text = ""
    for i, token in enumerate(ids):
        q = drafts[i].q.probability(drafts[i].id) if i < len(drafts) else None
        piece = reply.vocab.piece(token)
        shown = piece.decode("utf-8", errors="replace")
        emitted.append(Token(token, shown, _origin(i, verdict, drafts), verdict.p[i], q))
        reply.tokens.append(token)
        reply.position += 1
        if reply.vocab.is_eog(token):
            break
        text += reply.text.push(piece)
        if reply.text.stopped_by is not None:
            break
    return emitted, text


def _origin(i: int, verdict: Verdict, drafts: Sequence[DraftToken]) -> Origin:
    if i < verdict.accepted:
        return Origin.DRAFT
    if not drafts:
        return Origin.DENSE
    return Origin.BONUS if i == len(drafts) else Origin.CORRECTION


def _rejected(drafts: Sequence[DraftToken], reply: Reply) -> Iterator[Token]:
    for draft in drafts:
        text = reply.vocab.piece(draft.id).decode("utf-8", errors="replace")
        q = draft.q.probability(draft.id)
        yield Token(draft.id, text, Origin.DRAFT, 0.0, q)


def _ending(tokens: list[int], target: CachedSequence, reply: Reply) -> Ending | None:
    if reply.text.stopped_by is not None:
        return Ending(FinishReason.STOP, reply.text.stopped_by)
    if reply.tokens and reply.vocab.is_eog(reply.tokens[-1]):
        name = reply.vocab.piece(reply.tokens[-1], special=True).decode("utf-8", errors="replace")
        return Ending(FinishReason.STOP, name)
    remaining = reply.remaining()
    if remaining is not None and remaining <= 0:
        return Ending(FinishReason.LENGTH)
    if len(tokens) > target.model.n_ctx:
        return Ending(FinishReason.LENGTH, context_is_full=True)
    return None
