"""A value can be named and searched for, and shows nothing of itself."""

from __future__ import annotations

import copy
import pickle

import pytest

from egress.errors import SecretValueError
from egress.secrets.source_value import SourceValue
from tests.unit.secrets.secret_samples import OTHER, TOKEN


def test_a_name_gives_the_same_secret_each_time() -> None:
    value = SourceValue(TOKEN + b"\n")
    secret = value.secret_named("github")
    assert secret.reveal() == TOKEN
    assert secret.name == "github"
    assert value.secret_named("github") is secret
    assert value.secret_named("mirror").name == "mirror"


@pytest.mark.parametrize("raw", [b"", b" \n", b"abc\0defgh", b"abc\rdefgh"])
def test_refuses_a_value_that_must_not_be_sent(raw: bytes) -> None:
    with pytest.raises(SecretValueError, match="secret 'github'") as caught:
        SourceValue(raw).secret_named("github")
    assert "abc" not in str(caught.value)


def test_a_short_value_has_no_spellings() -> None:
    assert SourceValue(b"1234567\n").is_short
    assert SourceValue(b"1234567\n").spellings == frozenset()
    assert not SourceValue(b"12345678").is_short
    assert b"12345678" in SourceValue(b"12345678").spellings


def test_is_compiled_once_for_each_name() -> None:
    value = SourceValue(TOKEN)
    assert value.needles("github") is value.needles("github")
    assert value.needles("github").mask(TOKEN).found == {"github": 1}
    assert value.needles("twin").mask(TOKEN).found == {"twin": 1}
    assert not SourceValue(b"short").needles("github").mask(b"short").hits


def test_the_same_credential_is_recognised_whatever_stands_around_it() -> None:
    assert SourceValue(TOKEN).is_same(SourceValue(b" " + TOKEN + b"\n"))
    assert not SourceValue(TOKEN).is_same(SourceValue(OTHER))


def test_knows_the_texts_it_stands_in() -> None:
    assert SourceValue(TOKEN).occurs_in(f"http://me:{TOKEN.decode()}@proxy")
    assert not SourceValue(TOKEN).occurs_in("http://proxy")
    assert SourceValue(b"1").occurs_in("1")
    assert not SourceValue(b"1").occurs_in("/usr/lib/1")


def test_shows_nothing_and_cannot_be_copied() -> None:
    value = SourceValue(TOKEN)
    for shown in (repr(value), str(value), f"{value}", f"{value!r:>40}", f"{[value]}"):
        assert "tok_" not in shown
    for copier in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            copier(value)
