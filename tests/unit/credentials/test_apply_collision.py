"""egress/credentials/apply.py: two injections for one slot."""

from __future__ import annotations

import pytest

from egress.credentials.apply import slots_collide
from egress.types import InjectBasic, InjectCookie, InjectHeader, Injection, InjectPlaceholder, InjectQuery
from tests.unit.credentials.credential_samples import github_in

BEARER = InjectHeader("a", "authorization", "Bearer ")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (BEARER, InjectHeader("b", "authorization")),
        (BEARER, InjectHeader("b", "Authorization")),
        (InjectHeader("a", "x-api-key"), InjectHeader("b", "x_api_key")),
        (BEARER, InjectBasic("b", "user")),
        (BEARER, github_in("basic")),
        (InjectBasic("b", "user"), github_in("path", "header:authorization")),
        (InjectQuery("a", "key"), InjectQuery("b", "key")),
        (InjectQuery("a", "key"), github_in("query:key")),
        (InjectCookie("a", "sid"), InjectCookie("b", "sid")),
        (InjectCookie("a", "sid"), InjectHeader("b", "cookie")),
        (InjectCookie("a", "sid"), github_in("header:cookie")),
        (github_in("path"), InjectPlaceholder("b", "aws", github_in("path").slots)),
        (InjectQuery("a", "key"), InjectQuery("b", "KEY")),
        (InjectQuery("a", "api_key"), InjectQuery("b", "api.key[]")),
        (InjectCookie("a", "sid"), InjectCookie("b", "SID")),
    ],
)
def test_sees_two_that_meet_in_either_order(one: Injection, other: Injection) -> None:
    assert slots_collide([one, other])
    assert slots_collide([other, one])
    assert slots_collide([InjectQuery("c", "unrelated"), one, other])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (BEARER, InjectHeader("b", "x-api-key")),
        (InjectQuery("a", "key"), InjectQuery("b", "keys")),
        (InjectQuery("a", "key"), InjectCookie("b", "key")),
        (InjectQuery("a", "key"), InjectHeader("b", "key")),
        (InjectCookie("a", "sid"), InjectCookie("b", "sid2")),
        (github_in("path"), InjectQuery("b", "key")),
    ],
)
def test_two_that_do_not_meet_may_stand_together(one: Injection, other: Injection) -> None:
    assert not slots_collide([one, other])
    assert not slots_collide([other, one])


def test_one_placeholder_may_name_a_header_and_the_basic_credentials_in_it() -> None:
    assert not slots_collide([github_in("header:authorization", "basic", "cookie:a", "header:cookie")])
