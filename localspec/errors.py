"""Errors that a user can cause, one type for each layer.

Every message is one sentence that says what is wrong and what to do about it. The CLI prints it and exits with
``exit_code``; the TUI shows it. Anything that is not a ``LocalspecError`` is a defect and keeps its traceback.
"""

from __future__ import annotations


class LocalspecError(Exception):
    """Base of every error with a message fit for the user."""

    exit_code = 2


class ConfigError(LocalspecError):
    """A setting is unknown, malformed or out of range."""


class GGUFError(LocalspecError):
    """A file is not a GGUF, is cut off, or its header cannot be trusted."""


class ModelError(LocalspecError):
    """llama.cpp could not load, hold or evaluate a model."""


class PairError(LocalspecError):
    """Target and draft do not fit each other, or the target cannot be decoded speculatively."""


class PullError(LocalspecError):
    """A download could not be started, finished or verified."""


class StoreError(LocalspecError):
    """Conversations could not be read or saved."""


class SessionError(LocalspecError):
    """A request cannot be answered, for example a prompt longer than the context."""


class AttachmentError(LocalspecError):
    """A file cannot go along with a prompt."""
