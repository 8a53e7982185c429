"""Which body follows a head: one reading, or a refusal."""

from __future__ import annotations

import pytest

from egress.errors import WireError
from egress.http1 import CHUNKED, NO_BODY, UNTIL_CLOSE, Framing
from egress.http1.fields import read_length
from egress.http1.heads import has_no_body, response_framing, stated_framing

BOTH = {"content-length": "5", "transfer-encoding": "chunked"}


@pytest.mark.parametrize(
    ("fields", "framing"),
    [
        ({}, NO_BODY),
        ({"content-length": "0"}, Framing.sized(0)),
        ({"content-length": "9" * 18}, Framing.sized(10**18 - 1)),
        ({"transfer-encoding": "chunked"}, CHUNKED),
        ({"transfer-encoding": "CHUNKED"}, CHUNKED),
    ],
)
def test_reads_what_a_head_states(fields: dict[str, str], framing: Framing) -> None:
    assert stated_framing(fields, "1.1") == framing


@pytest.mark.parametrize(
    "text", ["", "+5", "-5", "5,5", "5, 5", "05", "0x5", "5.0", "5 5", "٥", "²", "1" * 19, "1_0", "5\x0b"]
)
def test_refuses_a_length_that_is_no_plain_number(text: str) -> None:
    with pytest.raises(WireError):
        read_length(text)


@pytest.mark.parametrize(
    "coding",
    [
        "",
        "gzip",
        "identity",
        "gzip, chunked",
        "chunked, chunked",
        "chunked,",
        "chunked;q=1",
        "xchunked",
        "chunked\x80",
        "\u212a",
    ],
)
def test_refuses_every_coding_but_chunked(coding: str) -> None:
    with pytest.raises(WireError) as refusal:
        stated_framing({"transfer-encoding": coding}, "1.1")
    assert refusal.value.status == 501


def test_refuses_length_and_coding_together() -> None:
    with pytest.raises(WireError, match="both"):
        stated_framing(BOTH, "1.1")


def test_refuses_a_coding_in_http_1_0() -> None:
    with pytest.raises(WireError):
        stated_framing({"transfer-encoding": "chunked"}, "1.0")


@pytest.mark.parametrize(
    ("method", "status", "bodiless"),
    [
        ("GET", 200, False),
        ("GET", 205, False),
        ("GET", 206, False),
        ("GET", 204, True),
        ("GET", 304, True),
        ("GET", 101, True),
        ("GET", 199, True),
        ("HEAD", 200, True),
        ("HEAD", 404, True),
        ("CONNECT", 200, True),
        ("CONNECT", 299, True),
        ("CONNECT", 300, False),
        ("CONNECT", 302, False),
        ("CONNECT", 407, False),
    ],
)
def test_knows_the_responses_that_end_with_their_head(method: str, status: int, bodiless: bool) -> None:
    assert has_no_body(method, status) is bodiless
    expected = NO_BODY if bodiless else UNTIL_CLOSE
    assert response_framing({}, "1.1", method, status) is expected


@pytest.mark.parametrize("status", [200, 205, 404])
def test_a_response_with_a_body_is_framed_by_its_fields(status: int) -> None:
    assert response_framing({"content-length": "5"}, "1.1", "GET", status) == Framing.sized(5)
    assert response_framing({"transfer-encoding": "chunked"}, "1.1", "GET", status) == CHUNKED


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 304)])
def test_what_a_response_to_head_states_is_not_sent(method: str, status: int) -> None:
    assert response_framing({"content-length": "5"}, "1.1", method, status) is NO_BODY
    assert response_framing({"transfer-encoding": "chunked"}, "1.1", method, status) is NO_BODY
    with pytest.raises(WireError):
        response_framing(BOTH, "1.1", method, status)


@pytest.mark.parametrize("status", [100, 103, 101, 199, 204])
def test_a_stated_body_where_none_can_be_is_refused_unless_it_is_empty(status: int) -> None:
    assert response_framing({"content-length": "0"}, "1.1", "GET", status) is NO_BODY
    for fields in ({"content-length": "5"}, {"transfer-encoding": "chunked"}):
        with pytest.raises(WireError):
            response_framing(fields, "1.1", "GET", status)
