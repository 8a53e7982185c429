"""Trailers are read like a head and can do nothing a head does."""

from __future__ import annotations

import pytest

from egress.errors import WireError
from egress.http1.fields import FORBIDDEN_FIELDS, is_forbidden, read_trailers


def test_reads_trailers() -> None:
    block = b"X-Checksum: abc \r\nServer-Timing: a\r\n\r\n"
    for of_request in (True, False):
        assert read_trailers(block, 10, of_request=of_request) == (
            ("x-checksum", "abc"),
            ("server-timing", "a"),
        )


@pytest.mark.parametrize("name", [*sorted(FORBIDDEN_FIELDS), "proxy-authorization", "proxy-x"])
def test_a_field_of_the_head_is_refused_from_clients_and_dropped_from_servers(name: str) -> None:
    block = f"X-A: 1\r\n{name.title()}: x\r\nX-B: 2\r\n\r\n".encode()
    assert is_forbidden(name)
    with pytest.raises(WireError):
        read_trailers(block, 10, of_request=True)
    if "-" in name or name.isalnum():
        assert read_trailers(block, 10, of_request=False) == (("x-a", "1"), ("x-b", "2"))


FRAMES = "connection content-length host keep-alive te trailer transfer-encoding upgrade http2-settings"
ASKS = (
    "cache-control expect if-match if-modified-since if-none-match if-range if-unmodified-since max-forwards"
)
KNOWS = "authentication-info authorization cookie proxy-connection set-cookie set-cookie2 www-authenticate"
TELLS = (
    "content-disposition content-encoding content-location content-range content-type location pragma range"
)


@pytest.mark.parametrize("name", f"{FRAMES} {ASKS} {KNOWS} {TELLS}".split())
def test_the_dangerous_ones_are_on_the_list(name: str) -> None:
    assert is_forbidden(name)


@pytest.mark.parametrize(
    "block",
    [b"A : b\r\n\r\n", b" A: b\r\n\r\n", b"A: \x00\r\n\r\n", b"A\r\n\r\n", b"content_length: 5\r\n\r\n"],
)
def test_trailers_are_read_as_strictly_as_a_head(block: bytes) -> None:
    with pytest.raises(WireError):
        read_trailers(block, 10, of_request=False)


def test_bounds_the_number_of_trailers() -> None:
    with pytest.raises(WireError):
        read_trailers(b"A: b\r\n" * 3 + b"\r\n", 2, of_request=False)
