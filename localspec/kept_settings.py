"""The settings that belong to a conversation: they are saved with it and come back when it is resumed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from localspec.config import Settings
from localspec.errors import ConfigError

# The temperature comes before what is only allowed at some temperatures.
KEPT = (
    "system",
    "temp",
    "top_k",
    "top_p",
    "min_p",
    "repeat_penalty",
    "repeat_last_n",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "draft",
    "draft_max",
    "verify",
)


def kept(settings: Settings) -> dict[str, Any]:
    """The values to save, fit for JSON."""
    return settings.model_dump(mode="json", include=set(KEPT))


def restored(configured: Settings, saved: Mapping[str, Any]) -> Settings:
    """``configured`` with the saved values; one that this version does not know or take is left as configured."""
    settings = configured
    values = {name: saved[name] for name in KEPT if name in saved}
    try:
        return settings.changed(**values)
    except ConfigError:
        for name, value in values.items():
            try:
                settings = settings.changed(**{name: value})
            except ConfigError:
                continue
    return settings
