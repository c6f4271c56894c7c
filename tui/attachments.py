"""Texts that go along with a prompt: files, large pastes, and what a command printed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from localspec.errors import AttachmentError

from .fences import fenced

MOST_BYTES = 2_000_000
"""A larger file would not fit into any context."""
MENTION = re.compile(r"(?:^|(?<=\s))@(\S+)")
"""A file that is named in a prompt."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A named text."""

    name: str
    text: str
    language: str = ""

    @property
    def size(self) -> str:
        """Its size in UTF-8, in at most six characters."""
        return size_of(len(self.text.encode("utf-8", "replace")))


def read_file(path: Path) -> Attachment:
    """The text of a file; raises AttachmentError for what is missing, too large or no text."""
    try:
        if not path.is_file():
            what = "is a folder" if path.is_dir() else "does not exist"
            raise AttachmentError(f"{path} {what}: name a text file.")
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise AttachmentError(f"{path} is too large ({size_of(size)}): attach at most {size_of(MOST_BYTES)}.")
        data = path.read_bytes()
    except OSError as error:
        raise AttachmentError(f"{path} cannot be read ({error.strerror}): check its permissions.") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise AttachmentError(f"{path} is not text: only text files can be attached.")
    return Attachment(str(path), text, path.suffix.removeprefix("."))


def with_attachments(prompt: str, attachments: Sequence[Attachment]) -> str:
    """The message to send: the prompt, then each text as a code block under its name."""
    blocks = [f"{attachment.name}:\n{fenced(attachment.text, attachment.language)}" for attachment in attachments]
    return "\n\n".join([prompt, *blocks] if prompt else blocks)


def mentioned(prompt: str) -> list[Path]:
    """The files that exist among the words with an ``@`` before them."""
    found = []
    for word in MENTION.findall(prompt):
        for path in (Path(word), Path(word.rstrip(".,;:!?)"))):
            if path.is_file():
                found.append(path)
                break
    return found


def size_of(count: int) -> str:
    """Bytes as 812 B, 4.2 kB, 32 kB, 1.2 MB."""
    for unit, scale in (("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            value = count / scale
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
    return f"{count} B"
