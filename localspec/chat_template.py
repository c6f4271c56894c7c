"""Messages to prompt text, by the model's own Jinja template."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from localspec.errors import SessionError

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""The format of a model that names none."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: str
    """"system", "user" or "assistant"."""
    content: str


class ChatTemplate:
    """A compiled chat template."""

    def __init__(self, source: str | None, *, bos: str = "", eos: str = "") -> None:
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
        environment.filters["tojson"] = _tojson
        environment.globals.update(raise_exception=_raise, strftime_now=_now)
        self._variables: Mapping[str, Any] = {"bos_token": bos, "eos_token": eos}
        try:
            self._template = environment.from_string(source or CHATML)
        except Exception as error:
            # Jinja's parser and Python's compiler each give up in a way of their own on nonsense.
            raise SessionError(f"The model's chat template cannot be read: {_one_line(error)}.") from error

    def render(self, messages: Sequence[Message]) -> str:
        """The prompt that asks for the assistant's next turn.

        Templates that refuse a system message get it as the start of the first user message. Raises SessionError when
        the template refuses the conversation all the same.
        """
        try:
            return self._render(messages)
        except Exception as error:
            if messages and messages[0].role == "system" and len(messages) > 1:
                # The first error says more than a second one would.
                with suppress(Exception):
                    return self._render(_without_system(messages))
            # A template is the model file's code: whatever it raises is that file's fault, not a defect here.
            raise SessionError(f"The model's chat template refuses this conversation: {_one_line(error)}.") from error

    def _render(self, messages: Sequence[Message]) -> str:
        turns = [{"role": message.role, "content": message.content} for message in messages]
        return self._template.render(messages=turns, add_generation_prompt=True, **self._variables)


def _without_system(messages: Sequence[Message]) -> list[Message]:
    system, first, *rest = messages
    return [Message(first.role, f"{system.content}\n\n{first.content}"), *rest]


def _tojson(value: object, indent: int | None = None, **_: object) -> str:
    # Jinja's own filter escapes HTML, which would put &-sequences into the prompt.
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)


def _now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
