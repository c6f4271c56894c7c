"""Conversations become prompts by the model's template, and a bad template ends in one sentence."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from localspec.chat_template import ChatTemplate, Message
from localspec.errors import SessionError
from localspec.llama import Model

TALK = (
    Message("system", "Be brief."),
    Message("user", "Hi <b> & é"),
    Message("assistant", "Yes?"),
    Message("user", "Go"),
)
NO_SYSTEM = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
)


HOSTILE = {
    "not closed": "{% for m in messages %}",
    "cut off": "{{ messages",
    "includes a file": "{% include 'secrets' %}",
    "undefined name": "{{ nothing.at.all }}",
    "past the end": "{{ messages[99].content }}",
    "division by zero": "{{ 1 / 0 }}",
    "refuses badly": "{{ raise_exception() }}",
    "endless range": "{% for i in range(10 ** 12) %}x{% endfor %}",
    "escapes to classes": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "appends a message": "{{ messages.append('more') }}",
    "bad format": "{{ ('%s' * 3) % 1 }}",
    "reads globals": "{{ raise_exception.__globals__ }}{{ strftime_now.__globals__['json'] }}",
    "recursion": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "deep parentheses": "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
    "deep loops": "{% for i in 'x' %}" * 30 + "{% endfor %}" * 30,
    "bad argument": "{{ strftime_now(1) }}",
}


def refusal(source: str, messages: tuple[Message, ...] = TALK) -> str:
    with pytest.raises(SessionError) as caught:
        ChatTemplate(source).render(messages)
    text = str(caught.value)
    assert text.startswith("The model's chat template ")
    assert text.endswith(".")
    assert "\n" not in text
    return text


def test_a_model_without_a_template_gets_chatml() -> None:
    expected = (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi <b> & é<|im_end|>\n"
        "<|im_start|>assistant\nYes?<|im_end|>\n<|im_start|>user\nGo<|im_end|>\n<|im_start|>assistant\n"
    )
    assert ChatTemplate(None).render(TALK) == ChatTemplate("").render(TALK) == expected


def test_the_template_of_a_real_model_is_followed(smollm2: Path) -> None:
    with Model(smollm2) as model:
        template = ChatTemplate(model.chat_template)
    assert template.render(TALK) == ChatTemplate(None).render(TALK)
    # This one puts its own system message before a conversation without one.
    assert template.render(TALK[1:]).startswith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM")


def test_special_tokens_and_the_request_for_an_answer_are_given() -> None:
    source = "{{ bos_token }}{{ messages|length }}{{ eos_token }}{% if add_generation_prompt %}>{% endif %}"
    assert ChatTemplate(source, bos="<s>", eos="</s>").render(TALK) == "<s>4</s>>"


def test_blocks_leave_no_white_space_as_transformers_renders_them() -> None:
    source = "{% for m in messages %}\n    {% if m.role == 'user' %}\n{{ m.content }}\n    {% endif %}\n{% endfor %}\n"
    assert ChatTemplate(source).render((Message("user", "Hi"),)) == "Hi\n"


def test_loop_controls_namespaces_dates_and_json_are_there() -> None:
    source = (
        "{% set ns = namespace(n=0) %}{% for m in messages %}{% if loop.index > 2 %}{% break %}{% endif %}"
        "{% set ns.n = ns.n + 1 %}{{ m.content|tojson }}{% endfor %}{{ ns.n }} {{ strftime_now('%Y') }}"
    )
    assert ChatTemplate(source).render(TALK) == f'"Be brief.""Hi <b> & é"2 {datetime.now().year}'


def test_a_template_that_refuses_a_system_message_gets_it_with_the_first_question() -> None:
    text = ChatTemplate(NO_SYSTEM).render(TALK)
    assert text == "[user] Be brief.\n\nHi <b> & é\n[assistant] Yes?\n[user] Go\n"


def test_a_template_that_refuses_even_so_is_quoted() -> None:
    source = "{{ raise_exception('Roles must\n alternate.') }}"
    assert refusal(source) == "The model's chat template refuses this conversation: Roles must alternate."
    assert "System role not supported" in refusal(NO_SYSTEM, TALK[:1])


def test_braces_in_a_message_are_text() -> None:
    assert "{{ 7 * 7 }}{% raw %}" in ChatTemplate(None).render((Message("user", "{{ 7 * 7 }}{% raw %}"),))


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE)
def test_a_broken_or_hostile_template_ends_in_one_sentence(source: str) -> None:
    refusal(source)


def test_a_template_cannot_change_the_conversation() -> None:
    source = "{% for m in messages %}{% set _ = m.update({'content': 'changed'}) %}{% endfor %}"
    refusal(source)
    assert TALK[1].content == "Hi <b> & é"


def test_no_messages_are_no_crash() -> None:
    assert ChatTemplate(None).render(()) == "<|im_start|>assistant\n"
