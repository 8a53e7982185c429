"""What a line says: read strictly, and a line that is none of ours is no error."""

from __future__ import annotations

import pytest

from egress.review.drafting.observation import id_of, observe
from tests.unit.review.drafting.sample import denied, exchange, refusal, tunnel


def test_reads_an_exchange() -> None:
    one = observe(exchange("POST", path="/a", injected=[("github", "header:authorization")], alpn="h2"))
    assert one is not None
    assert (one.kind, one.method, one.host, one.port, one.path) == (
        "request",
        "POST",
        "api.example.com",
        443,
        "/a",
    )
    assert one.passed
    assert one.is_http2
    assert one.secrets == (("github", "header:authorization"),)
    assert one.inside == ""


def test_only_an_address_that_is_not_public_is_kept() -> None:
    one = observe(exchange(address="10.0.0.9"))
    assert one is not None
    assert one.inside == "10.0.0.9"


@pytest.mark.parametrize(
    "change",
    [
        {"event": "started"},
        {"event": ["exchange"]},
        {"host": None},
        {"host": ""},
        {"port": "443"},
        {"port": True},
        {"port": 70000},
        {"port": 0},
        {"verdict": "maybe"},
    ],
)
def test_a_line_that_is_none_of_ours_is_nothing(change: dict[str, object]) -> None:
    assert observe(exchange() | change) is None


def test_fields_of_another_type_count_as_missing() -> None:
    one = observe(exchange() | {"injected": [1, {"secret": 2}], "path": 3, "profile": {}, "code": []})
    assert one is not None
    assert (one.secrets, one.path, one.profile, one.code) == ((), "", None, "")


@pytest.mark.parametrize(
    ("code", "by_rules"), [("rule.none", True), ("limit.requests", False), ("secret.expired", True)]
)
def test_tells_who_denied(code: str, by_rules: bool) -> None:
    one = observe(denied(code))
    assert one is not None
    assert one.is_denied_by_rules is by_rules


def test_a_cut_path_is_marked() -> None:
    one = observe(exchange(path="/aaa\N{HORIZONTAL ELLIPSIS}"))
    assert one is not None
    assert (one.path, one.is_cut) == ("/aaa", True)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (exchange(status=101), True),
        (exchange("POST", status=101), False),
        (denied("rule.websocket"), True),
        (exchange(), False),
    ],
)
def test_tells_a_websocket_where_the_line_does(line: dict[str, object], expected: bool) -> None:
    one = observe(line)
    assert one is not None
    assert one.is_websocket is expected


def test_a_refusal_has_its_scheme_from_the_way_it_was_named() -> None:
    clear, name = (
        observe(refusal("host.unknown", "a.example", 80, "absolute")),
        observe(refusal("host.unknown", "a.example", 0, "dns")),
    )
    assert clear is not None
    assert clear.scheme == "http"
    assert name is not None
    assert (name.scheme, name.port) == ("https", 0)


def test_a_tunnel_is_one() -> None:
    one = observe(tunnel())
    assert one is not None
    assert (one.kind, one.method, one.path) == ("tunnel", "", "")


def test_the_id_is_that_of_the_request_else_of_the_connection() -> None:
    assert id_of(exchange()) == "c-1-1"
    assert id_of(refusal("host.unknown", "a.example")) == "c-3"
    assert id_of({}) == ""
