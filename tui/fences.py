"""Code blocks of Markdown: finding those of a reply, and making one of a file's text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from markdown_it import MarkdownIt


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """What stands between two fences."""

    language: str
    """Empty where the fence names none."""
    text: str


def code_blocks(markdown: str) -> list[CodeBlock]:
    """The code blocks in order, those in lists and quotes included; one that is still open counts."""
    return [
        CodeBlock(token.info.split(maxsplit=1)[0] if token.info.strip() else "", token.content)
        for token in MarkdownIt("commonmark").parse(markdown)
        if token.type in ("fence", "code_block")
    ]


def fenced(text: str, language: str = "") -> str:
    """The text between fences that are longer than any fence in it."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
