"""The tables of the conversations, version by version."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

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
    # Versions of a prompt or a reply are rows with the same parent. The parent is no foreign key, because deleting a
    # long conversation along it would exceed the depth to which SQLite cascades.
    """
    ALTER TABLE messages ADD COLUMN parent INTEGER;
    ALTER TABLE conversations ADD COLUMN head INTEGER;
    ALTER TABLE conversations ADD COLUMN settings TEXT NOT NULL DEFAULT '{}';
    UPDATE messages SET parent = (
        SELECT max(earlier.id) FROM messages AS earlier
        WHERE earlier.conversation = messages.conversation AND earlier.id < messages.id
    );
    UPDATE conversations SET head = (SELECT max(id) FROM messages WHERE conversation = conversations.id);
    UPDATE conversations SET settings = coalesce((SELECT settings FROM messages WHERE id = head), '{}');
    CREATE INDEX messages_by_parent ON messages (parent);
    """,
)


def migrate(db: sqlite3.Connection, version: int) -> None:
    """Bring a file at ``version`` to the newest one, within the transaction that is open."""
    for script in MIGRATIONS[version:]:
        for statement in _statements(script):
            db.execute(statement)
    if version < len(MIGRATIONS):
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


def _statements(script: str) -> Iterator[str]:
    """The statements of a script one by one: ``executescript`` would commit the transaction around them."""
    statement = ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
