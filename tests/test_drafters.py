"""A draft model guesses by its own cache, which follows the target's: no token is decoded twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from localspec import llama
from localspec.controller import Controller
from localspec.costs import Costs, Curve
from localspec.decode import DecodeSettings, Reply, decode
from localspec.drafters import Drafter, DraftRules, above
from localspec.drafters.draft_model import DraftModel
from localspec.drafters.none import NoDraft
from localspec.drafters.stack import Stack
from localspec.events import Round
from localspec.sampling import Distribution, Processor, Sampling
from localspec.sequence import CachedSequence, LanguageModel, Logits
from localspec.verify import Mode
from tests import synthetic
from tests.tables import TableModel, TableVocab

GREEDY = Sampling(temp=0.0)
SAMPLED = Sampling(temp=1.0, top_k=0, top_p=1.0, min_p=0.0)


class Recorded:
    """A language model that remembers every prefix it was made to evaluate, and the sizes of its passes."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.n_ctx, self.n_batch, self.n_vocab = model.n_ctx, model.n_batch, model.n_vocab
        self.held: list[int] = []
        self.evaluated: Counter[tuple[int, ...]] = Counter()
        self.passes: list[int] = []

    def decode(self, tokens: Sequence[int], n_rows: int = 1) -> Logits:
        rows = self.model.decode(tokens, n_rows)
        for token in tokens:
            self.held.append(token)
            self.evaluated[tuple(self.held)] += 1
        self.passes.append(len(tokens))
        return rows

    def rewind(self, n: int) -> int:
        kept = self.model.rewind(n)
        del self.held[kept:]
        return kept

    def decoded_twice(self) -> list[tuple[int, ...]]:
        return [prefix for prefix, times in self.evaluated.items() if times > 1]


def rules(model: LanguageModel, sampling: Sampling = GREEDY, **options: object) -> DraftRules:
    def first(q: Distribution, _offset: int) -> int:
        return int(q.ids[q.p.argmax()])

    values: dict[str, object] = {"process": Processor(sampling, model.n_vocab), "draw": first, "is_eog": never}
    return DraftRules(**{**values, **options})  # type: ignore[arg-type]


def never(_token: int) -> bool:
    return False


def reply_to(
    prompt: Sequence[int], target: CachedSequence, drafter: Drafter, settings: DecodeSettings
) -> tuple[list[int], list[Round]]:
    """The whole conversation after a reply of the real loop, and its rounds."""
    events = decode(target, drafter, prompt, Reply(settings, TableVocab(), position=len(prompt)))
    rounds = [event for event in events if isinstance(event, Round)]
    return [*prompt, *(token.id for event in rounds for token in event.tokens)], rounds


def like(model: TableModel) -> TableModel:
    """A model that mostly agrees."""
    other = TableModel(model.n_vocab, seed=99, n_ctx=model.n_ctx)
    other.table = model.table + 0.4 * other.table
    return other


def best_guesses(model: TableModel, tokens: Sequence[int], k: int) -> list[int]:
    path = list(tokens)
    for _ in range(k):
        path.append(int(model.row(path).argmax()))
    return path[len(tokens) :]


@pytest.mark.parametrize("k", [1, 3, 6])
@pytest.mark.parametrize("mode", [Mode.GREEDY, Mode.GUMBEL, Mode.REJECTION])
def test_no_token_is_decoded_twice_in_a_reply(mode: Mode, k: int) -> None:
    model = TableModel(20, seed=1)
    target, draft = Recorded(model), Recorded(like(model))
    settings = DecodeSettings(mode=mode, sampling=SAMPLED, draft_max=k, n_predict=40, seed=3)
    tokens, rounds = reply_to([0, 1, 2, 3], CachedSequence(target), DraftModel(draft), settings)
    assert sum(event.accepted for event in rounds) > 0
    assert sum(len(event.rejected) for event in rounds) > 0
    assert target.decoded_twice() == draft.decoded_twice() == []
    # Everything but the last token, and each rejected draft once.
    assert sum(target.passes) == len(tokens) - 1 + sum(len(event.rejected) for event in rounds)


@pytest.mark.parametrize("adaptive", [False, True])
def test_no_token_is_decoded_twice_where_lookups_and_the_model_take_turns(adaptive: bool) -> None:
    model = TableModel(4, seed=1, n_ctx=400)
    target, draft = Recorded(model), Recorded(like(model))
    costs = Costs(Curve(0.01, ((1, 1.0), (8, 1.3)), 0.2, 0.01))
    drafter = Stack(DraftModel(draft), Controller(costs))
    settings = DecodeSettings(mode=Mode.GREEDY, draft_max=4, n_predict=100, adaptive=adaptive)
    # It begins with a lookup, when a draft model that reads the prompt at once has read it.
    _, rounds = reply_to([0, 1, 2, 3] * 8, CachedSequence(target), drafter, settings)
    assert {"lookup", "draft-model"} <= {event.drafter for event in rounds}
    assert target.decoded_twice() == draft.decoded_twice() == []


@pytest.mark.parametrize("k", [1, 4])
def test_no_token_is_decoded_twice_by_real_contexts(k: int, tmp_path: Path) -> None:
    paths = [synthetic.tiny_llama(tmp_path / f"{n}.gguf", n_layer=n, seed=1) for n in (2, 1)]
    options = llama.ContextOptions(n_ctx=256, n_batch=256)
    with llama.opened(paths[0], context=options) as large, llama.opened(paths[1], context=options) as small:
        target, draft = Recorded(large), Recorded(small)
        settings = DecodeSettings(mode=Mode.GREEDY, draft_max=k, n_predict=60)
        _, rounds = reply_to([5, 6, 7, 8, 9], CachedSequence(target), DraftModel(draft), settings)
        assert sum(event.accepted for event in rounds) > 0
        assert sum(len(event.rejected) for event in rounds) > 0
        assert target.decoded_twice() == draft.decoded_twice() == []
        assert (large.n_past, small.n_past) == (len(target.held), len(draft.held))


def test_a_longer_conversation_is_read_only_where_it_is_new() -> None:
    target, draft = Recorded(TableModel(5, seed=1, n_ctx=200)), Recorded(TableModel(5, seed=2, n_ctx=200))
    sequence, drafter = CachedSequence(target), DraftModel(draft)
    tokens = [0, 1, 2, 3]
    for _ in range(4):
        settings = DecodeSettings(mode=Mode.GREEDY, draft_max=3, n_predict=20)
        tokens, _ = reply_to([*tokens, 4, 0, 4], sequence, drafter, settings)
    assert target.decoded_twice() == draft.decoded_twice() == []


def test_a_reply_without_a_draft_is_caught_up_on_later_and_once() -> None:
    target, draft = Recorded(TableModel(5, seed=1)), Recorded(TableModel(5, seed=2))
    sequence, drafter = CachedSequence(target), DraftModel(draft)
    settings = DecodeSettings(mode=Mode.GREEDY, draft_max=3, n_predict=8)
    tokens, _ = reply_to([0, 1, 2, 3], sequence, drafter, settings)
    held = sum(draft.passes)
    tokens, _ = reply_to([*tokens, 4], sequence, NoDraft(), settings)
    assert sum(draft.passes) == held
    _, rounds = reply_to([*tokens, 4], sequence, drafter, settings)
    assert sum(event.drafted for event in rounds) > 0
    assert target.decoded_twice() == draft.decoded_twice() == []


def test_a_reply_with_k_0_leaves_the_draft_model_alone() -> None:
    draft = Recorded(TableModel(5, seed=2))
    settings = DecodeSettings(mode=Mode.GREEDY, draft_max=0, n_predict=8)
    reply_to([0, 1, 2, 3], CachedSequence(TableModel(5, seed=1)), DraftModel(draft), settings)
    assert draft.passes == []


def test_a_changed_prompt_keeps_what_the_caches_share_with_it() -> None:
    target, draft = Recorded(TableModel(5, seed=1)), Recorded(TableModel(5, seed=2))
    sequence, drafter = CachedSequence(target), DraftModel(draft)
    settings = DecodeSettings(mode=Mode.GREEDY, draft_max=3, n_predict=8)
    reply_to([0, 1, 2, 3, 4, 0], sequence, drafter, settings)
    reply_to([0, 1, 2, 4, 4], sequence, drafter, settings)
    for model in (target, draft):
        assert model.evaluated[(0, 1, 2)] == 1
        assert model.evaluated[(0, 1, 2, 4)] == 1


@pytest.mark.parametrize("accepted", [0, 1, 2, 3])
def test_after_any_acceptance_it_drafts_like_a_drafter_that_never_went_astray(accepted: int) -> None:
    model = TableModel(5, seed=2)
    drafter = DraftModel(model)
    tokens = [0, 1, 2]
    drafter.begin(tokens, rules(model))
    drafts = drafter.propose(tokens, 3)
    assert [draft.id for draft in drafts] == best_guesses(model, tokens, 3)
    drafter.accept(accepted)
    own = (drafts[accepted].id + 1) % 5 if accepted < 3 else 4
    tokens = [*tokens, *(draft.id for draft in drafts[:accepted]), own]
    assert [draft.id for draft in drafter.propose(tokens, 3)] == best_guesses(model, tokens, 3)


def test_a_draft_token_comes_with_the_distribution_that_it_was_drawn_from() -> None:
    model = TableModel(5, seed=2)
    drafter = DraftModel(model)
    seen: list[Distribution] = []

    def draw(q: Distribution, offset: int) -> int:
        assert offset == len(seen)
        seen.append(q)
        return 1

    drafter.begin([0, 1], rules(model, SAMPLED, draw=draw))
    drafts = drafter.propose([0, 1], 3)
    assert [draft.id for draft in drafts] == [1, 1, 1]
    assert all(draft.q is q for draft, q in zip(drafts, seen, strict=True))


def test_it_stops_before_it_draws_from_a_distribution_without_confidence() -> None:
    model = TableModel(5, seed=2)
    drafter = DraftModel(model)
    # At a high temperature no token is likely.
    hot = Sampling(temp=100.0, top_k=0, top_p=1.0, min_p=0.0)
    drafter.begin(
        [0, 1], rules(model, hot, go_on=above(0.5), draw=lambda _q, _offset: pytest.fail("a token was drawn"))
    )
    assert drafter.propose([0, 1], 3) == []


def test_the_least_number_of_drafts_goes_before_confidence() -> None:
    model = TableModel(5, seed=2)
    drafter = DraftModel(model)
    hot = Sampling(temp=100.0, top_k=0, top_p=1.0, min_p=0.0)
    drafter.begin([0, 1], rules(model, hot, go_on=above(0.5, draft_min=2)))
    assert len(drafter.propose([0, 1], 4)) == 2


def test_nothing_is_drafted_after_a_token_that_ends_the_reply() -> None:
    model = TableModel(5, seed=2)
    last = best_guesses(model, [0, 1], 2)[-1]
    drafter = DraftModel(model)
    drafter.begin([0, 1], rules(model, is_eog=lambda token: token == last))
    drafts = drafter.propose([0, 1], 6)
    assert drafts[-1].id == last
    assert len(drafts) <= 2


def test_no_drafts_are_made_where_none_are_allowed() -> None:
    model = Recorded(TableModel(5, seed=2))
    drafter = DraftModel(model)
    drafter.begin([0, 1], rules(model))
    assert drafter.propose([0, 1], 0) == []
    drafter.accept(0)
    assert model.passes == []


def test_a_prompt_longer_than_a_batch_is_read_in_pieces() -> None:
    model = Recorded(TableModel(5, seed=2, n_ctx=200))
    prompt = [i % 5 for i in range(100)]
    drafter = DraftModel(model)
    drafter.begin(prompt, rules(model))
    drafter.prefill(prompt[:70])
    assert model.passes == [32, 32, 6]
    assert len(drafter.propose(prompt, 1)) == 1
    assert sum(model.passes) == len(prompt)


def test_a_token_that_the_draft_does_not_have_silences_it_and_not_the_target() -> None:
    # A vocabulary of 5 with 2 padded ids, and a draft of 5.
    target, draft = TableModel(7, seed=1), Recorded(TableModel(5, seed=2))
    settings = DecodeSettings(mode=Mode.GREEDY, draft_max=3, n_predict=12)
    dense, _ = reply_to([0, 1, 6, 2], CachedSequence(TableModel(7, seed=1)), NoDraft(), settings)
    tokens, rounds = reply_to([0, 1, 6, 2], CachedSequence(target), DraftModel(draft), settings)
    assert tokens == dense
    assert sum(event.drafted for event in rounds) == 0
    assert draft.passes == []


@pytest.mark.parametrize("n_draft", [5, 9])
def test_vocabularies_of_different_size_give_the_text_of_dense_decoding(n_draft: int) -> None:
    for seed in range(10):
        settings = DecodeSettings(mode=Mode.GUMBEL, sampling=SAMPLED, draft_max=3, n_predict=30, seed=seed)
        dense, _ = reply_to([0, 1], CachedSequence(TableModel(7, seed=1)), NoDraft(), settings)
        drafter = DraftModel(TableModel(n_draft, seed=2))
        tokens, _ = reply_to([0, 1], CachedSequence(TableModel(7, seed=1)), drafter, settings)
        assert tokens == dense


def test_no_draft_never_drafts() -> None:
    drafter = NoDraft()
    drafter.begin([0, 1], rules(TableModel(5, seed=0)))
    drafter.prefill([0])
    assert drafter.propose([0, 1], 8) == []
    drafter.accept(0)
