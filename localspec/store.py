"""Conversations on disk: one SQLite file that several processes may use at once.

The user's message and an empty reply are committed before a reply starts, and the partial text is flushed while it
streams, so that a killed process or a crash of the native library loses at most the last flush interval. A reply that
was streaming when its process died is marked ``interrupted`` the next time any process opens the file.

Commits go to the write-ahead log without an fsync each (``synchronous=NORMAL``): they survive the death of the process
at any instant; a power cut may lose the last ones but cannot damage the file.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

import psutil

from localspec.errors import StoreError

BUSY_TIMEOUT_S = 5.0
TITLE_LENGTH = 60

# One script for each schema version; a file at version n has had the first n applied.
MIGRATIONS = (
    """
    CREATE TABLE conversations (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        title TEXT NOT NULL,
        created REAL NOT NULL,
        updated REAL NOT NULL,
        pair TEXT NOT NULL
    );
    CREATE INDEX conversations_by_update ON conversations (updated);
    CREATE TABLE messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
        role TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant')),
        content TEXT NOT NULL,
        created REAL NOT NULL,
        pair TEXT NOT NULL,
        settings TEXT NOT NULL,
        figures TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('streaming', 'complete', 'cancelled', 'interrupted')),
        owner TEXT
    );
    CREATE INDEX messages_by_conversation ON messages (conversation, id);
    CREATE INDEX messages_streaming ON messages (state) WHERE state = 'streaming';
    CREATE VIRTUAL TABLE message_index USING fts5 (content, tokenize = "unicode61 remove_diacritics 2");
    CREATE TRIGGER message_added AFTER INSERT ON messages WHEN new.state <> 'streaming' BEGIN
        INSERT INTO message_index (rowid, content) VALUES (new.id, new.content);
    END;
    CREATE TRIGGER message_changed AFTER UPDATE OF content, state ON messages WHEN new.state <> 'streaming' BEGIN
        DELETE FROM message_index WHERE rowid = old.id;
        INSERT INTO message_index (rowid, content) VALUES (new.id, new.content);
    END;
    CREATE TRIGGER message_deleted AFTER DELETE ON messages BEGIN
        DELETE FROM message_index WHERE rowid = old.id;
    END;
    """,
)


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


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """A conversation with all of its messages, oldest first."""

    id: int
    title: str
    created: float
    updated: float
    pair: str
    messages: tuple[StoredMessage, ...]


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """Row ids of a turn whose reply is about to start."""

    conversation: int
    prompt: int
    reply: int


class Store:
    """The conversations in one SQLite file.

    Use it from one thread. Every method raises ``StoreError`` when the file cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._errors():
            _create_private(path)
            # Autocommit mode: transactions are begun by hand, as writers, so that they queue instead of deadlocking.
            self._db = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
        try:
            with self._errors():
                _use_wal(self._db)
                self._db.execute("PRAGMA synchronous = NORMAL")
                self._db.execute("PRAGMA foreign_keys = ON")
                self._migrate()
                self._mark_interrupted()
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin_turn(
        self, conversation: int | None, prompt: str, *, pair: str, settings: Mapping[str, Any] | None = None
    ) -> StoredTurn:
        """Commit a user's message and an empty reply to it; ``conversation`` None starts a new one."""
        now = time.time()
        prompt = _storable(prompt)
        with self._errors(), self._transaction() as db:
            if conversation is None:
                conversation = _insert(
                    db,
                    "INSERT INTO conversations (title, created, updated, pair) VALUES (?, ?, ?, ?)",
                    (title_of(prompt), now, now, pair),
                )
            elif not db.execute(
                "UPDATE conversations SET updated = ?, pair = ? WHERE id = ?", (now, pair, conversation)
            ).rowcount:
                raise self._missing(conversation)
            add = (
                "INSERT INTO messages (conversation, role, content, created, pair, settings, figures, state, owner) "
                "VALUES (?, ?, ?, ?, ?, ?, '{}', ?, ?)"
            )
            as_json = json.dumps(settings or {}, default=str)
            asked = _insert(db, add, (conversation, "user", prompt, now, pair, as_json, State.COMPLETE, None))
            reply = _insert(
                db, add, (conversation, "assistant", "", now, pair, as_json, State.STREAMING, _this_process())
            )
        return StoredTurn(conversation, asked, reply)

    def flush(self, reply: int, text: str) -> None:
        """Save the reply's text so far."""
        with self._errors(), self._transaction() as db:
            db.execute("UPDATE messages SET content = ? WHERE id = ?", (_storable(text), reply))

    def finish(self, reply: int, text: str, state: State, figures: Mapping[str, Any] | None = None) -> None:
        """Save the whole reply with how it ended and its figures."""
        as_json = json.dumps(figures or {}, default=str)
        with self._errors(), self._transaction() as db:
            db.execute(
                "UPDATE messages SET content = ?, state = ?, figures = ?, owner = NULL WHERE id = ?",
                (_storable(text), state, as_json, reply),
            )
            db.execute(
                "UPDATE conversations SET updated = ? WHERE id = (SELECT conversation FROM messages WHERE id = ?)",
                (time.time(), reply),
            )

    def delete(self, conversation: int) -> None:
        """Remove a conversation and its messages."""
        with self._errors(), self._transaction() as db:
            if not db.execute("DELETE FROM conversations WHERE id = ?", (conversation,)).rowcount:
                raise self._missing(conversation)

    def conversations(self, limit: int = 200) -> list[Summary]:
        """The conversations, the last used first."""
        with self._errors():
            rows = self._db.execute(_SUMMARY + "ORDER BY updated DESC, id DESC LIMIT ?", (limit,))
            return [Summary(*row) for row in rows]

    def search(self, text: str, limit: int = 50) -> list[Summary]:
        """Conversations with a message that has every word of ``text``, the best match first.

        A word also matches longer words that begin with it; case and accents do not matter.
        """
        words = re.findall(r"\w+", _storable(text))
        if not words:
            return self.conversations(limit)
        with self._errors():
            # More rows than wanted, because several messages of one conversation may match.
            hits = self._db.execute(
                "SELECT conversation, snippet(message_index, 0, '', '', '…', 12) FROM message_index "
                "JOIN messages ON messages.id = message_index.rowid "
                "WHERE message_index MATCH ? ORDER BY rank LIMIT ?",
                (" ".join(f'"{word}"*' for word in words), limit * 20),
            ).fetchall()
            excerpts: dict[int, str] = {}
            for conversation, excerpt in hits:
                excerpts.setdefault(conversation, " ".join(excerpt.split()))
            found = []
            for conversation, excerpt in list(excerpts.items())[:limit]:
                row = self._db.execute(_SUMMARY + "WHERE id = ?", (conversation,)).fetchone()
                if row is not None:
                    found.append(replace(Summary(*row), excerpt=excerpt))
            return found

    def latest(self) -> int | None:
        """The conversation that was used last."""
        first = self.conversations(limit=1)
        return first[0].id if first else None

    def number(self, which: str) -> int:
        """The conversation that a user means by its number or by ``last``; ``load`` says whether it exists."""
        if which == "last":
            number = self.latest()
            if number is None:
                raise StoreError("There is no conversation to resume yet: start one.")
            return number
        if not which.isdecimal() or int(which) >= 2**63:
            raise StoreError(f"{which!r} is no conversation: give its number, or last.")
        return int(which)

    def load(self, conversation: int) -> StoredConversation:
        """A conversation with its messages."""
        with self._errors():
            head = self._db.execute(
                "SELECT id, title, created, updated, pair FROM conversations WHERE id = ?", (conversation,)
            ).fetchone()
            if head is None:
                raise self._missing(conversation)
            rows = self._db.execute(
                "SELECT id, role, content, created, pair, settings, figures, state FROM messages "
                "WHERE conversation = ? ORDER BY id",
                (conversation,),
            )
            messages = tuple(_message(*row) for row in rows)
        number, title, created, updated, pair = head
        return StoredConversation(number, title, created, updated, pair, messages)

    def prompts(self, limit: int = 500) -> list[str]:
        """The user's messages of all conversations, oldest first, without repeats."""
        with self._errors():
            rows = self._db.execute(
                "SELECT content FROM messages WHERE role = 'user' GROUP BY content ORDER BY max(id) DESC LIMIT ?",
                (limit,),
            ).fetchall()
        return [content for (content,) in reversed(rows)]

    def export_markdown(self, conversation: int) -> str:
        """The conversation as a Markdown document."""
        stored = self.load(conversation)
        started = datetime.fromtimestamp(stored.created).strftime("%Y-%m-%d %H:%M")
        parts = [f"# {stored.title}", f"*{started}, {stored.pair}*"]
        for message in stored.messages:
            heading = {"user": "You", "assistant": "Assistant", "system": "System"}[message.role]
            if message.state not in (State.COMPLETE, State.STREAMING):
                heading += f" ({message.state})"
            parts += [f"## {heading}", message.content.strip() or "*(no text)*"]
        return "\n\n".join(parts) + "\n"

    def _migrate(self) -> None:
        with self._transaction() as db:
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if version > len(MIGRATIONS):
                raise StoreError(
                    f"The conversations in {self.path} were written by a newer localspec (format {version}, this one "
                    f"knows {len(MIGRATIONS)}): update localspec, or move the file away to start afresh."
                )
            for script in MIGRATIONS[version:]:
                for statement in _statements(script):
                    db.execute(statement)
            if version < len(MIGRATIONS):
                db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")

    def _mark_interrupted(self) -> None:
        streaming = self._db.execute("SELECT id, owner FROM messages WHERE state = 'streaming'").fetchall()
        orphans = [(row,) for row, owner in streaming if not _is_alive(owner)]
        if orphans:
            with self._transaction() as db:
                db.executemany(
                    "UPDATE messages SET state = 'interrupted', owner = NULL WHERE id = ? AND state = 'streaming'",
                    orphans,
                )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.ProgrammingError:
            raise
        except (sqlite3.DatabaseError, OSError) as error:
            raise StoreError(_sentence(self.path, error)) from error

    def _missing(self, conversation: int) -> StoreError:
        return StoreError(f"There is no conversation {conversation}: it may have been deleted; pick another one.")


_SUMMARY = (
    "SELECT id, title, created, updated, pair, "
    "(SELECT count(*) FROM messages WHERE messages.conversation = conversations.id) FROM conversations "
)


def title_of(prompt: str) -> str:
    """The first line of a prompt, cut to ``TITLE_LENGTH`` characters."""
    line = next((line.strip() for line in prompt.splitlines() if line.strip()), "Untitled")
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"


def _create_private(path: Path) -> None:
    """Conversations are nobody else's business: the file is readable by its owner only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _use_wal(db: sqlite3.Connection) -> None:
    """The switch to WAL needs the file alone for an instant and does not wait for it by itself."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _statements(script: str) -> Iterator[str]:
    """The statements of a script one by one: ``executescript`` would commit the transaction around them."""
    statement = ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _insert(db: sqlite3.Connection, statement: str, values: tuple[object, ...]) -> int:
    row = db.execute(statement, values).lastrowid
    assert row is not None
    return row


def _this_process() -> str:
    return f"{os.getpid()}:{psutil.Process().create_time():.0f}"


def _is_alive(owner: str | None) -> bool:
    """Whether the process that streams a reply still runs; by its start time it is no other that got the same id."""
    try:
        pid, started = (owner or "").split(":")
        return bool(abs(psutil.Process(int(pid)).create_time() - float(started)) < 5)
    except (ValueError, psutil.Error):
        return False


def _storable(text: str) -> str:
    """SQLite takes only what UTF-8 can hold; a lone surrogate from a broken paste becomes ``?``."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _message(
    number: int, role: str, content: str, created: float, pair: str, settings: str, figures: str, state: str
) -> StoredMessage:
    return StoredMessage(number, role, content, created, pair, _mapping(settings), _mapping(figures), State(state))


def _mapping(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _sentence(path: Path, error: Exception) -> str:
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return f"The conversations file {path} is damaged: move it away to start afresh; nothing was changed in it."
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return f"The conversations file {path} is held by another program: close that program and try again."
    if name.startswith("SQLITE_FULL"):
        return f"The conversation cannot be saved because the disk of {path} is full: free some space."
    if "no such module: fts5" in str(error):
        return "This Python's SQLite lacks full-text search (FTS5): install a Python whose SQLite has it."
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"Conversations cannot be saved in {path} ({reason}): check that the folder exists and can be written."
