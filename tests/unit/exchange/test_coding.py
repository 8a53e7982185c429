"""Plain contents are asked for in every dialect, and coded ones are recognised in every dialect."""

from __future__ import annotations

import pytest

from egress.credentials import CredentialedHead
from egress.exchange.coding import ASKING, asking_for_plain, is_coded
from egress.types import Head

HEADERS = (("host", "a.example"), ("accept-encoding", "gzip"), ("accept", "*/*"), ("accept-encoding", "br"))


@pytest.mark.parametrize("kind", [Head, CredentialedHead])
def test_asks_for_identity_once_and_keeps_all_else(kind: type[Head]) -> None:
    head = asking_for_plain(kind("GET", "https", "a.example", 443, "/p?q", HEADERS, websocket=True))
    assert head.headers == (("host", "a.example"), ("accept", "*/*"), ("accept-encoding", "identity"))
    assert (head.method, head.scheme, head.host, head.port) == ("GET", "https", "a.example", 443)
    assert (head.target, head.websocket) == ("/p?q", True)
    assert type(head) is kind


@pytest.mark.parametrize("name", sorted(ASKING))
def test_takes_off_every_way_of_asking_for_codings(name: str) -> None:
    head = asking_for_plain(Head("GET", "https", "a.example", 443, "/", ((name, "gzip"),)))
    assert head.headers == (("accept-encoding", "identity"),)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("content-encoding", "gzip"),
        ("content-encoding", "identity, gzip"),
        ("content-encoding", "IDENTITYx"),
        ("content-encoding", "aws-chunked"),
        ("grpc-encoding", "gzip"),
        ("connect-content-encoding", "br"),
        ("im", "gzip"),
        ("sec-websocket-extensions", "permessage-deflate; client_max_window_bits"),
    ],
)
def test_recognises_what_says_that_it_is_coded(name: str, value: str) -> None:
    assert is_coded((("content-type", "text/plain"), (name, value)))


@pytest.mark.parametrize("value", ["", "identity", "Identity", " identity\t"])
def test_identity_is_no_coding(value: str) -> None:
    assert not is_coded((("content-encoding", value), ("grpc-encoding", value), ("vary", "gzip")))


def test_one_plain_field_does_not_excuse_another() -> None:
    assert is_coded((("content-encoding", "identity"), ("content-encoding", "gzip")))
