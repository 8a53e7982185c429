"""A response is whole, and only a success has a type of its own."""

from __future__ import annotations

import pytest

from egress.proxy.control.text_exchange import encode_text


@pytest.mark.parametrize(("status", "kind"), [(200, "text/special"), (503, "text/plain; charset=utf-8")])
def test_a_text_says_its_type_and_its_length(status: int, kind: str) -> None:
    head, _, body = encode_text(status, "ä\n", "text/special").partition(b"\r\n\r\n")
    fields = head.decode().split("\r\n")
    assert fields[0].startswith(f"HTTP/1.1 {status} ")
    assert {f"content-type: {kind}", "content-length: 3", "connection: close"} <= set(fields)
    assert body.decode() == "ä\n"


def test_a_status_that_needs_a_field_has_it() -> None:
    assert b"www-authenticate: Bearer\r\n" in encode_text(401, "")
    assert b"allow: GET\r\n" in encode_text(405, "")
