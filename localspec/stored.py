"""What comes out of the store: conversations, messages, and how far a reply got."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class State(StrEnum):
    """How far a message got."""

    STREAMING = "streaming"
    COMPLETE = "complete"
    CANCELLED = "cancelled"
    """The user stopped the reply; its text is what was shown until then."""
    INTERRUPTED = "interrupted"
    """The reply failed or its process died; its text is what had been flushed."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A conversation as a list shows it."""

    id: int
    title: str
    created: float
    """Unix seconds."""
    updated: float
    """Unix seconds of the last turn."""
    pair: str
    """Names of target and draft of the last turn."""
    messages: int
    excerpt: str = ""
    """Where a search found it."""
    hit: int | None = None
    """The message in which a search found it."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message of a conversation."""

    id: int
    role: str
    content: str
    created: float
    pair: str
    settings: Mapping[str, Any]
    figures: Mapping[str, Any]
    state: State
    versions: tuple[int, ...]
    """Ids of the versions of this message, its own included, oldest first."""


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """A conversation with the messages on the path to its head, oldest first."""

    id: int
    title: str
    created: float
    updated: float
    pair: str
    settings: Mapping[str, Any]
    """The settings in force, to go on with."""
    messages: tuple[StoredMessage, ...]


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """Row ids of a turn whose reply is about to start."""

    conversation: int
    prompt: int
    reply: int
