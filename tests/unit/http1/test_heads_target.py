"""Four forms, one of them right for each method."""

from __future__ import annotations

import pytest

from egress.errors import WireError
from egress.http1.heads import is_authority, read_target


@pytest.mark.parametrize(
    ("method", "target", "form", "authority"),
    [
        ("GET", "/", "origin", ""),
        ("GET", "/a/../b;c//d?e=/../%2e", "origin", ""),
        ("GET", "//x@y/z", "origin", ""),
        ("OPTIONS", "*", "asterisk", ""),
        ("GET", "http://a.example", "absolute", "a.example"),
        ("GET", "HTTP://A.example:80/x?y", "absolute", "A.example:80"),
        ("GET", "https://[2001:db8::1]:8443/", "absolute", "[2001:db8::1]:8443"),
        ("CONNECT", "a.example:443", "authority", "a.example:443"),
        ("CONNECT", "[::1]:443", "authority", "[::1]:443"),
    ],
)
def test_reads_the_form_and_leaves_the_target_alone(
    method: str, target: str, form: str, authority: str
) -> None:
    assert read_target(method, target) == (form, authority)


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "*"),
        ("GET", "a.example:443"),
        ("GET", "a.example"),
        ("GET", "ftp://a.example/"),
        ("GET", "ws://a.example/"),
        ("GET", "http:///x"),
        ("GET", "http://u@a.example/"),
        ("GET", "http://u:p@a.example/"),
        ("GET", "http://a.example?x@b.example/"),
        ("GET", "http://a.example\\@b.example/"),
        ("GET", "http://a.example:/"),
        ("GET", "http://a.example:123456/"),
        ("GET", "http://a.example:8x/"),
        ("GET", "http://a%2eexample/"),
        ("GET", "http://[::1/"),
        ("GET", "http://[[::1]]/"),
        ("GET", "http://[::1%25eth0]/"),
        ("CONNECT", "/"),
        ("CONNECT", "*"),
        ("CONNECT", "a.example"),
        ("CONNECT", "[::1]"),
        ("CONNECT", "a.example:"),
        ("CONNECT", ":443"),
        ("CONNECT", "a.example:443/"),
        ("CONNECT", "u@a.example:443"),
        ("CONNECT", "http://a.example:443"),
        ("CONNECT", "a.example:443:443"),
        ("connect", "a.example:443"),
    ],
)
def test_refuses_what_has_no_form(method: str, target: str) -> None:
    with pytest.raises(WireError) as refusal:
        read_target(method, target)
    assert refusal.value.status == 400


@pytest.mark.parametrize(
    "host", ["a.example", "A.EXAMPLE.", "a_b", "127.0.0.1:80", "[::1]", "[::1]:80", "localhost:1"]
)
def test_a_host_may_be_a_name_or_an_address_with_or_without_port(host: str) -> None:
    assert is_authority(host)


@pytest.mark.parametrize(
    "host",
    ["", ":80", "a:", "a b", "a,b", "u@a", "a/b", "a#b", "a\\b", "::1", "[::1", "a%00", "é", "a:80:80"],
)
def test_a_host_may_be_nothing_else(host: str) -> None:
    assert not is_authority(host)
