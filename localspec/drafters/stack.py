"""Several drafters and the choice between them: a lookup where the text repeats itself, the draft model where it pays,
and nothing where neither does.

With a fixed K it takes the lookup where a long match was found, else the draft model, and always K tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from localspec.controller import Controller, Plan, model_feature
from localspec.drafters import DraftRules, Remarks, TargetOutputs
from localspec.drafters.draft_model import DraftModel
from localspec.drafters.lookup import Match, TextIndex
from localspec.events import Round
from localspec.sampling import Distribution, Row
from localspec.verify import DraftToken

SURE = 6
"""With a fixed K and a draft model at hand, only matches as long as this are followed."""
NOTHING = Plan(0, 0.0, "")
COMPARISON = Plan(0, 0.0, "a round without a draft, to compare with")
FIRST = Plan(0, 0.0, "the first token comes first")


class Stack:
    """Lookup over draft model over nothing."""

    def __init__(self, model: DraftModel | None, controller: Controller) -> None:
        self._model = model
        self._controller = controller
        self._index = TextIndex()
        self._rules: DraftRules | None = None
        self._match: Match | None = None
        self._expected: int | None = None
        """Where the latest match would go on in the text."""
        self._plan = NOTHING
        self._by = "none"
        self._behind = 0
        self._features: list[int] = []
        self._first = True

    def begin(self, prompt: Sequence[int], rules: DraftRules) -> None:
        self._rules = rules
        self._first, self._expected = True, None
        if "lookup" in rules.kinds:
            self._index.follow(prompt)
        if self._model is not None:
            if rules.adaptive:
                rules = replace(rules, go_on=self._go_on, another=self._controller.another)
            self._model.begin(prompt, rules)

    def prefill(self, tokens: Sequence[int]) -> None:
        # With a K that adapts, the draft model reads the prompt when it is first worth it, after the first token.
        model = self._usable_model()
        if model is not None and not self._drafts().adaptive:
            model.prefill(tokens)

    def propose(self, tokens: Sequence[int], k: int) -> list[DraftToken]:
        rules = self._drafts()
        self._features, self._by = [], "none"
        self._plan = NOTHING
        self._match = self._find(tokens) if "lookup" in rules.kinds else None
        if k <= 0:
            return []
        drafts = self._adaptive(tokens, k) if rules.adaptive else self._fixed(tokens, k)
        self._first = False
        if not drafts:
            self._by = "none"
        return drafts

    def observe(self, outputs: TargetOutputs) -> None: ...

    def accept(self, n: int) -> None:
        if self._model is not None and self._by == "draft-model":
            self._model.accept(n)

    def remarks(self) -> Remarks:
        dense_s = self._controller.costs.dense_s
        return Remarks(self._by, self._plan.reason, dense_s)

    def learn(self, event: Round) -> None:
        controller = self._controller
        if self._match is not None:
            self._learn_lookup(self._match, event)
            self._expected = self._match.place + len(event.tokens)
        elif self._expected is not None:
            self._expected += len(event.tokens)
        if self._by == "draft-model":
            for i, feature in enumerate(self._features[: event.drafted]):
                if i <= event.accepted:
                    controller.model.learn(feature, i < event.accepted)
        if self._drafts().adaptive:
            controller.learn_time(event.drafted + 1, event.verify_s + event.host_s, len(event.tokens))
            steps = len(self._features)
            if steps:
                controller.learn_draft(steps, self._behind, event.draft_s, event.accepted, self._plan)

    def _drafts(self) -> DraftRules:
        assert self._rules is not None, "begin comes first"
        return self._rules

    def _usable_model(self) -> DraftModel | None:
        return self._model if "draft-model" in self._drafts().kinds else None

    def _find(self, tokens: Sequence[int]) -> Match | None:
        for token in tokens[len(self._index.tokens) :]:
            self._index.append(token)
        return self._index.match(self._expected)

    def _adaptive(self, tokens: Sequence[int], k: int) -> list[DraftToken]:
        if self._first:
            # A draft would make whoever waits for a reply wait longer for its beginning.
            self._plan = FIRST
            return []
        if self._controller.costs.dense_is_due:
            self._plan = COMPARISON
            return []
        controller, remaining = self._controller, self._drafts().remaining()
        looked_up = controller.lookup_plan(self._match, k) if "lookup" in self._drafts().kinds else NOTHING
        modelled, model = NOTHING, self._usable_model()
        if model is not None:
            self._behind = model.behind(tokens)
            modelled = controller.model_plan(self._behind, k, remaining, may_try=looked_up.k == 0)
        if looked_up.k and looked_up.gain >= modelled.gain:
            self._plan = looked_up
            return self._looked_up(looked_up.k)
        if model is None:
            self._plan = looked_up
            return []
        self._plan = modelled
        return self._modelled(model, tokens, modelled.k) if modelled.k else []

    def _fixed(self, tokens: Sequence[int], k: int) -> list[DraftToken]:
        model = self._usable_model()
        shortest = 2 if model is None else SURE
        if self._match is not None and self._match.length >= shortest:
            return self._looked_up(k)
        return [] if model is None else self._modelled(model, tokens, k)

    def _modelled(self, model: DraftModel, tokens: Sequence[int], k: int) -> list[DraftToken]:
        self._by = "draft-model"
        return model.propose(tokens, k)

    def _looked_up(self, k: int) -> list[DraftToken]:
        assert self._match is not None
        self._by = "lookup"
        drafts: list[DraftToken] = []
        for token in self._index.after(self._match.place, k):
            drafts.append(DraftToken(token, Distribution.point(token)))
            if self._drafts().is_eog(token):
                break
        return drafts

    def _go_on(self, position: int, row: Row, q: Distribution) -> bool:
        """The controller's decision on a token of the draft model, before it is drawn."""
        feature = model_feature(position, _log_odds(row, q))
        self._features.append(feature)
        return self._controller.goes_on(position, feature)

    def _learn_lookup(self, match: Match, event: Round) -> None:
        """What the match would have proposed beside what the target said: it costs nothing to know, drafted or not."""
        # A point mass is accepted as often as the target says that token, in every mode.
        said = [token.id for token in event.tokens]
        for j, token in enumerate(self._index.after(match.place, len(said))):
            self._controller.lookup.learn(match.feature(j), token == said[j])
            if token != said[j]:
                break


def _log_odds(row: Row, q: Distribution) -> float:
    """How sure the draft model is of its best token. At temperature 0, where q is a point, against its second best."""
    if len(q.ids) > 1:
        p = min(q.confidence, 1.0 - 1e-9)
        return float(np.log(p / (1.0 - p)))
    best = int(q.ids[0])
    top, row[best] = float(row[best]), -np.inf
    second = float(row.max())
    row[best] = top
    return top - second
