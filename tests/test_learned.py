"""What was learned of a pair is kept in one file, and a damaged one costs nothing but the learning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from localspec import learned
from localspec.costs import Costs, Curve
from localspec.events import Origin, Round, Token
from localspec.learned import Learned
from localspec.tasks import Task

CURVE = Curve(0.02, ((1, 1.0), (2, 1.5), (4, 2.5)), 0.4, 0.05)


def a_round(drafter: str, drafted: int, accepted: int, seconds: float, dense_s: float | None = 0.02) -> Round:
    token = Token(1, "a", Origin.DRAFT, 1.0, None)
    return Round(
        index=0,
        tokens=(token,) * (accepted + 1),
        text="a",
        draft_max=drafted,
        drafted=drafted,
        accepted=accepted,
        rejected=(token,) * (drafted - accepted),
        alphas=(),
        draft_s=0.0,
        verify_s=seconds,
        host_s=0.0,
        seconds=seconds,
        context_used=9,
        drafter=drafter,
        dense_s=dense_s,
    )


def test_a_record_is_found_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "pair.json"
    record = Learned(path, "big + small")
    assert not record.seen_draft_model
    record.task(Task.CODE).model.learn(3, accepted=True)
    record.add(Task.CODE, a_round("draft-model", 3, 3, 0.05))
    record.add(Task.CODE, a_round("lookup", 2, 0, 0.05))
    record.add(Task.CODE, a_round("none", 0, 0, 0.02))
    record.threads = 3
    record.save(Costs(CURVE))
    again = Learned(path, "big + small")
    assert again.seen_draft_model
    assert again.state() == record.state()
    assert again.curve is not None
    assert again.curve.dense_s == pytest.approx(0.02)
    assert again.threads == 3
    assert again.tasks[Task.CODE].tokens == 6
    accounts = again.tasks[Task.CODE].accounts
    assert accounts["draft-model"].saved_s == pytest.approx(4 * 0.02 - 0.05)
    assert accounts["lookup"].wasted_s == pytest.approx(0.05 - 0.02)
    assert set(accounts) == {"draft-model", "lookup"}


def test_no_text_is_kept(tmp_path: Path) -> None:
    record = Learned(tmp_path / "pair.json", "big + small")
    record.add(Task.CHAT, a_round("lookup", 2, 1, 0.05))
    record.save(Costs(CURVE))
    assert "Token" not in (tmp_path / "pair.json").read_text()
    assert set(json.loads((tmp_path / "pair.json").read_text())) == {"format", "pair", "threads", "costs", "tasks"}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"format": 99, "pair": "", "costs": null, "tasks": {}}',
        '{"format": 2, "threads": null, "pair": "", "costs": {"dense_s": -1}, "tasks": {}}',
        '{"format": 2, "threads": null, "costs": {"dense_s": 1, "widths": [[1, 0]]}, "tasks": {}}',
        '{"format": 2, "threads": null, "pair": "", "costs": null, "tasks": {"juggling": {}}}',
        '{"format": 2, "threads": null, "pair": "", "costs": null, "tasks": {"chat": {"lookup": {}}}}',
        '{"format": 2, "threads": null, "pair": "", "costs": null, "tasks": []}',
        '{"format": 2, "threads": Infinity, "pair": "", "costs": null, "tasks": {}}',
        "[" * 100_000,
        b"\xff\xfe\x00",
    ],
)
def test_a_damaged_record_is_learned_afresh(tmp_path: Path, content: str | bytes) -> None:
    path = tmp_path / "pair.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    record = Learned(path, "pair")
    assert (record.curve, record.tasks) == (None, {})
    record.save(Costs(CURVE))
    assert Learned(path, "pair").curve is not None


@pytest.mark.parametrize(
    "damage",
    [{"rounds": "many"}, {"saved_s": float("nan")}, {"accepted": -1}, {"drafted": 10**400}, {"more": 1}, "none"],
)
def test_accounts_that_do_not_add_up_are_refused(tmp_path: Path, damage: dict[str, object] | str) -> None:
    path = tmp_path / "pair.json"
    record = Learned(path, "pair")
    record.add(Task.CODE, a_round("lookup", 2, 1, 0.05))
    record.save(Costs(CURVE))
    state = json.loads(path.read_text())
    accounts = state["tasks"]["code"]["accounts"]
    accounts["lookup"] = {**accounts["lookup"], **damage} if isinstance(damage, dict) else damage
    path.write_text(json.dumps(state))
    assert Learned(path, "pair").tasks == {}


def test_a_guess_at_the_costs_is_not_kept_as_if_it_were_measured(tmp_path: Path) -> None:
    path, guess = tmp_path / "pair.json", Costs()
    guess.observe_target(1, 0.03)
    Learned(path, "pair").save(guess)
    assert Learned(path, "pair").curve is None


def test_a_disk_that_refuses_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    Learned(tmp_path / "file" / "pair.json", "pair").save(Costs(CURVE))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_model_is_told_by_its_size_and_its_start(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"a" * 100)
    two.write_bytes(b"a" * 100)
    assert learned.fingerprint(one) == learned.fingerprint(two)
    two.write_bytes(b"a" * 101)
    assert learned.fingerprint(one) != learned.fingerprint(two)
    assert learned.key(models=["a"], threads=1) != learned.key(models=["a"], threads=2)
