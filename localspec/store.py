"""Conversations on disk: one SQLite file that several processes may use at once.

A conversation is a tree of messages. A prompt that is edited and a reply that is made again get a version beside the
earlier one, which stays; the path from the first message to the conversation's *head* is what is shown and goes on.

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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import psutil

from localspec.errors import StoreError
from localspec.migrations import MIGRATIONS, migrate
from localspec.stored import State, StoredConversation, StoredMessage, StoredTurn, Summary

__all__ = ["MIGRATIONS", "State", "Store", "StoredConversation", "StoredMessage", "StoredTurn", "Summary", "title_of"]

BUSY_TIMEOUT_S = 5.0
TITLE_LENGTH = 60


class Store:
    """The conversations in one SQLite file; without a path in memory, until it is closed.

    Use it from one thread. Every method raises ``StoreError`` when the file cannot be read or written.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        with self._errors():
            if path is not None:
                _create_private(path)
            # Autocommit mode: transactions are begun by hand, as writers, so that they queue instead of deadlocking.
            self._db = sqlite3.connect(path or ":memory:", timeout=BUSY_TIMEOUT_S, isolation_level=None)
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
        self,
        conversation: int | None,
        prompt: str,
        *,
        pair: str,
        settings: Mapping[str, Any] | None = None,
        instead_of: int | None = None,
    ) -> StoredTurn:
        """Commit a user's message and an empty reply to it.

        ``conversation`` None starts a new one. The message follows the head, or stands beside the user's message
        ``instead_of`` as another version of it.
        """
        prompt = _storable(prompt)
        with self._errors(), self._transaction() as db:
            if conversation is None:
                now = time.time()
                conversation = _insert(
                    db,
                    "INSERT INTO conversations (title, created, updated, pair) VALUES (?, ?, ?, ?)",
                    (title_of(prompt), now, now, pair),
                )
            if instead_of is None:
                query, key = "SELECT head FROM conversations WHERE id = ?", conversation
            else:
                query, key = "SELECT parent FROM messages WHERE id = ?", instead_of
            found = db.execute(query, (key,)).fetchone()
            if found is None:
                raise self._missing(conversation)
            as_json = _json(settings)
            asked = self._add(conversation, found[0], "user", prompt, pair, as_json)
            reply = self._add(conversation, asked, "assistant", "", pair, as_json)
            self._go_on(conversation, reply, pair, as_json)
        return StoredTurn(conversation, asked, reply)

    def begin_reply(self, prompt: int, *, pair: str, settings: Mapping[str, Any] | None = None) -> StoredTurn:
        """Commit another empty reply to the user's message ``prompt``; earlier replies stay."""
        with self._errors(), self._transaction() as db:
            found = db.execute("SELECT conversation FROM messages WHERE id = ?", (prompt,)).fetchone()
            if found is None:
                raise _no_message()
            as_json = _json(settings)
            reply = self._add(found[0], prompt, "assistant", "", pair, as_json)
            self._go_on(found[0], reply, pair, as_json)
        return StoredTurn(found[0], prompt, reply)

    def flush(self, reply: int, text: str) -> None:
        """Save the reply's text so far."""
        with self._errors(), self._transaction() as db:
            db.execute("UPDATE messages SET content = ? WHERE id = ?", (_storable(text), reply))

    def finish(self, reply: int, text: str, state: State, figures: Mapping[str, Any] | None = None) -> None:
        """Save the whole reply with how it ended and its figures."""
        as_json = _json(figures)
        with self._errors(), self._transaction() as db:
            db.execute(
                "UPDATE messages SET content = ?, state = ?, figures = ?, owner = NULL WHERE id = ?",
                (_storable(text), state, as_json, reply),
            )
            db.execute(
                "UPDATE conversations SET updated = ? WHERE id = (SELECT conversation FROM messages WHERE id = ?)",
                (time.time(), reply),
            )

    def switch(self, message: int) -> None:
        """Make the newest path through a message the one that is shown and goes on."""
        with self._errors(), self._transaction() as db:
            (head,) = db.execute(
                "WITH RECURSIVE below (id) AS (SELECT id FROM messages WHERE id = ? UNION ALL "
                "SELECT messages.id FROM messages JOIN below ON messages.parent = below.id) SELECT max(id) FROM below",
                (message,),
            ).fetchone()
            if head is None:
                raise _no_message()
            db.execute(
                "UPDATE conversations SET head = ?1 WHERE id = (SELECT conversation FROM messages WHERE id = ?1)",
                (head,),
            )

    def branch(self, message: int) -> int:
        """A new conversation with copies of the messages up to this one. Returns its id."""
        with self._errors(), self._transaction() as db:
            path = db.execute(_PATH, (message,)).fetchall()
            if not path:
                raise _no_message()
            now = time.time()
            conversation = _insert(
                db,
                "INSERT INTO conversations (title, created, updated, pair, settings) "
                "SELECT title, ?, ?, pair, settings FROM conversations "
                "WHERE id = (SELECT conversation FROM messages WHERE id = ?)",
                (now, now, message),
            )
            copy = None
            for (original,) in path:
                copy = _insert(
                    db,
                    "INSERT INTO messages "
                    "(conversation, parent, role, content, created, pair, settings, figures, state) "
                    "SELECT ?, ?, role, content, created, pair, settings, figures, state FROM messages WHERE id = ?",
                    (conversation, copy, original),
                )
            db.execute("UPDATE conversations SET head = ? WHERE id = ?", (copy, conversation))
        return conversation

    def configure(self, conversation: int, settings: Mapping[str, Any]) -> None:
        """Save the settings with which a conversation goes on."""
        self._set(conversation, "settings", _json(settings))

    def rename(self, conversation: int, title: str) -> None:
        """Give a conversation another title; that of a blank one is ``Untitled``."""
        self._set(conversation, "title", title_of(_storable(title)))

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
                "SELECT conversation, messages.id, snippet(message_index, 0, '', '', '…', 12) FROM message_index "
                "JOIN messages ON messages.id = message_index.rowid "
                "WHERE message_index MATCH ? ORDER BY rank LIMIT ?",
                (" ".join(f'"{word}"*' for word in words), limit * 20),
            ).fetchall()
            best: dict[int, tuple[int, str]] = {}
            for conversation, message, excerpt in hits:
                best.setdefault(conversation, (message, " ".join(excerpt.split())))
            found = []
            for conversation, (message, excerpt) in list(best.items())[:limit]:
                row = self._db.execute(_SUMMARY + "WHERE id = ?", (conversation,)).fetchone()
                if row is not None:
                    found.append(replace(Summary(*row), excerpt=excerpt, hit=message))
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
        """A conversation with the messages on the path to its head."""
        with self._errors():
            found = self._db.execute(
                "SELECT id, title, created, updated, pair, settings, head FROM conversations WHERE id = ?",
                (conversation,),
            ).fetchone()
            if found is None:
                raise self._missing(conversation)
            number, title, created, updated, pair, settings, head = found
            versions: dict[int | None, list[int]] = {}
            family = self._db.execute(
                "SELECT id, parent FROM messages WHERE conversation = ? ORDER BY id", (conversation,)
            )
            for message, parent in family:
                versions.setdefault(parent, []).append(message)
            path = self._db.execute(_PATH, (head,)).fetchall()
            messages = tuple(self._message(message, versions) for (message,) in path)
        return StoredConversation(number, title, created, updated, pair, _mapping(settings), messages)

    def prompts(self, limit: int = 500) -> list[str]:
        """The user's messages of all conversations, oldest first, without repeats."""
        with self._errors():
            rows = self._db.execute(
                "SELECT content FROM messages WHERE role = 'user' GROUP BY content ORDER BY max(id) DESC LIMIT ?",
                (limit,),
            ).fetchall()
        return [content for (content,) in reversed(rows)]

    def _add(self, conversation: int, parent: int | None, role: str, content: str, pair: str, settings: str) -> int:
        """Insert a message; that of the assistant is one which this process streams."""
        state, owner = (State.COMPLETE, None) if role == "user" else (State.STREAMING, _this_process())
        return _insert(
            self._db,
            "INSERT INTO messages "
            "(conversation, parent, role, content, created, pair, settings, figures, state, owner) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, '{}', ?, ?)",
            (conversation, parent, role, content, time.time(), pair, settings, state, owner),
        )

    def _go_on(self, conversation: int, head: int, pair: str, settings: str) -> None:
        self._db.execute(
            "UPDATE conversations SET head = ?, updated = ?, pair = ?, settings = ? WHERE id = ?",
            (head, time.time(), pair, settings, conversation),
        )

    def _set(self, conversation: int, column: str, value: str) -> None:
        with self._errors(), self._transaction() as db:
            if not db.execute(f"UPDATE conversations SET {column} = ? WHERE id = ?", (value, conversation)).rowcount:
                raise self._missing(conversation)

    def _message(self, number: int, family: Mapping[int | None, Sequence[int]]) -> StoredMessage:
        """A message; ``family`` lists the messages below each parent."""
        parent, role, content, created, pair, settings, figures, state = self._db.execute(
            "SELECT parent, role, content, created, pair, settings, figures, state FROM messages WHERE id = ?",
            (number,),
        ).fetchone()
        return StoredMessage(
            number,
            role,
            content,
            created,
            pair,
            _mapping(settings),
            _mapping(figures),
            State(state),
            tuple(family[parent]),
        )

    def _migrate(self) -> None:
        with self._transaction() as db:
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if version > len(MIGRATIONS):
                raise StoreError(
                    f"The conversations in {self.path} were written by a newer localspec (format {version}, this one "
                    f"knows {len(MIGRATIONS)}): update localspec, or move the file away to start afresh."
                )
            migrate(db, version)

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


# The messages from the first one to the one that is given.
_PATH = (
    "WITH RECURSIVE path (id, parent, height) AS (SELECT id, parent, 0 FROM messages WHERE id = ? UNION ALL "
    "SELECT messages.id, messages.parent, height + 1 FROM messages JOIN path ON messages.id = path.parent) "
    "SELECT id FROM path ORDER BY height DESC"
)
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


def _no_message() -> StoreError:
    return StoreError("That message is not on disk: it may have been deleted; pick another one.")


def _json(values: Mapping[str, Any] | None) -> str:
    return json.dumps(values or {}, default=str)


def _mapping(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _sentence(path: Path | None, error: Exception) -> str:
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
