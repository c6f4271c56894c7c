"""Figures are what a hand would compute from the events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from localspec.events import Event, Finish, FinishReason, Origin, Prefill, Round, Token
from localspec.ledger import Account
from localspec.stats import Statistics

NAMES = ("draft-model", "lookup", "none")


def tokens(n: int) -> tuple[Token, ...]:
    return (Token(5, "a", Origin.DENSE, 1.0, None),) * n


def a_round(
    index: int, seconds: float, *, k: int = 3, drafted: int = 3, accepted: int = 0, alphas: Iterable[float] = ()
) -> Round:
    """A round that emits its accepted drafts and one more token, after 1 ms of draft, 2 of verify and 3 of host."""
    return Round(
        index=index,
        tokens=tokens(accepted + 1),
        text="a" * (accepted + 1),
        draft_max=k,
        drafted=drafted,
        accepted=accepted,
        rejected=tokens(drafted - accepted),
        alphas=tuple(alphas),
        draft_s=0.001,
        verify_s=0.002,
        host_s=0.003,
        seconds=seconds,
        context_used=100 + index,
    )


def finish(seconds: float) -> Finish:
    return Finish(FinishReason.LENGTH, "", 20, 9, seconds)


REPLY: tuple[Event, ...] = (
    Prefill(4, 20, 4, 0.0),
    Prefill(12, 20, 4, 0.5),
    Prefill(19, 20, 4, 1.0),
    a_round(0, 1.2, accepted=3, alphas=(1.0, 0.8, 0.6)),
    a_round(1, 1.3, accepted=1, alphas=(0.9, 0.2)),
    a_round(2, 1.6, accepted=0, alphas=(0.1,)),
    a_round(3, 2.0, drafted=0),
    finish(2.1),
)


def statistics(*events: Event, window: int = 64) -> Statistics:
    result = Statistics(window)
    for event in events:
        result.add(event)
    return result


def test_before_the_first_event_nothing_is_divided() -> None:
    for figures in (statistics().total(), statistics().rolling()):
        assert (figures.rounds, figures.tokens, figures.drafted, figures.survival) == (0, 0, 0, ())
        assert figures.acceptance_rate is figures.tokens_per_round is figures.alpha is None
        assert figures.prompt_per_second is figures.decode_per_second is figures.ttft_s is None
        assert figures.itl_p50_s is figures.itl_p99_s is None


def test_counts_and_rates_of_a_reply() -> None:
    figures = statistics(*REPLY).total()
    assert (figures.rounds, figures.draft_max, figures.drafted, figures.accepted, figures.tokens) == (4, 3, 9, 4, 8)
    assert figures.acceptance_rate == pytest.approx(4 / 9)
    assert figures.tokens_per_round == pytest.approx(8 / 4)
    assert figures.alpha == pytest.approx((1.0 + 0.8 + 0.6 + 0.9 + 0.2 + 0.1) / 6)
    assert figures.context_used == 103


def test_survival_is_over_the_rounds_that_drafted() -> None:
    assert statistics(*REPLY).total().survival == pytest.approx((2 / 3, 1 / 3, 1 / 3))


def test_times_of_a_reply() -> None:
    figures = statistics(*REPLY).total()
    assert (figures.prompt_tokens, figures.cached_tokens) == (20, 4)
    assert figures.prompt_s == pytest.approx(1.0)
    assert figures.prompt_per_second == pytest.approx((20 - 4) / 1.0)
    assert figures.decode_s == pytest.approx(2.0 - 1.0)
    assert figures.decode_per_second == pytest.approx(8 / 1.0)
    assert figures.ttft_s == pytest.approx(1.2)
    assert (figures.draft_s, figures.verify_s, figures.host_s) == pytest.approx((0.004, 0.008, 0.012))


def test_latency_between_tokens_is_over_the_gaps_between_rounds() -> None:
    # Gaps 0.1, 0.3 and 0.4: the median is the middle one, and p99 lies 98 % of the way from it to the largest.
    figures = statistics(*REPLY).total()
    assert figures.itl_p50_s == pytest.approx(0.3)
    assert figures.itl_p99_s == pytest.approx(0.3 + 0.98 * 0.1)


def test_tokens_per_round_are_one_and_the_sum_of_survival_where_every_round_drafts_k() -> None:
    rounds = [a_round(i, 1.0 + i, k=4, drafted=4, accepted=n) for i, n in enumerate((4, 0, 2, 1, 4, 3))]
    figures = statistics(*rounds).total()
    assert figures.tokens_per_round == pytest.approx(1 + sum(figures.survival))
    assert figures.survival == pytest.approx((5 / 6, 4 / 6, 3 / 6, 2 / 6))


def test_a_larger_k_later_on_lengthens_survival() -> None:
    figures = statistics(a_round(0, 1.0, k=1, drafted=1, accepted=1), a_round(1, 2.0, k=3, accepted=2)).total()
    assert figures.survival == pytest.approx((1.0, 0.5, 0.0))
    assert figures.draft_max == 3


def test_dense_decoding_has_no_acceptance() -> None:
    figures = statistics(Prefill(0, 8, 0, 0.0), *(a_round(i, 1.0 + i, k=0, drafted=0) for i in range(5))).total()
    assert figures.acceptance_rate is figures.alpha is None
    assert (figures.draft_max, figures.survival, figures.tokens_per_round) == (0, (), 1.0)


def test_rolling_figures_are_those_of_the_last_rounds() -> None:
    figures = statistics(*REPLY, window=2).rolling()
    assert (figures.rounds, figures.tokens, figures.drafted, figures.accepted) == (2, 2, 3, 0)
    assert figures.acceptance_rate == 0.0
    assert figures.decode_s == pytest.approx(2.0 - 1.3)
    assert figures.itl_p50_s == pytest.approx((0.3 + 0.4) / 2)


def test_rolling_and_total_agree_while_the_window_is_not_full() -> None:
    stats = statistics(*REPLY)
    assert stats.rolling() == stats.total()


def test_the_window_is_64_rounds() -> None:
    rounds = [a_round(i, 1.0 + i, accepted=0 if i < 36 else 3) for i in range(100)]
    stats = statistics(*rounds)
    assert stats.rolling().acceptance_rate == 1.0
    assert stats.rolling().rounds == 64
    assert stats.total().acceptance_rate == pytest.approx(0.64)


def test_two_replies_add_up_and_the_time_between_them_does_not_count() -> None:
    second = (Prefill(30, 40, 30, 0.0), Prefill(39, 40, 30, 0.25), a_round(0, 0.5, accepted=1), finish(0.6))
    stats = statistics(*REPLY, *second)
    figures = stats.total()
    assert (figures.rounds, figures.tokens) == (5, 10)
    assert (figures.prompt_tokens, figures.cached_tokens) == (60, 34)
    assert figures.prompt_s == pytest.approx(1.25)
    assert figures.decode_s == pytest.approx(1.0 + 0.25)
    assert figures.ttft_s == pytest.approx(0.5)
    assert figures.itl_p50_s == pytest.approx(0.3)
    assert (stats.rolling().prompt_tokens, stats.rolling().rounds) == (40, 5)


def test_a_cancelled_reply_does_not_disturb_the_next() -> None:
    second = (Prefill(30, 40, 30, 0.0), Prefill(39, 40, 30, 0.25), a_round(0, 0.5, accepted=1), finish(0.6))
    for n in range(1, len(REPLY)):
        cancelled = statistics(*REPLY[:n]).total()
        both = statistics(*REPLY[:n], *second).total()
        assert both.tokens == cancelled.tokens + 2
        assert both.decode_s == pytest.approx(cancelled.decode_s + 0.25)
        assert both.prompt_tokens == 60
        assert both.prompt_s == pytest.approx(cancelled.prompt_s + 0.25)
        assert both.ttft_s == pytest.approx(0.5)


def test_a_prompt_that_was_cached_whole_has_no_rate() -> None:
    figures = statistics(Prefill(19, 20, 20, 0.0), a_round(0, 0.1)).total()
    assert figures.prompt_per_second is None


def test_a_prompt_read_again_in_the_middle_of_a_reply_counts_only_its_own_time() -> None:
    # The oldest turns were dropped after 2 seconds, and the shorter prompt took half a second.
    again = (Prefill(0, 10, 0, 2.0), Prefill(9, 10, 0, 2.5), a_round(4, 2.8))
    figures = statistics(*REPLY[:-1], *again).total()
    assert figures.prompt_s == pytest.approx(1.0 + 0.5)
    assert figures.decode_s == pytest.approx(1.0 + 0.3)
    assert figures.ttft_s == pytest.approx(1.2)


def test_a_reply_without_a_token_has_no_time_to_the_first() -> None:
    assert statistics(Prefill(19, 20, 0, 1.0), Finish(FinishReason.LENGTH, "", 20, 0, 1.0)).total().ttft_s is None


def test_the_dense_estimate_and_the_speed_up_come_from_the_rounds_that_have_one() -> None:
    rounds = [a_round(0, 1.0, accepted=3), a_round(1, 1.1, accepted=1), a_round(2, 1.2, drafted=0)]
    estimated = [replace(event, dense_s=0.004, drafter=name) for event, name in zip(rounds, NAMES, strict=True)]
    figures = statistics(Prefill(19, 20, 0, 0.9), *estimated).total()
    # Six tokens at 4 ms each and one of a round that was dense, 2 + 3 ms, against three rounds of 1 + 2 + 3 ms.
    assert figures.dense_per_second == pytest.approx(7 / 0.029)
    assert figures.speed_up == pytest.approx(0.029 / 0.018)
    assert figures.accounts["draft-model"] == Account(1, 3, 3, pytest.approx(0.016 - 0.006), 0.0)
    assert figures.accounts["lookup"] == Account(1, 3, 1, pytest.approx(0.008 - 0.006), 0.0)
    assert set(figures.accounts) == {"draft-model", "lookup"}


def test_without_an_estimate_there_is_no_speed_up() -> None:
    figures = statistics(*REPLY).total()
    assert (figures.dense_per_second, figures.speed_up) == (None, None)
