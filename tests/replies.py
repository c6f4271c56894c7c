"""Short replies of small models: settings for them, and what their events say."""

from __future__ import annotations

from collections.abc import Sequence

from localspec import config
from localspec.config import Settings
from localspec.events import Event, Finish, Prefill, Round
from localspec.session import Message

N_CTX = 256
ASCII = 99
"""The size of a synthetic vocabulary whose every text is ASCII and becomes the same tokens again."""
HELLO = (Message("user", "Hello there"),)


def settings(**values: object) -> Settings:
    """``values`` over greedy decoding of 40 tokens with K = 3, none a control token, which would have no text."""
    usual = {
        "temp": 0.0,
        "ctx_size": N_CTX,
        "ignore_eos": True,
        "seed": 1,
        "n_predict": 40,
        "draft": "draft-model",
        "draft_max": 3,
        "threads": 1,
        "logit_bias": {0: -100.0, 1: -100.0},
    }
    return config.load({**usual, **values}).settings


def text_of(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Round | Finish))


def rounds_of(events: Sequence[Event]) -> list[Round]:
    return [event for event in events if isinstance(event, Round)]


def prompt_of(events: Sequence[Event]) -> Prefill:
    return [event for event in events if isinstance(event, Prefill)][-1]


def finish_of(events: Sequence[Event]) -> Finish:
    assert isinstance(events[-1], Finish)
    return events[-1]
