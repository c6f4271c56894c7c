"""A small model of the same vocabulary drafts token by token."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.drafters import DraftRules, Remarks, TargetOutputs
from localspec.events import Round
from localspec.sequence import CachedSequence, LanguageModel, Logits
from localspec.verify import DraftToken


class DraftModel:
    """Drafts with its own context, whose KV cache is kept in step with the target's."""

    def __init__(self, model: LanguageModel) -> None:
        self._cache = CachedSequence(model)
        self._model = model
        self._rules: DraftRules | None = None
        self._n_committed = 0
        self._silent = False

    def begin(self, prompt: Sequence[int], rules: DraftRules) -> None:
        self._rules = rules
        # A vocabulary may be padded: ids that the draft does not have cannot be fed to it.
        self._silent = any(token >= self._model.n_vocab for token in prompt)
        self._cache.keep_prefix(prompt[:-1])

    def prefill(self, tokens: Sequence[int]) -> None:
        if not self._silent and len(tokens) > len(self._cache.tokens):
            self._catch_up(tokens, n_rows=0)

    def propose(self, tokens: Sequence[int], k: int) -> list[DraftToken]:
        self._n_committed = len(tokens)
        self._silent = self._silent or tokens[-1] >= self._model.n_vocab
        if k <= 0 or self._silent:
            return []
        assert self._rules is not None, "begin comes first"
        rules = self._rules
        row = self._catch_up(tokens, n_rows=1)[-1]
        path = list(tokens)
        drafts: list[DraftToken] = []
        while True:
            q = rules.process(row, path)
            if not rules.go_on(len(drafts), row, q):
                return drafts
            token = rules.draw(q, len(drafts))
            drafts.append(DraftToken(token, q))
            if len(drafts) == k or rules.is_eog(token) or not rules.another(len(drafts)):
                return drafts
            path.append(token)
            row = self._cache.decode([token], n_rows=1)[-1]

    def observe(self, outputs: TargetOutputs) -> None: ...

    def accept(self, n: int) -> None:
        self._cache.rewind(self._n_committed + n)

    def remarks(self) -> Remarks:
        return Remarks("draft-model")

    def learn(self, event: Round) -> None: ...

    def behind(self, tokens: Sequence[int]) -> int:
        """Tokens that the next proposal has to read beside the last one."""
        return max(0, len(tokens) - len(self._cache.tokens) - 1)

    def _catch_up(self, tokens: Sequence[int], n_rows: int) -> Logits:
        """Evaluate what the cache lacks of ``tokens``. Returns the last ``n_rows`` rows."""
        n_batch = self._model.n_batch
        held = len(self._cache.tokens)
        while len(tokens) - held > n_batch:
            self._cache.decode(tokens[held : held + n_batch], n_rows=0)
            held += n_batch
        return self._cache.decode(tokens[held:], n_rows)
