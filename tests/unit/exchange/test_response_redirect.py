"""Redirects: which leave the host, which are credentials themselves, and what a rule makes of both."""

from __future__ import annotations

import pytest

from egress.exchange.messages import Destination
from egress.exchange.response import carries_credential, may_redirect, stays_at_destination
from egress.types import Headers, Redirects

HOST = Destination("https", "api.example.com", 443)
ODD = Destination("https", "api.example.com", 8443)
PLAIN = Destination("http", "api.example.com", 80)

STAYING = [
    "", "/", "/a?b#c", "a/b", "../a", "?page=2", "#top", ".", "/a:b", "//api.example.com/x",
    "/a//evil.example",
    "https://api.example.com", "https://api.example.com/", "HTTPS://API.Example.COM/x",
    "https://api.example.com?x",
    "https://api.example.com:443/x", "https://api.example.com./x", "https://api.example.com#x", " /a ",
    "/\xe9", "/a?u=https://evil.example/",
]  # fmt: skip
LEAVING = [
    "https://evil.example/", "//evil.example/", "HtTpS://evil.example", "https://evil.example:443",
    "///evil.example/", "////evil.example", "\\\\evil.example", "/\\evil.example", "\\/evil.example",
    "/\t/evil.example", "\t//evil.example", "ht\ntps://evil.example", "/\r/evil.example", " //evil.example",
    "https:/evil.example", "https:evil.example", "https:\\\\evil.example", "https:///evil.example",
    "https://api.example.com@evil.example/", "https://api.example.com:443@evil.example/",
    "https://user:pass@api.example.com/", "https://@api.example.com/",
    "https://api.example.com\\@evil.example/",
    "https://evil.example\\@api.example.com/", "https://api.example.com\\.evil.example/",
    "https://api.example.com.evil.example/", "https://evil-api.example.com/", "https://api.example.com..",
    "https://api.example.com:8443/", "https://api.example.com:/", "https://api.example.com:443443443/",
    "http://api.example.com/", "http://api.example.com:443/", "javascript:alert(1)", "JavaScript:alert(1)",
    "java\tscript:alert(1)", "data:text/html,x", "file:///etc/passwd", "mailto:a@b", "ftp://api.example.com/",
    "https://api%2eexample.com/", "https://api.example.c\xf6m/", "https://[::1]/", "https://1.2.3.4/",
    "https://",
    "//", "https://api.example.com /", "https://api.example.com\x00.evil.example/",
]  # fmt: skip


@pytest.mark.parametrize("url", STAYING)
def test_stays_at_the_destination(url: str) -> None:
    assert stays_at_destination(url, HOST)


@pytest.mark.parametrize("url", LEAVING)
def test_leaves_or_may_be_read_so(url: str) -> None:
    assert not stays_at_destination(url, HOST)


def test_the_port_belongs_to_the_destination() -> None:
    assert stays_at_destination("https://api.example.com:8443/", ODD)
    assert stays_at_destination("/x", ODD)
    assert not stays_at_destination("https://api.example.com/", ODD)


def test_clear_text_is_its_own_destination() -> None:
    assert stays_at_destination("//api.example.com:80/x", PLAIN)
    assert not stays_at_destination("https://api.example.com/", PLAIN)
    assert not stays_at_destination("https:/evil.example", PLAIN)


SIGNED = [
    "https://bucket.example/o?X-Amz-Signature=ab", "/o?x=1&x-amz-signature=ab", "/o?X-Amz-%53ignature=ab",
    "/o?X-Amz-%2553ignature=ab", "/o?X-Amz-Security-Token=x", "/o?X-Goog-Signature=x", "/o?x-oss-signature=x",
    "/o?q-signature=x", "/o?temp_url_sig=x", "/o?sv=2021&sp=r&sig=x", "/o?SIG=x", "/cb?code=abc&state=x",
    "/cb#access_token=abc", "/cb#id_token=abc", "/cb?accessToken=x", "/x;token=abc", "/x?jwt=x",
    "/x?api_key=x",
    "/x?apikey=x", "/x?client_secret=x", "/x?Key-Pair-Id=K&Expires=1", "/x?tok\ten=1", "/x?password=x",
    "/x?hdnts=exp", "https://user:pass@bucket.example/", "https://token@bucket.example/",
    "//t@bucket.example",
    "https:\\\\t@bucket.example", "/x?next=https%3A%2F%2Fb%2Fo%3Fsig%3Dx", "/x?a%3D%25252525252525",
]  # fmt: skip
UNSIGNED = [
    "", "/", "/token/signature", "/a?page=2", "/a?tokens=1", "/a?q=sig", "/a?design=x", "/a?barcode=1",
    "/a@b",
    "/a?mail=a@b.example", "/a?sort=code", "/a?key=photos/1", "/a%20b?c=%41", "#section", "/a?signed",
]  # fmt: skip


@pytest.mark.parametrize("url", SIGNED)
def test_a_url_that_is_a_credential_is_recognised(url: str) -> None:
    assert carries_credential(url)


@pytest.mark.parametrize("url", UNSIGNED)
def test_an_ordinary_url_is_none(url: str) -> None:
    assert not carries_credential(url)


def may(status: int, headers: Headers, allowed: Redirects, *, injected: bool = True) -> bool:
    return may_redirect(status, headers, HOST, allowed, injected=injected)


AWAY: Headers = (("location", "https://evil.example/"),)
SELF: Headers = (("location", "/next"),)
KEYED: Headers = (("location", "https://bucket.example/o?X-Amz-Signature=ab"),)


@pytest.mark.parametrize("status", [300, 301, 302, 303, 305, 306, 307, 308, 399])
def test_each_mode_on_a_redirect(status: int) -> None:
    """Any 3xx counts: some clients follow every one that has a Location."""
    assert may(status, AWAY, Redirects.PASS)
    assert may(status, AWAY, Redirects.SIGNED)
    assert not may(status, AWAY, Redirects.SAME_HOST)
    assert may(status, SELF, Redirects.SAME_HOST)
    assert not may(status, SELF, Redirects.DENY)
    assert not may(status, AWAY, Redirects.DENY)


def test_a_signed_url_needs_to_be_named_where_something_was_injected() -> None:
    assert not may(302, KEYED, Redirects.PASS)
    assert may(302, KEYED, Redirects.SIGNED)
    assert may(302, KEYED, Redirects.PASS, injected=False)


def test_same_host_does_not_excuse_a_signed_url() -> None:
    assert not may(302, (("location", "/o?X-Amz-Signature=ab"),), Redirects.SAME_HOST)


@pytest.mark.parametrize("status", [200, 201, 202, 304, 404])
def test_a_location_that_nobody_follows_is_no_redirect(status: int) -> None:
    """A created resource may live elsewhere, but its URL must not be a credential."""
    assert may(status, AWAY, Redirects.DENY)
    assert may(status, AWAY, Redirects.SAME_HOST)
    assert not may(status, KEYED, Redirects.PASS)


def test_every_location_counts() -> None:
    assert not may(302, SELF + AWAY, Redirects.SAME_HOST)
    assert not may(302, AWAY + SELF, Redirects.SAME_HOST)


@pytest.mark.parametrize(
    "value",
    ["0;url=https://evil.example/", "0; URL = 'https://evil.example'", '5,url="//evil.example"',
     "0 //evil.example",
     "0;//evil.example", "1.5;\turl=\\\\evil.example", "url=https://evil.example/"],
)  # fmt: skip
@pytest.mark.parametrize("status", [200, 302])
def test_refresh_is_a_redirect_on_any_status(value: str, status: int) -> None:
    assert not may(status, (("refresh", value),), Redirects.DENY)
    assert not may(status, (("refresh", value),), Redirects.SAME_HOST)
    assert may(status, (("refresh", value),), Redirects.PASS)


@pytest.mark.parametrize("value", ["5", "5;", " 0.5 ", ""])
def test_a_refresh_that_only_reloads_is_none(value: str) -> None:
    assert may(200, (("refresh", value),), Redirects.DENY)


def test_a_refresh_may_stay() -> None:
    assert may(200, (("refresh", "5; url='/next'"),), Redirects.SAME_HOST)
    assert not may(200, (("refresh", "5; url=/next?sig=1"),), Redirects.SAME_HOST)


@pytest.mark.parametrize("name", ["link", "content-location"])
def test_what_nobody_follows_by_itself_passes(name: str) -> None:
    assert may(302, ((name, "<https://evil.example/?sig=1>; rel=next"),), Redirects.DENY)
