"""What is hidden from the log: names that sandboxes ask for, in every line that has one."""

from __future__ import annotations

from dataclasses import dataclass

from egress.audit.hide import as_it_is, without


@dataclass(frozen=True)
class Said:
    host: str
    sni: str = ""
    code: str = "secret.x"


def hide(sandbox: str, text: str) -> str:
    return text.replace("secret", "*") if sandbox == "box" else text


def test_what_is_hidden_is_hidden_in_the_fields_that_are_named() -> None:
    assert without(Said("secret.example", "a.secret"), hide, "box", "host", "sni") == Said("*.example", "a.*")


def test_a_value_without_it_is_the_same_value() -> None:
    said = Said("a.example", "b.example")
    assert without(said, hide, "box", "host", "sni") is said
    hidden = Said("secret.example")
    assert without(hidden, hide, "other", "host") is hidden
    assert without(hidden, as_it_is, "box", "host") is hidden
