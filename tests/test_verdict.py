"""What was learned is told in plain words, without a model."""

from __future__ import annotations

import json
import os
from pathlib import Path

from localspec import verdict
from localspec.costs import Costs, Curve
from localspec.learned import Learned, folder
from localspec.ledger import Account
from localspec.tasks import Task

DEAR = Curve(0.038, ((1, 1.0), (2, 1.7), (4, 3.1), (8, 6.4)), 0.68, 0.11)
CHEAP = Curve(0.119, ((1, 1.0), (2, 1.1), (4, 1.4), (8, 2.1)), 0.2, 0.04)


def record(curve: Curve | None, name: str = "one", pair: str = "big + small") -> Learned:
    found = Learned(folder() / f"{name}.json", pair)
    found.curve = curve
    known = found.task(Task.CHAT)
    known.tokens = 120
    known.accounts["lookup"] = Account(9, 40, 30, 1.25, 0.5)
    for i in range(60):
        known.model.learn(12, accepted=i % 2 == 0)
    found.save(Costs(curve))
    return found


def test_it_says_what_is_off_and_why() -> None:
    lines = verdict.explanation(record(DEAR))
    assert lines[0] == "big + small"
    assert lines[1] == "A dense round takes 38.0 ms; a pass over 2, 4, 8, 16 tokens 1.7, 3.1, 6.4, 12.8 times that."
    assert lines[2].startswith("A step of the draft costs 0.68 of a dense round, and 0.11 for each token")
    assert lines[4].startswith("chat        draft costs 0.68 of a target step, 0.")
    assert lines[4].endswith("accepted: off")
    assert lines[5].strip() == "lookup: 30 of 40 accepted (0.75), saved 1.2 s, wasted 0.5 s"


def test_the_same_acceptance_pays_where_passes_are_cheap() -> None:
    assert verdict.verdict(record(CHEAP), Task.CHAT).split(": ")[-1].startswith("K ")


def test_a_task_that_was_never_met_is_not_listed() -> None:
    text = "\n".join(verdict.explanation(record(DEAR)))
    assert "chat" in text
    assert "math" not in text


def test_without_a_measurement_it_says_so() -> None:
    assert "was not measured" in verdict.explanation(record(None))[1]


def test_json_has_the_costs_and_what_each_drafter_did() -> None:
    found = json.loads(json.dumps(verdict.as_json(record(DEAR))))
    assert found["pair"] == "big + small"
    assert found["costs"]["draft_step"] == 0.68
    assert found["tasks"]["chat"]["drafters"]["lookup"]["draft_n_accepted"] == 30


def test_the_record_that_was_used_last_is_taken() -> None:
    record(DEAR, "old")
    record(CHEAP, "new")
    record(DEAR, "other", pair="else")
    (folder() / "broken.json").write_text("{", encoding="utf-8")
    os.utime(folder() / "old.json", (1, 1))
    found = verdict.latest("big + small")
    assert found is not None
    assert found.path == folder() / "new.json"
    assert verdict.latest("nobody") is None
    assert verdict.title(Path("a/big.gguf"), Path("small.gguf")) == "big + small"
