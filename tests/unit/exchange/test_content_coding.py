"""Plain contents are asked for in every dialect, and coded ones are recognised in every dialect."""

from __future__ import annotations

import pytest

from egress.exchange.content_coding import ContentCoding
from egress.exchange.request import ACCEPT_FIELDS, asking_for_plain
from egress.exchange.response import coding_of

HEADERS = (("host", "a.example"), ("accept-encoding", "gzip"), ("accept", "*/*"), ("accept-encoding", "br"))


def test_asks_for_identity_once_and_keeps_all_else() -> None:
    asked = asking_for_plain(HEADERS)
    assert asked == (("host", "a.example"), ("accept", "*/*"), ("accept-encoding", "identity"))


@pytest.mark.parametrize("name", sorted(ACCEPT_FIELDS))
def test_takes_off_every_way_of_asking_for_codings(name: str) -> None:
    assert asking_for_plain(((name, "gzip"),)) == (("accept-encoding", "identity"),)


PLAIN_TYPE = ("content-type", "text/plain")


@pytest.mark.parametrize(
    ("value", "coding"),
    [
        ("gzip", ContentCoding.GZIP),
        ("x-gzip", ContentCoding.GZIP),
        ("GZip", ContentCoding.GZIP),
        ("\tgzip ", ContentCoding.GZIP),
        ("deflate", ContentCoding.DEFLATE),
        ("br", ContentCoding.BROTLI),
        ("zstd", ContentCoding.ZSTD),
    ],
)
def test_one_known_coding_of_the_body_can_be_taken_off(value: str, coding: ContentCoding) -> None:
    assert coding_of((PLAIN_TYPE, ("content-encoding", value))) is coding
    assert coding_of((("grpc-encoding", "identity"), ("content-encoding", value))) is coding


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("content-encoding", "identity, gzip"),
        ("content-encoding", "gzip, gzip"),
        ("content-encoding", "gzip,"),
        ("content-encoding", "gzip;q=1"),
        ("content-encoding", "IDENTITYx"),
        ("content-encoding", "compress"),
        ("content-encoding", "dcz"),
        ("content-encoding", "aws-chunked"),
        ("grpc-encoding", "gzip"),
        ("connect-content-encoding", "br"),
        ("im", "gzip"),
        ("sec-websocket-extensions", "permessage-deflate; client_max_window_bits"),
        ("content-type", "text/plain; charset=utf-16"),
        ("content-type", "text/plain; charset=utf-8; charset=utf-7"),
    ],
)
def test_recognises_what_cannot_be_read(name: str, value: str) -> None:
    assert coding_of((PLAIN_TYPE, (name, value))) is ContentCoding.UNREADABLE
    assert coding_of(((name, value), ("content-encoding", "gzip"))) is ContentCoding.UNREADABLE


@pytest.mark.parametrize("value", ["", "identity", "Identity", " identity\t"])
def test_identity_is_no_coding(value: str) -> None:
    fields = (("content-encoding", value), ("grpc-encoding", value), ("vary", "gzip"))
    assert coding_of(fields) is ContentCoding.PLAIN
    assert coding_of((("content-type", "application/json; charset=UTF-8"),)) is ContentCoding.PLAIN


@pytest.mark.parametrize("other", ["identity", "", "gzip", "br"])
def test_two_fields_are_a_list_and_a_list_is_not_read(other: str) -> None:
    assert coding_of((("content-encoding", other), ("content-encoding", "gzip"))) is ContentCoding.UNREADABLE
    assert coding_of((("content-encoding", "gzip"), ("content-encoding", other))) is ContentCoding.UNREADABLE


def test_a_readable_body_does_not_excuse_coded_messages() -> None:
    fields = (("content-encoding", "gzip"), ("grpc-encoding", "gzip"))
    assert coding_of(fields) is ContentCoding.UNREADABLE
