"""A session answers conversations: caches are re-used, limits are met by policy, and the text never depends on K."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import gguf
import pytest

from localspec import llama
from localspec.config import Settings
from localspec.errors import SessionError
from localspec.events import Event, Finish, FinishReason, Prefill, Round
from localspec.session import Message, Session
from localspec.stats import Statistics
from tests import synthetic
from tests.replies import ASCII, HELLO, N_CTX, finish_of, prompt_of, rounds_of, settings, text_of

REFUSES_SYSTEM = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for m in messages %}[{{ m.content }}]{% endfor %}"
)


class RecordedContext(llama.Context):
    """A context that remembers the tokens in its cache."""

    def __init__(self, model: llama.Model, options: llama.ContextOptions) -> None:
        super().__init__(model, options)
        self.held: list[int] = []

    def decode(self, tokens: Sequence[int], n_rows: int = 1) -> llama.Logits:
        rows = super().decode(tokens, n_rows)
        self.held.extend(tokens)
        return rows

    def rewind(self, n: int) -> int:
        kept = super().rewind(n)
        del self.held[kept:]
        return kept

    @property
    def text(self) -> str:
        return b"".join(self.model.vocab.piece(token, special=True) for token in self.held).decode(errors="replace")


Start = Callable[..., Session]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def tiny(folder: Path) -> tuple[Path, Path]:
    """A target and a draft that sometimes agrees with it."""
    target = synthetic.tiny_llama(folder / "target.gguf", n_vocab=ASCII, n_layer=2, seed=1)
    return target, synthetic.tiny_llama(folder / "draft.gguf", n_vocab=ASCII, n_layer=1, seed=1)


@pytest.fixture
def start(tiny: tuple[Path, Path]) -> Iterator[Start]:
    """Sessions of the tiny pair, or of ``target`` and ``draft``; keyword arguments are settings."""
    sessions: list[Session] = []

    def context(path: Path) -> RecordedContext:
        options = llama.ContextOptions(n_ctx=N_CTX, n_batch=N_CTX, n_ubatch=N_CTX)
        return RecordedContext(llama.Model(path), options)

    def start(*, target: Path = tiny[0], draft: Path | None = tiny[1], **values: object) -> Session:
        loaded = context(target), None if draft is None else context(draft)
        sessions.append(Session(*loaded, settings(**values)))
        return sessions[-1]

    yield start
    for session in sessions:
        session.close()


def refusal(events: Iterator[Event]) -> str:
    with pytest.raises(SessionError) as caught:
        list(events)
    text = str(caught.value)
    assert text.endswith(".")
    assert "\n" not in text
    return text


def held_by(session: Session) -> str:
    """The text in the target's cache."""
    context = session._target.model
    assert isinstance(context, RecordedContext)
    return context.text


def talk(n: int, *, words: str = "What about this one?") -> list[Message]:
    """A system message, ``n`` old turns and a question."""
    turns = [Message("system", "BE BRIEF")]
    for i in range(n):
        turns += [Message("user", f"{words} {i}"), Message("assistant", f"Answer {i}.")]
    return [*turns, Message("user", "LAST QUESTION")]


def test_a_reply_is_progress_then_rounds_then_one_finish(start: Start) -> None:
    events = list(start().reply(HELLO))
    kinds = [type(event) for event in events]
    assert kinds == sorted(kinds, key=[Prefill, Round, Finish].index)
    assert kinds.count(Finish) == 1
    progress = [event for event in events if isinstance(event, Prefill)]
    assert progress[0].done == progress[0].cached == 0
    assert progress[-1].done == progress[-1].total - 1  # the last prompt token is evaluated with the first draft
    assert [event.index for event in rounds_of(events)] == list(range(len(rounds_of(events))))
    assert finish_of(events).prompt_tokens == progress[-1].total
    assert finish_of(events).completion_tokens == sum(len(event.tokens) for event in rounds_of(events)) == 40
    seconds = [event.seconds for event in events]
    assert seconds == sorted(seconds)


def test_the_first_token_has_a_time_and_drafts_an_acceptance(start: Start) -> None:
    stats = Statistics()
    for event in start().reply(HELLO):
        stats.add(event)
    figures = stats.total()
    assert figures.ttft_s is not None
    assert 0 < figures.prompt_s < figures.ttft_s
    assert figures.tokens == 40
    assert 0 < figures.accepted < figures.drafted
    assert figures.draft_max == len(figures.survival) == 3


@pytest.mark.parametrize("temp", [0.0, 0.8])
def test_the_text_does_not_depend_on_k(start: Start, temp: float) -> None:
    texts = {k: text_of(list(start(draft_max=k, temp=temp).reply(HELLO))) for k in (0, 1, 3, 7)}
    assert len(set(texts.values())) == 1
    assert len(texts[0]) == 40


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 13])
def test_n_predict_is_met_exactly(start: Start, n: int) -> None:
    texts = set()
    for k in (0, 1, 3, 7):
        events = list(start(draft_max=k, n_predict=n).reply(HELLO))
        assert finish_of(events).completion_tokens == n
        assert finish_of(events).reason is FinishReason.LENGTH
        texts.add(text_of(events))
    assert len(texts) == 1


@pytest.mark.parametrize("k", [0, 1, 3, 7])
def test_a_stop_string_over_several_tokens_ends_the_text_before_it(start: Start, k: int) -> None:
    whole = text_of(list(start(draft_max=0).reply(HELLO)))
    stop = whole[17:20]
    events = list(start(draft_max=k, stop=[stop, "never written"]).reply(HELLO))
    assert text_of(events) == whole[: whole.index(stop)]
    assert (finish_of(events).reason, finish_of(events).stopped_by) == (FinishReason.STOP, stop)
    assert finish_of(events).completion_tokens == whole.index(stop) + 3


@pytest.mark.parametrize("k", [0, 1, 3, 7])
def test_an_end_token_ends_the_reply_unless_it_is_ignored(start: Start, k: int) -> None:
    # The bias makes the end likely, but not at once.
    values = {"temp": 1.0, "seed": 3, "logit_bias": {2: 3.0}, "draft_max": k}
    ended = list(start(**values, ignore_eos=False).reply(HELLO))
    dense = list(start(**{**values, "draft_max": 0}, ignore_eos=False).reply(HELLO))
    assert finish_of(ended).reason is FinishReason.STOP
    assert finish_of(ended).stopped_by == "<|im_end|>"
    assert "<|im_end|>" not in text_of(ended) == text_of(dense)
    assert 1 < finish_of(ended).completion_tokens == finish_of(dense).completion_tokens < 40
    assert finish_of(list(start(**values).reply(HELLO))).completion_tokens == 40


def test_a_seed_is_drawn_and_reported_and_gives_the_same_text_again(start: Start) -> None:
    session = start(seed=None, temp=1.0)
    first = text_of(list(session.reply(HELLO)))
    seed = session.seed
    second = text_of(list(session.reply(HELLO)))
    assert session.seed != seed
    assert second != first
    assert text_of(list(session.reply(HELLO, settings(seed=seed, temp=1.0)))) == first
    assert session.seed == seed


def test_draft_settings_act_from_the_next_reply_on(start: Start) -> None:
    session = start()
    for values, most in (({}, 3), ({"draft_max": 6}, 6), ({"draft": "none"}, 0), ({"draft_max": 0}, 0), ({}, 3)):
        rounds = rounds_of(list(session.reply(HELLO, settings(**values))))
        assert {event.draft_max for event in rounds} == {most}
        assert max(event.drafted for event in rounds) == most


def test_a_draft_without_confidence_is_cut_short_at_once(start: Start) -> None:
    session = start(temp=1.0)
    text = text_of(list(session.reply(HELLO)))
    timid = list(session.reply(HELLO, settings(temp=1.0, draft_p_min=0.9)))
    assert sum(event.drafted for event in rounds_of(timid)) < 3 * len(rounds_of(timid)) / 2
    assert text_of(timid) == text


def test_a_session_without_a_draft_decodes_densely(start: Start) -> None:
    session = start(draft=None)
    events = list(session.reply(HELLO))
    assert session.draft is None
    assert all(event.drafted == 0 and len(event.tokens) == 1 for event in rounds_of(events))
    assert text_of(events) == text_of(list(start().reply(HELLO)))


def test_the_second_turn_evaluates_only_what_is_new(start: Start) -> None:
    session = start()
    first = list(session.reply(HELLO))
    asked = prompt_of(first).total
    second = list(session.reply([*HELLO, Message("assistant", text_of(first)), Message("user", "More")]))
    # All but the last emitted token, which no pass has evaluated yet.
    assert prompt_of(second).cached == asked + 40 - 1
    assert prompt_of(second).total > asked + 40


def test_the_second_turn_of_a_real_model_evaluates_only_what_is_new(
    start: Start, smollm2: Path, smollm2_q2k: Path
) -> None:
    session = start(target=smollm2, draft=smollm2_q2k, n_predict=12, ignore_eos=False)
    question = [Message("user", "Count from one to five.")]
    first = list(session.reply(question))
    turns = [*question, Message("assistant", text_of(first)), Message("user", "And on to eight?")]
    second = list(session.reply(turns))
    assert prompt_of(second).cached >= prompt_of(first).total + 10
    fresh = start(target=smollm2, draft=None, n_predict=12, ignore_eos=False)
    assert text_of(second) == text_of(list(fresh.reply(turns)))
    assert text_of(first).isascii()


def test_the_same_question_again_costs_one_token(start: Start) -> None:
    session = start()
    first, second = list(session.reply(HELLO)), list(session.reply(HELLO))
    assert prompt_of(second).cached == prompt_of(second).total - 1
    assert text_of(first) == text_of(second)


def test_an_edited_conversation_keeps_the_common_start(start: Start) -> None:
    session = start()
    list(session.reply(talk(2)))
    edited = [*talk(2)[:-1], Message("user", "ANOTHER QUESTION")]
    events = list(session.reply(edited))
    assert 0 < prompt_of(events).total - prompt_of(events).cached < 50
    assert text_of(events) == text_of(list(start().reply(edited)))


@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize("n_events", [0, 1, 2, 3, 9])
def test_after_a_cancelled_reply_the_next_is_that_of_a_fresh_session(start: Start, n_events: int, k: int) -> None:
    session = start(draft_max=k)
    whole = text_of(list(start(draft_max=k).reply(HELLO)))
    events = session.reply(HELLO)
    seen = [next(events) for _ in range(n_events)]
    events.close()
    assert whole.startswith(text_of(seen))
    other = [*HELLO, Message("assistant", text_of(seen)), Message("user", "Well?")]
    assert text_of(list(session.reply(other))) == text_of(list(start(draft_max=k).reply(other)))
    assert text_of(list(session.reply(HELLO))) == whole


def test_settings_changed_in_mid_reply_act_on_the_next_round(start: Start) -> None:
    dense = text_of(list(start(draft_max=0).reply(HELLO)))
    changes = [settings(draft_max=0), settings(draft_max=4), settings(draft="none"), settings(draft_max=1)]
    rounds: list[Round] = []

    def in_force() -> Settings:
        return changes[min(len(rounds) // 3, len(changes) - 1)]

    events: list[Event] = []
    for event in start().reply(HELLO, changes[0], current=in_force):
        events.append(event)
        rounds += [event] if isinstance(event, Round) else []
    assert [event.draft_max for event in rounds[:12]] == [0, 0, 0, 4, 4, 4, 0, 0, 0, 1, 1, 1]
    assert all(event.drafted > 0 for event in rounds[3:6])
    assert text_of(events) == dense


@pytest.mark.parametrize("k", [0, 5])
def test_a_seed_changed_in_mid_reply_changes_only_what_follows(start: Start, k: int) -> None:
    first, second = (settings(draft_max=k, seed=seed, temp=1.4, min_p=0.0) for seed in (1, 2))

    def tokens_of(after: Settings) -> list[int]:
        emitted: list[int] = []

        def in_force() -> Settings:
            return after if len(emitted) >= 10 else first

        for event in start().reply(HELLO, first, current=in_force):
            emitted += [token.id for token in getattr(event, "tokens", ())]
        return emitted

    same, changed = tokens_of(first), tokens_of(second)
    assert changed == tokens_of(second)
    assert changed[:10] == same[:10]
    assert changed[16:] != same[16:]


def test_the_prompt_can_be_cancelled_while_it_is_read(start: Start) -> None:
    session = start()
    events = session.reply(HELLO)
    assert isinstance(next(events), Prefill)
    events.close()
    assert finish_of(list(session.reply(HELLO))).completion_tokens == 40


def test_an_abandoned_reply_does_not_hold_up_the_next(start: Start) -> None:
    session = start()
    expected = text_of(list(start().reply(HELLO)))
    abandoned = session.reply([Message("user", "Something else")])
    for _ in range(5):
        next(abandoned)
    assert text_of(list(session.reply(HELLO))) == expected


def test_a_full_context_ends_the_reply_with_the_same_text_for_every_k(start: Start) -> None:
    found = set()
    for k in (0, 1, 3, 7):
        session = start(draft_max=k, n_predict=-1)
        events = list(session.reply(HELLO))
        assert finish_of(events).reason is FinishReason.LENGTH
        # The last token needs no room: it is never evaluated.
        assert finish_of(events).completion_tokens == N_CTX - prompt_of(events).total + 1
        found.add(text_of(events))
        assert finish_of(list(session.reply(HELLO, settings(n_predict=5)))).completion_tokens == 5
    assert len(found) == 1


def test_a_prompt_that_just_fits_gets_one_token(start: Start) -> None:
    session = start(n_predict=-1, draft_max=3)
    events = list(session.complete("A" * N_CTX))
    assert prompt_of(events).total == N_CTX
    assert finish_of(events).completion_tokens == 1


def test_a_prompt_longer_than_the_context_is_refused_in_one_sentence(start: Start) -> None:
    session = start()
    long = [Message("user", "A" * 300)]
    assert "but the context holds 256; raise `--ctx-size`" in refusal(session.reply(long))
    assert "but the context holds 256" in refusal(session.complete("A" * 257))
    assert "but the context holds 256" in refusal(session.reply(long, settings(context_full="drop")))
    assert text_of(list(session.reply(HELLO))) == text_of(list(start().reply(HELLO)))


def test_old_turns_are_left_out_of_a_prompt_that_does_not_fit(start: Start) -> None:
    session = start(context_full="drop", n_predict=5)
    assert "context holds 256" in refusal(session.reply(talk(9), settings()))
    events = list(session.reply(talk(9)))
    assert session.dropped_turns > 0
    assert prompt_of(events).total <= N_CTX * 3 / 4  # with room for an answer
    held = held_by(session)
    assert held.startswith("<|im_start|>system\nBE BRIEF<|im_end|>\n<|im_start|>user\nWhat about this one?")
    assert "Answer 0." not in held
    assert "Answer 8." in held
    assert "LAST QUESTION" in held
    list(session.reply(HELLO))
    assert session.dropped_turns == 0


def test_turns_are_dropped_in_mid_reply_and_it_goes_on_for_every_k(start: Start) -> None:
    found = set()
    for k in (0, 1, 3, 7):
        session = start(context_full="drop", n_predict=-1, draft_max=k)
        events = list(session.reply(talk(3, words="W")))
        assert session.dropped_turns == 3
        assert len({event.total for event in events if isinstance(event, Prefill)}) == 3
        assert finish_of(events).reason is FinishReason.LENGTH
        # More than fitted beside the whole conversation, and no token of it twice or left out.
        assert finish_of(events).completion_tokens > N_CTX - prompt_of(events[:1]).total + 1
        assert finish_of(events).completion_tokens == len(text_of(events))
        assert [a.index + 1 for a, _ in pairwise(rounds_of(events))] == [b.index for b in rounds_of(events)[1:]]
        held = held_by(session)
        assert held.startswith("<|im_start|>system\nBE BRIEF<|im_end|>\n<|im_start|>user\nLAST QUESTION<|im_end|>\n")
        assert held.endswith(text_of(events)[-50:-1])
        found.add(text_of(events))
    assert len(found) == 1


def test_messages_given_are_not_changed_by_dropping(start: Start) -> None:
    turns = talk(9)
    list(start(context_full="drop", n_predict=2).reply(turns))
    assert turns == talk(9)


def test_raw_text_is_continued_without_a_template(start: Start) -> None:
    session = start(n_predict=3)
    list(session.complete("RAW TEXT"))
    assert held_by(session).startswith("RAW TEXT")
    assert finish_of(list(session.complete(""))).completion_tokens == 3


def test_a_model_without_a_template_is_asked_in_chatml(start: Start) -> None:
    session = start(n_predict=1)
    list(session.reply(HELLO))
    expected = "<|im_start|>user\nHello there<|im_end|>\n<|im_start|>assistant\n"
    assert held_by(session) == expected


def templated(path: Path, template: str, **options: object) -> Path:
    def change(writer: gguf.GGUFWriter) -> None:
        writer.add_chat_template(template)

    return synthetic.tiny_llama(path, n_vocab=ASCII, change=change, **options)  # type: ignore[arg-type]


def test_a_template_that_refuses_a_system_message_gets_it_with_the_question(start: Start, tmp_path: Path) -> None:
    session = start(target=templated(tmp_path / "t.gguf", REFUSES_SYSTEM), draft=None, n_predict=1)
    list(session.reply([Message("system", "BE BRIEF"), *HELLO]))
    assert held_by(session) == "[BE BRIEF\n\nHello there]"


@pytest.mark.parametrize("bos", ["{{ bos_token }}", ""])
def test_a_prompt_begins_with_one_bos_whether_or_not_the_template_writes_it(
    start: Start, tmp_path: Path, bos: str
) -> None:
    path = templated(tmp_path / "t.gguf", bos + "{{ messages[0].content }}", add_bos=True)
    session = start(target=path, draft=None, n_predict=1)
    list(session.reply(HELLO))
    assert held_by(session) == "<|im_start|>Hello there"


@pytest.mark.parametrize(
    "template", ["{% for i in range(10 ** 12) %}x{% endfor %}", "{{ messages.__class__.__mro__ }}", "{{ 1 / 0 }}"]
)
def test_a_hostile_template_ends_in_one_sentence(start: Start, tmp_path: Path, template: str) -> None:
    session = start(target=templated(tmp_path / "t.gguf", template), draft=None)
    assert refusal(session.reply(HELLO)).startswith("The model's chat template refuses this conversation: ")
