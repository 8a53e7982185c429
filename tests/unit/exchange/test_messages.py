"""The values: the authority of a destination, and what does not show itself."""

from __future__ import annotations

from typing import Literal

import pytest

from egress.exchange import Destination, SendRequest
from egress.types import Head


@pytest.mark.parametrize(
    ("scheme", "host", "port", "authority"),
    [
        ("https", "a.example", 443, "a.example"),
        ("https", "a.example", 80, "a.example:80"),
        ("https", "a.example", 8443, "a.example:8443"),
        ("http", "a.example", 80, "a.example"),
        ("http", "a.example", 443, "a.example:443"),
        ("https", "2001:db8::1", 443, "[2001:db8::1]"),
        ("https", "2001:db8::1", 8443, "[2001:db8::1]:8443"),
        ("https", "192.0.2.1", 443, "192.0.2.1"),
    ],
)
def test_an_authority_names_the_port_only_where_it_must(
    scheme: Literal["http", "https"], host: str, port: int, authority: str
) -> None:
    assert Destination(scheme, host, port).authority == authority


def test_what_is_to_be_sent_does_not_show_itself() -> None:
    send = SendRequest(Head("GET", "https", "a.example", 443, "/?key=value", (("authorization", "value"),)))
    assert "value" not in f"{send!r} {send!s} {send}"
