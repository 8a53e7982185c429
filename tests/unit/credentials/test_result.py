"""egress/credentials/result.py: what comes out, and that it does not show itself."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import pytest

from egress.credentials.result import AppliedHead, CredentialedHead, CredentialRefusal, HeadEdit
from egress.types import Head, Slot

HEAD = CredentialedHead("GET", "https", "a.example", 443, "/?key=hunter2", (("authorization", "hunter2"),))
SHY: list[object] = [
    HEAD,
    replace(HEAD, method="PUT"),
    HeadEdit("/?key=hunter2", (("authorization", "hunter2"),), occupied=True),
    AppliedHead(HEAD, (("github", Slot("query", "key")),)),
]


@pytest.mark.parametrize("value", SHY)
def test_what_holds_a_secret_does_not_show_it(value: object) -> None:
    shown = f"{value} {value!r} {value!s} {value!a} {[value]} {'%s' % (value,)}"  # noqa: UP031
    assert "hunter2" not in shown


@pytest.mark.parametrize("value", SHY)
def test_what_holds_a_secret_is_not_pickled_or_copied(value: object) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="must not be pickled or copied"):
            pickle.dumps(value, protocol)
    with pytest.raises(TypeError, match="must not be pickled or copied"):
        copy.deepcopy(value)


def test_a_credentialed_head_is_a_head() -> None:
    assert isinstance(HEAD, Head)
    assert HEAD.headers == (("authorization", "hunter2"),)


def test_an_outcome_does_not_even_show_what_the_sandbox_sent() -> None:
    assert "mine" not in repr(AppliedHead(Head("GET", "https", "a.example", 443, "/mine")))


def test_the_record_of_an_outcome_is_shown() -> None:
    shown = repr(AppliedHead(HEAD, (("github", Slot("header", "authorization")),), replaced=True))
    assert "github" in shown
    assert "authorization" in shown


def test_a_refusal_says_which_need_and_why() -> None:
    refusal = CredentialRefusal("secret.unavailable", "No value.", "github", Slot("header", "authorization"))
    assert "secret.unavailable" in repr(refusal)
    assert str(refusal.slot) == "header:authorization"
