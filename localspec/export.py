"""A conversation as a document: Markdown to read, JSON to work with."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from localspec.store import State, StoredConversation, StoredMessage

FORMAT = 1
"""Rises when the shape of the JSON changes in a way that a reader would notice."""


def export(conversation: StoredConversation, path: Path) -> str:
    """The text of the document that the suffix of ``path`` asks for: JSON for ``.json``, otherwise Markdown."""
    return to_json(conversation) if path.suffix.lower() == ".json" else to_markdown(conversation)


def to_markdown(conversation: StoredConversation) -> str:
    """Title, date and pair, then a section for each message; a reply that was cut short says so."""
    started = datetime.fromtimestamp(conversation.created).strftime("%Y-%m-%d %H:%M")
    parts = [f"# {conversation.title}", f"*{started}, {conversation.pair}*"]
    for message in conversation.messages:
        heading = {"user": "You", "assistant": "Assistant", "system": "System"}[message.role]
        if message.state not in (State.COMPLETE, State.STREAMING):
            heading += f" ({message.state})"
        parts += [f"## {heading}", message.content.strip() or "*(no text)*"]
    return "\n\n".join(parts) + "\n"


def to_json(conversation: StoredConversation) -> str:
    """An object with ``format`` (1), ``id``, ``title``, ``created``, ``updated``, ``pair``, ``settings``, ``messages``.

    Each message has ``role``, ``content`` (thoughts included), ``created``, ``state`` (complete, cancelled, interrupted
    or streaming), ``pair``, ``settings``, ``figures`` (empty for a prompt), and ``version`` of ``versions``, counted
    from 1. Times are ISO 8601 in UTC. The messages are those of the versions that are shown.
    """
    head = {
        "format": FORMAT,
        "id": conversation.id,
        "title": conversation.title,
        "created": _moment(conversation.created),
        "updated": _moment(conversation.updated),
        "pair": conversation.pair,
        "settings": conversation.settings,
    }
    return json.dumps({**head, "messages": [_message(m) for m in conversation.messages]}, indent=2, default=str) + "\n"


def _message(message: StoredMessage) -> dict[str, object]:
    return {
        **{key: value for key, value in asdict(message).items() if key != "id"},
        "created": _moment(message.created),
        "version": message.versions.index(message.id) + 1,
        "versions": len(message.versions),
    }


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
