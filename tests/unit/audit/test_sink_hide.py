"""What is hidden from the log: names that sandboxes ask for, in every line that has one."""

from __future__ import annotations

from dataclasses import dataclass

from egress.audit.sink import keep_name, redact_fields


@dataclass(frozen=True)
class Said:
    host: str
    sni: str = ""
    code: str = "secret.x"


def hide(sandbox: str, text: str) -> str:
    return text.replace("secret", "*") if sandbox == "box" else text


def test_what_is_hidden_is_hidden_in_the_fields_that_are_named() -> None:
    assert redact_fields(Said("secret.example", "a.secret"), hide, "box", "host", "sni") == Said(
        "*.example", "a.*"
    )


def test_a_value_without_it_is_the_same_value() -> None:
    said = Said("a.example", "b.example")
    assert redact_fields(said, hide, "box", "host", "sni") is said
    hidden = Said("secret.example")
    assert redact_fields(hidden, hide, "other", "host") is hidden
    assert redact_fields(hidden, keep_name, "box", "host") is hidden
