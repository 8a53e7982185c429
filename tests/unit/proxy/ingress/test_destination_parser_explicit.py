"""Which destination a head on a proxy listener names."""

from __future__ import annotations

from egress.http1 import RequestHead, RequestReader
from egress.proxy.ingress.destination_parser import read_target
from egress.proxy.ingress.pending_connection import IngressRefusal, RequestedDestination
from tests.unit.proxy.ingress_fixture import connect, get


def target(data: bytes) -> RequestedDestination | IngressRefusal:
    head = RequestReader().feed(data)[0]
    assert isinstance(head, RequestHead)
    return read_target(head)


def test_a_connect_may_turn_out_to_be_either_scheme() -> None:
    assert target(connect("API.example.com:8443")) == RequestedDestination(
        "connect", ("https", "http"), "api.example.com", 8443
    )


def test_a_full_url_is_plain_http() -> None:
    expected = RequestedDestination("absolute", ("http",), "api.example.com", 80)
    assert target(get("http://api.example.com/x", "api.example.com")) == expected
    assert target(get("HTTP://API.EXAMPLE.COM:80/x", "api.example.com")) == expected


def test_an_old_client_needs_no_host_field() -> None:
    assert isinstance(target(b"CONNECT api.example.com:443 HTTP/1.0\r\n\r\n"), RequestedDestination)
    assert isinstance(target(b"GET http://api.example.com/ HTTP/1.0\r\n\r\n"), RequestedDestination)


def test_a_bad_name_is_kept_as_an_excerpt() -> None:
    assert target(connect("a..b:443")) == IngressRefusal("host.malformed", "connect", "a..b:443")
    assert target(get("http://a..b/", "a..b")) == IngressRefusal("host.malformed", "absolute", "a..b")


def test_another_host_field_is_a_mismatch() -> None:
    expected = IngressRefusal("request.mismatch", "connect", "api.example.com", 443)
    assert target(connect("api.example.com:443", host="evil.example:443")) == expected
    assert target(get("http://api.example.com/", "api.example.com:8080")) == IngressRefusal(
        "request.mismatch", "absolute", "api.example.com", 80
    )


def test_everything_else_is_not_for_a_proxy() -> None:
    for data in (
        get("/", "api.example.com"),
        get("*", "api.example.com", method="OPTIONS"),
        get("https://api.example.com/", "api.example.com"),
    ):
        assert target(data) == IngressRefusal("proxy.form")
