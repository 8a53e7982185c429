"""A value can be named and searched for, and shows nothing of itself."""

from __future__ import annotations

import copy
import pickle

import pytest

from egress.errors import SecretValueError
from egress.secrets.value import Value
from tests.unit.secrets.rig import OTHER, TOKEN


def test_a_name_gives_the_same_secret_each_time() -> None:
    value = Value(TOKEN + b"\n")
    secret = value.named("github")
    assert secret.reveal() == TOKEN
    assert secret.name == "github"
    assert value.named("github") is secret
    assert value.named("mirror").name == "mirror"


@pytest.mark.parametrize("raw", [b"", b" \n", b"abc\0defgh", b"abc\rdefgh"])
def test_refuses_a_value_that_must_not_be_sent(raw: bytes) -> None:
    with pytest.raises(SecretValueError, match="secret 'github'") as caught:
        Value(raw).named("github")
    assert "abc" not in str(caught.value)


def test_a_short_value_has_no_spellings() -> None:
    assert Value(b"1234567\n").is_short
    assert Value(b"1234567\n").spellings == frozenset()
    assert not Value(b"12345678").is_short
    assert b"12345678" in Value(b"12345678").spellings


def test_is_compiled_once_for_each_name() -> None:
    value = Value(TOKEN)
    assert value.needles("github") is value.needles("github")
    assert value.needles("github").mask(TOKEN).found == {"github": 1}
    assert value.needles("twin").mask(TOKEN).found == {"twin": 1}
    assert not Value(b"short").needles("github").mask(b"short").hits


def test_the_same_credential_is_recognised_whatever_stands_around_it() -> None:
    assert Value(TOKEN).is_same(Value(b" " + TOKEN + b"\n"))
    assert not Value(TOKEN).is_same(Value(OTHER))


def test_knows_the_texts_it_stands_in() -> None:
    assert Value(TOKEN).stands_in(f"http://me:{TOKEN.decode()}@proxy")
    assert not Value(TOKEN).stands_in("http://proxy")
    assert Value(b"1").stands_in("1")
    assert not Value(b"1").stands_in("/usr/lib/1")


def test_shows_nothing_and_cannot_be_copied() -> None:
    value = Value(TOKEN)
    for shown in (repr(value), str(value), f"{value}", f"{value!r:>40}", f"{[value]}"):
        assert "tok_" not in shown
    for copier in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            copier(value)
