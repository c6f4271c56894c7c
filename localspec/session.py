"""A loaded pair that answers conversations.

It owns both contexts, renders messages with the model's chat template, re-uses the KV cache between turns, and decides
what happens when the context is full.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from localspec import llama
from localspec.chat_template import ChatTemplate, Message
from localspec.config import Settings
from localspec.controller import Controller
from localspec.costs import Costs
from localspec.decode import DecodeSettings, Ending, Reply, decode
from localspec.drafters import Drafter
from localspec.drafters.draft_model import DraftModel
from localspec.drafters.none import NoDraft
from localspec.drafters.stack import Stack
from localspec.errors import PairError, SessionError
from localspec.events import Event, Prefill, Round
from localspec.learned import Learned
from localspec.opening import LoadProgress, open_pair
from localspec.sampling import Sampling
from localspec.sequence import CachedSequence
from localspec.tasks import Task, guess
from localspec.verify import Mode

__all__ = ["CurrentSettings", "LoadProgress", "Message", "ModelInfo", "Session"]

CurrentSettings = Callable[[], Settings]
"""The settings in force now; called on the thread that decodes."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A loaded model."""

    name: str
    path: Path
    description: str
    size_bytes: int
    n_params: int
    n_ctx_train: int
    memory_bytes: int
    """Weights, KV cache and compute buffers, as llama.cpp reports them."""


class Session:
    """A target and a draft in memory. One thread at a time may use it."""

    def __init__(
        self,
        target: llama.Context,
        draft: llama.Context | None,
        settings: Settings,
        learned: Learned | None = None,
    ) -> None:
        """Takes over both contexts; ``open`` is the usual way in. ``learned`` is what is known of the pair already."""
        self._settings = settings
        self._contexts = [context for context in (draft, target) if context is not None]
        self.learned = learned or Learned(None, "")
        self.controller = Controller(Costs(self.learned.curve))
        self._target = CachedSequence(target)
        self._drafter: Drafter = Stack(DraftModel(draft) if draft is not None else None, self.controller)
        self._no_draft = NoDraft()
        self._vocab = target.model.vocab
        self._template = _chat_template(target.model)
        self._can_roll_back = not target.model.is_stateful or target.n_rs_seq > 0
        self._draft_limit = target.n_rs_seq if target.n_rs_seq else 32
        self.target = _info(target)
        self.draft = _info(draft) if draft is not None else None
        self.n_ctx = target.n_ctx
        self.seed = 0
        self.placement = ""
        """Where the layers are, in a sentence."""
        self.dropped_turns = 0
        """Oldest turns left out of the last prompt because they did not fit."""

    @classmethod
    def open(
        cls,
        settings: Settings,
        target: Path,
        draft: Path | None,
        *,
        progress: Callable[[LoadProgress], None] | None = None,
    ) -> Self:
        """Check, load and measure a pair, as ``open_pair`` does; raises what it raises."""
        pair = open_pair(settings, target, draft, progress)
        try:
            session = cls(pair.target, pair.draft, settings, pair.learned)
        except BaseException:
            pair.close()
            raise
        session.placement = pair.placement
        return session

    def reply(
        self, messages: Sequence[Message], settings: Settings | None = None, *, current: CurrentSettings | None = None
    ) -> Generator[Event]:
        """Answer a conversation. ``settings`` are read anew for each reply; closing the iterator cancels it.

        ``current`` is asked before each round for the settings then in force, so that K, the drafter, the mode and the
        sampling can be changed while a reply streams; what is fixed for a reply (its messages, its stop strings) stays.

        Raises SessionError when the conversation does not fit into the context.
        """
        settings = settings or self._settings
        turns = list(messages)
        prompt = self._fit(turns, settings)
        reply = self._reply(settings, position=len(prompt), current=current)
        task = guess(turns[-1].content) if turns else Task.CHAT
        while True:
            ending = yield from self._learning(task, decode(self._target, self._drafter_for(settings), prompt, reply))
            if not (ending.context_is_full and settings.context_full == "drop" and _drop_oldest(turns)):
                break
            self.dropped_turns += 1
            prompt = self._fit(turns, settings, reply.tokens) + reply.tokens
        yield reply.finish(ending)

    def complete(self, prompt: str, settings: Settings | None = None) -> Generator[Event]:
        """Continue raw text, without a chat template. Raises SessionError when it does not fit into the context."""
        settings = settings or self._settings
        tokens = self._vocab.tokenize(prompt) or [max(self._vocab.bos, 0)]
        if len(tokens) > self.n_ctx:
            raise SessionError(_too_long(len(tokens), self.n_ctx))
        reply = self._reply(settings, position=len(tokens))
        decoding = decode(self._target, self._drafter_for(settings), tokens, reply)
        ending = yield from self._learning(guess(prompt), decoding)
        yield reply.finish(ending)

    def _learning(
        self, task: Task, decoding: Generator[Prefill | Round, None, Ending]
    ) -> Generator[Prefill | Round, None, Ending]:
        """The same events, with what they teach kept under their task, also when the reply is cancelled."""
        record = self.learned.task(task)
        self.controller.begin(record.lookup, record.model, introduce=not self.learned.seen_draft_model)
        try:
            while True:
                event = next(decoding)
                if isinstance(event, Round):
                    self.learned.add(task, event)
                yield event
        except StopIteration as end:
            ending: Ending = end.value
            return ending
        finally:
            decoding.close()
            self.learned.save(self.controller.costs)

    def close(self) -> None:
        """Free both models."""
        while self._contexts:
            context = self._contexts.pop()
            context.close()
            context.model.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _reply(self, settings: Settings, position: int, current: CurrentSettings | None = None) -> Reply:
        drawn = self.seed = secrets.randbits(32) if settings.seed is None else settings.seed
        latest, decoding = settings, _decode_settings(settings, drawn, self._draft_limit)

        def now() -> DecodeSettings:
            nonlocal latest, decoding
            if current is not None and (changed := current()) is not latest:
                self.seed = drawn if changed.seed is None else changed.seed
                latest, decoding = changed, _decode_settings(changed, self.seed, self._draft_limit)
            return decoding

        return Reply(decoding, self._vocab, position=position, current=now)

    def _drafter_for(self, settings: Settings) -> Drafter:
        if not settings.drafts:
            return self._drafter if self._can_roll_back else self._no_draft
        if not self._can_roll_back:
            raise PairError(f"{self.target.name} cannot take back rejected tokens; use `--draft none`.")
        return self._drafter

    def _fit(self, turns: list[Message], settings: Settings, generated: Sequence[int] = ()) -> list[int]:
        """The prompt of ``turns``, without the oldest of them where it would not fit and the policy allows it."""
        if not generated:
            self.dropped_turns = 0
        # Room for an answer: dropping just enough to fit would stop it after a few tokens.
        reserve = self.n_ctx // 4 if settings.context_full == "drop" else 0
        while True:
            text = self._template.render(turns)
            bos = self._vocab.piece(self._vocab.bos, special=True) if self._vocab.bos >= 0 else b""
            written = bool(bos) and text.encode().startswith(bos)
            tokens = self._vocab.tokenize(text, add_special=not written)
            if len(tokens) + len(generated) + reserve <= self.n_ctx:
                return tokens
            if settings.context_full == "drop" and _drop_oldest(turns):
                self.dropped_turns += 1
            elif len(tokens) + len(generated) <= self.n_ctx:
                return tokens
            else:
                raise SessionError(_too_long(len(tokens), self.n_ctx))


def _drop_oldest(turns: list[Message]) -> bool:
    """Remove the oldest question and its answer, keeping a system message and the last question."""
    first = 1 if turns and turns[0].role == "system" else 0
    questions = [i for i, turn in enumerate(turns) if turn.role == "user"]
    if len(questions) < 2:
        return False
    del turns[first : questions[1]]
    return True


def _too_long(n_tokens: int, n_ctx: int) -> str:
    return (
        f"The conversation has {n_tokens} tokens but the context holds {n_ctx}; raise `--ctx-size`, start a new "
        "conversation, or let the oldest turns go with `--context-full drop`."
    )


def _chat_template(model: llama.Model) -> ChatTemplate:
    vocab = model.vocab

    def text(token: int) -> str:
        return vocab.piece(token, special=True).decode(errors="replace") if token >= 0 else ""

    return ChatTemplate(model.chat_template, bos=text(vocab.bos), eos=text(vocab.eos))


def _info(context: llama.Context) -> ModelInfo:
    model = context.model
    return ModelInfo(
        name=model.path.stem,
        path=model.path,
        description=model.description,
        size_bytes=model.size_bytes,
        n_params=model.n_params,
        n_ctx_train=model.n_ctx_train,
        memory_bytes=model.buffer_bytes + context.buffer_bytes,
    )


def _decode_settings(settings: Settings, seed: int, draft_limit: int) -> DecodeSettings:
    return DecodeSettings(
        mode=Mode(settings.verification),
        sampling=Sampling(
            temp=settings.temp,
            top_k=settings.top_k,
            top_p=settings.top_p,
            min_p=settings.min_p,
            repeat_penalty=settings.repeat_penalty,
            repeat_last_n=settings.repeat_last_n,
            presence_penalty=settings.presence_penalty,
            frequency_penalty=settings.frequency_penalty,
            logit_bias=tuple(sorted(settings.logit_bias.items())),
        ),
        draft_temp=settings.draft_temp,
        draft_max=min(settings.most_drafted(draft_limit), draft_limit) if settings.drafts else 0,
        adaptive=settings.draft_max == "auto",
        drafters=settings.drafters,
        draft_min=settings.draft_min,
        draft_p_min=settings.draft_p_min,
        seed=seed,
        stop=tuple(settings.stop),
        n_predict=settings.n_predict,
        ignore_eos=settings.ignore_eos,
    )
