"""`set_headers`: constants alone, never a credential or a header that rules or the connection need."""

from __future__ import annotations

import pytest

from egress.rules.compile.policy_writer import as_text
from tests.unit.rules.rule_samples import errors, policy

SECRET = 'secrets: {s: {from: "env:S", hosts: [a.example]}}'


def entry(headers: str, more: str = "") -> str:
    return f"{SECRET}\nhosts: {{a.example: {{allow: all, set_headers: {{{headers}}}{more}}}}}\n"


def test_what_is_written_is_an_effect_of_every_allowed_request() -> None:
    made = policy(entry('x-github-next-global-id: "1", x-a: b c'))
    (compiled,) = made.entries.values()
    assert compiled.set_headers == (("x-github-next-global-id", "1"), ("x-a", "b c"))
    again = policy(as_text(made))
    assert [each.set_headers for each in again.entries.values()] == [compiled.set_headers]


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ("X-A: b", "header names must be lower case (write x-a)"),
        ("'x a': b", "is not a header name"),
        ("host: b", "`host` belongs to the connection"),
        ("transfer-encoding: chunked", "belongs to the connection"),
        ("connection: x", "belongs to the connection"),
        ("proxy_authorization: b", "belongs to the connection"),
        ("authorization: b", "`authorization` carries a credential"),
        ("cookie: a=b", "carries a credential"),
        ("x-api-key: b", "carries a credential"),
        ("x_api_key: b", "carries a credential"),
        ("private-token: b", "carries a credential"),
        ("content-type: text/plain", "says how the request is read"),
        ("content-encoding: gzip", "says how the request is read"),
        ("x-http-method-override: PUT", "says how the request is read"),
        ("x-original-url: /x", "says how the request is read"),
        ('x-a: ""', "a header value is one line"),
        ('x-a: " b"', "a header value is one line"),
        ('x-a: "b\\nc: d"', "a header value is one line"),
        ("x-a: é", "a header value is one line"),
        ("x-a: ghp_abcdefghijklmnopqrstuvwxyz0123456789", "this looks like a credential"),
    ],
)
def test_a_mistake_is_named(headers: str, message: str) -> None:
    found = errors(entry(headers))
    assert any(message in line for line in found), found
    assert not any("ghp_" in line for line in found)


@pytest.mark.parametrize("name", ["x-own", "x_own", "x.own"])
@pytest.mark.parametrize("inject", ["header: {name: x-own, secret: s}", "bearer: s, strip: ['header:x-own']"])
def test_a_slot_of_a_credential_is_no_place_for_a_constant(name: str, inject: str) -> None:
    found = errors(entry(f"{name}: b", f", inject: [{{{inject}}}]"))
    assert any("is the slot of a credential" in line for line in found), found


def test_a_tunnel_has_no_headers() -> None:
    found = errors("hosts: {a.example: {intercept: never, set_headers: {x-a: b}}}")
    assert any("`set_headers` has no effect" in line for line in found), found
