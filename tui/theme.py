"""The app's own dark and light themes, and the choice of a theme by the setting ``theme``."""

from __future__ import annotations

from collections.abc import Mapping

from textual.theme import BUILTIN_THEMES, Theme

from localspec.errors import ConfigError

# What a colour means, the same in every part of the screen: $success is the accepted draft, $accent the draft model,
# $primary the target, $secondary the host. $track is the empty part of a bar, $dim what is not to be looked at first.
DARK = Theme(
    name="localspec-dark",
    dark=True,
    primary="#7aa2f7",
    secondary="#9d8cd6",
    accent="#e0af68",
    success="#73c991",
    warning="#e0af68",
    error="#f7768e",
    foreground="#d5daea",
    background="#14161f",
    surface="#1a1d29",
    panel="#232736",
    variables={
        "track": "#363c52",
        "dim": "#868da6",
        "border-blurred": "#2a2f41",
        "input-selection-background": "#7aa2f7 35%",
    },
)
LIGHT = Theme(
    name="localspec-light",
    dark=False,
    primary="#2457b8",
    secondary="#6a4bb3",
    accent="#9a5b00",
    success="#1d7a46",
    warning="#9a5b00",
    error="#b3261e",
    foreground="#22262e",
    background="#fbfaf7",
    surface="#f3f1ec",
    panel="#e8e5dd",
    variables={
        "track": "#cdc8bc",
        "dim": "#6b6f78",
        "border-blurred": "#d3cfc4",
        "input-selection-background": "#2457b8 25%",
    },
)
OWN_THEMES = (DARK, LIGHT)
ALIASES = {"dark": DARK.name, "light": LIGHT.name}


def choose(wanted: str | None, environment: Mapping[str, str]) -> str:
    """The name of the theme to start with.

    ``wanted`` is ``dark``, ``light`` or any theme of Textual; unknown names raise ``ConfigError``. With NO_COLOR set,
    the theme that uses no colour of its own is taken whatever is wanted.
    """
    names = {*ALIASES, *BUILTIN_THEMES, *ALIASES.values()}
    if wanted is not None and wanted not in names:
        raise ConfigError(f"The setting theme is {wanted!r}, which is no theme: use one of {', '.join(sorted(names))}.")
    if without_colour(environment):
        return "ansi-dark"
    return ALIASES.get(wanted or "dark", wanted or "dark")


def without_colour(environment: Mapping[str, str]) -> bool:
    """Whether the user wants no colour at all (https://no-color.org)."""
    return bool(environment.get("NO_COLOR"))
