"""The same reply with and without a draft: both speeds, and whether the text is the same."""

from __future__ import annotations

from typing import Protocol

from localspec.stats import Figures


class Compared(Protocol):
    """A reply as far as it is compared."""

    @property
    def text(self) -> str: ...
    @property
    def verify(self) -> str: ...
    @property
    def figures(self) -> Figures: ...


def comparison(speculative: Compared, dense: Compared) -> str:
    """One line. Speeds are decode tokens per second over replies of the same length."""
    fast, slow = speculative.figures.decode_per_second, dense.figures.decode_per_second
    if not fast or not slow:
        return "no comparison: the reply is empty"
    return (
        f"speculative {fast:.1f} tokens/s, dense {slow:.1f} tokens/s: speed-up {fast / slow:.2f}x, "
        f"{_text(speculative, dense)}"
    )


def _text(speculative: Compared, dense: Compared) -> str:
    if speculative.text == dense.text:
        return "the same text"
    if speculative.verify in ("rejection", "block"):
        return f"another text, as {speculative.verify} draws anew for each draft"
    return f"the same text for the first {_common(speculative.text, dense.text)} of {len(dense.text)} characters"


def _common(a: str, b: str) -> int:
    """Length of the common prefix."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((i for i, (left, right) in pairs if left != right), min(len(a), len(b)))
