"""Sizes and times as people read them."""

from __future__ import annotations


def size_text(n_bytes: float) -> str:
    """Bytes in decimal units with three digits, as disks and the hub count them: ``1.12 GB``."""
    value = float(n_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 99.95 else f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"


def duration_text(seconds: float) -> str:
    """Whole seconds as ``8 s``, ``2:05`` or ``1:02:05``."""
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{rest:02d}"
    return f"{minutes}:{rest:02d}" if minutes else f"{rest} s"
