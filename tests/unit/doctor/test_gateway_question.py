"""The answer of a gateway: only a yes with the own number is one."""

from __future__ import annotations

import pytest

from egress.doctor.gateway_question import _fault
from egress.http1 import ResponseHead, ResponseReader

AT = "10.96.0.92:3128"


def head(text: str) -> ResponseHead:
    reader = ResponseReader()
    reader.expect("POST")
    (found,) = [each for each in reader.feed(text.encode()) if isinstance(each, ResponseHead)]
    return found


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("204 No Content\r\negress-nonce: abc", ""),
        ("204 No Content", "no gateway of Egress"),
        ("204 No Content\r\negress-nonce: abd", "no gateway of Egress"),
        ("200 OK\r\negress-nonce: abc\r\ncontent-length: 0", "no gateway of Egress"),
        ("503 X\r\negress-denied: identity.mismatch\r\ncontent-length: 0", "says identity.mismatch: This"),
        ("400 X\r\negress-denied: proxy.form\r\ncontent-length: 0", "start it with --kubernetes"),
        ("503 X\r\negress-denied: made.up\r\ncontent-length: 0", "no gateway of Egress"),
    ],
)
def test_only_a_yes_with_the_own_number_is_one(text: str, fault: str) -> None:
    found = _fault(head(f"HTTP/1.1 {text}\r\n\r\n"), "abc", AT)
    assert (fault in found) if fault else not found


def test_nothing_that_is_http_is_no_gateway() -> None:
    assert _fault(None, "abc", AT) == f"what answers at {AT} is no gateway of Egress"
