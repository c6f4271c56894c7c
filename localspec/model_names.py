"""How people name a GGUF: a repository on the hub with a quant, a file or a revision.

``owner/repo``, ``owner/repo:Q4_K_M``, ``owner/repo/file.gguf``, each also with ``@revision``, behind ``hf://`` or
``hf.co/``, and the address of the file as a browser shows it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

DEFAULT_QUANT = "Q4_K_M"

_PREFIX = re.compile(r"^(?:hf://|(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/)", re.IGNORECASE)
_NAME = re.compile(
    r"^(?P<repo>[\w.-]+/[\w.-]+)"
    r"(?:/(?:(?:resolve|blob|raw)/(?P<web_revision>[^/]+)/)?(?P<file>[^:@?]+\.gguf)|:(?P<quant>[\w.-]+))?"
    r"(?:@(?P<revision>[^@?]+))?(?:\?.*)?$"
)


@dataclass(frozen=True)
class HubName:
    """A GGUF on the hub. With neither ``file`` nor ``quant`` the repository's Q4_K_M is meant, or its only one."""

    repo: str
    file: str | None = None
    quant: str | None = None
    revision: str | None = None

    def __str__(self) -> str:
        name = self.repo + (f"/{self.file}" if self.file else f":{self.quant}" if self.quant else "")
        return f"{name}@{self.revision}" if self.revision else name

    def at(self, revision: str | None) -> HubName:
        """The same, pinned to ``revision`` where one is given."""
        return self if revision is None else replace(self, revision=revision)


def parse_hub_name(name: str) -> HubName | None:
    """The hub name in ``name``, or None where it has not the form of one."""
    match = _NAME.match(_PREFIX.sub("", name))
    if match is None or match["repo"].startswith((".", "~")):
        return None
    return HubName(match["repo"], match["file"], match["quant"], match["web_revision"] or match["revision"])


def has_quant(file: str, quant: str) -> bool:
    """Whether a file name carries ``quant`` as a whole word, in upper or lower case."""
    return re.search(rf"(?<![A-Za-z0-9_]){re.escape(quant)}(?![A-Za-z0-9_])", file, re.IGNORECASE) is not None
