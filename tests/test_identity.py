"""Speculative text is dense text, token for token, on real weights.

SmolLM2 Q4_1 gives bit-identical logits for batch widths 1 to 8 on a CPU, so equality is strict: greedy for any draft,
and sampled in gumbel mode for any draft and any seed. The drafts are the target itself, a Q2_K copy that is often
wrong, and a copy without five layers that is nearly always wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from localspec import llama
from localspec.controller import Controller
from localspec.costs import Costs, Curve
from localspec.decode import DecodeSettings, Reply, decode
from localspec.drafters import Drafter
from localspec.drafters.draft_model import DraftModel
from localspec.drafters.none import NoDraft
from localspec.drafters.stack import Stack
from localspec.events import Round
from localspec.sampling import Sampling
from localspec.sequence import CachedSequence
from localspec.verify import Mode
from tests.prompts import PROMPTS

N_TOKENS = 128
DRAFTS = ("itself", "q2k", "pruned")
OPTIONS = llama.ContextOptions(n_ctx=512, n_threads=2, n_threads_batch=2)
SETTINGS = {
    "greedy": DecodeSettings(mode=Mode.GREEDY),
    "default": DecodeSettings(sampling=Sampling()),
    "hot": DecodeSettings(sampling=Sampling(temp=1.3, top_k=0, top_p=1.0, min_p=0.0)),
    "nucleus": DecodeSettings(sampling=Sampling(temp=1.0, top_k=0, top_p=0.9, min_p=0.0)),
    "penalties": DecodeSettings(
        sampling=Sampling(temp=0.7, top_k=20, repeat_penalty=1.15, presence_penalty=0.2, frequency_penalty=0.1)
    ),
}
CHEAP = Curve(0.02, ((1, 1.0), (2, 1.05), (8, 1.3)), 0.2, 0.01)
"""Costs at which drafting pays, as they are not here: what is tested is the text."""
SAMPLED = tuple(name for name in SETTINGS if name != "greedy")


class Bench:
    """One target, three drafts, and the dense texts that were decoded so far."""

    def __init__(self, contexts: dict[str, llama.Context]) -> None:
        target = contexts["target"]
        self.vocab = target.model.vocab
        self._target = CachedSequence(target)
        self._drafters: dict[str, Drafter] = {name: DraftModel(contexts[name]) for name in DRAFTS}
        self._drafters["stack"] = Stack(DraftModel(contexts["stack"]), Controller(Costs(CHEAP)))
        self._dense: dict[tuple[int, str], list[int]] = {}

    def dense(self, prompt: int, name: str) -> list[int]:
        key = (prompt, name)
        if key not in self._dense:
            self._dense[key] = [token for event in self._rounds(prompt, name, None, 0) for token in _ids(event)]
        return self._dense[key]

    def speculative(self, prompt: int, name: str, draft: str, k: int, **drafting: object) -> tuple[list[int], int]:
        """Tokens, and how many of them were accepted drafts."""
        rounds = list(self._rounds(prompt, name, draft, k, **drafting))
        return [token for event in rounds for token in _ids(event)], sum(event.accepted for event in rounds)

    def _rounds(self, prompt: int, name: str, draft: str | None, k: int, **drafting: object) -> Iterator[Round]:
        tokens = self.vocab.tokenize(f"<|im_start|>user\n{PROMPTS[prompt]}<|im_end|>\n<|im_start|>assistant\n")
        settings = replace(SETTINGS[name], draft_max=k, seed=prompt, n_predict=N_TOKENS, ignore_eos=True, **drafting)  # type: ignore[arg-type]
        drafter = self._drafters[draft] if draft else NoDraft()
        events = decode(self._target, drafter, tokens, Reply(settings, self.vocab, position=len(tokens)))
        return (event for event in events if isinstance(event, Round))


def _ids(event: Round) -> list[int]:
    return [token.id for token in event.tokens]


@pytest.fixture(scope="module")
def bench(smollm2: Path, smollm2_q2k: Path, smollm2_pruned: Path) -> Iterator[Bench]:
    files = {"target": smollm2, "itself": smollm2, "q2k": smollm2_q2k, "pruned": smollm2_pruned, "stack": smollm2_q2k}
    models = {name: llama.Model(path) for name, path in files.items()}
    contexts = {name: llama.Context(model, OPTIONS) for name, model in models.items()}
    yield Bench(contexts)
    for name, model in models.items():
        contexts[name].close()
        model.close()


@pytest.mark.parametrize("prompt", range(len(PROMPTS)))
def test_greedy_text_is_the_dense_text(bench: Bench, prompt: int) -> None:
    draft, k = DRAFTS[prompt % 3], 1 + prompt % 7
    tokens, accepted = bench.speculative(prompt, "greedy", draft, k)
    assert len(tokens) == N_TOKENS
    assert tokens == bench.dense(prompt, "greedy")
    assert accepted > 0 or draft == "pruned"


@pytest.mark.parametrize("prompt", range(len(PROMPTS)))
def test_the_sampled_text_of_a_seed_is_the_dense_text_of_that_seed(bench: Bench, prompt: int) -> None:
    name, draft, k = SAMPLED[prompt % 4], DRAFTS[(prompt + 1) % 3], 1 + (prompt + 3) % 7
    tokens, _ = bench.speculative(prompt, name, draft, k)
    assert len(tokens) == N_TOKENS
    assert tokens == bench.dense(prompt, name)


STACKS = (
    {"adaptive": True},
    {"adaptive": True, "drafters": ("lookup",)},
    {"adaptive": False, "drafters": ("lookup",)},
    {"adaptive": False},
)


@pytest.mark.parametrize("prompt", range(8))
def test_lookups_and_an_adaptive_k_give_the_dense_text(bench: Bench, prompt: int) -> None:
    # The same settings for a prompt as above, whose dense text is there already.
    name = "greedy" if prompt < 4 else SAMPLED[prompt % 4]
    tokens, _ = bench.speculative(prompt, name, "stack", 7, **STACKS[prompt % 4])
    assert tokens == bench.dense(prompt, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("prompt", range(len(PROMPTS)))
def test_every_way_of_choosing_k_gives_the_dense_text(bench: Bench, prompt: int, name: str) -> None:
    for drafting in STACKS:
        tokens, _ = bench.speculative(prompt, name, "stack", 7, **drafting)
        assert tokens == bench.dense(prompt, name), drafting


def test_the_adaptive_k_drafts_and_stops(bench: Bench) -> None:
    """Else the test above would prove nothing."""
    drafted = [event.drafted for event in bench._rounds(0, "greedy", "stack", 7, adaptive=True)]
    assert sum(drafted) > 10
    assert len(set(drafted)) > 2


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("prompt", range(len(PROMPTS)))
def test_every_draft_and_every_depth_gives_the_dense_text(bench: Bench, prompt: int, name: str) -> None:
    for draft in DRAFTS:
        for k in range(1, 8):
            tokens, _ = bench.speculative(prompt, name, draft, k)
            assert tokens == bench.dense(prompt, name), (draft, k)
