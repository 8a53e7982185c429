"""A server sends back what it was sent: S-07, S-08 and S-09 as far as bytes decide them.

The positive control of each class: the same answer without the secret passes unchanged.
"""

from __future__ import annotations

import base64
import gzip
import json
import zlib

import pytest

from egress.scrub import Needles, Scrubber
from egress.types import Secret

VALUE = b"ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6"
TOKEN = Secret("github", VALUE)

ECHOES = {
    "plain": VALUE,
    "bearer line": b"authorization: Bearer " + VALUE + b"\r\n",
    "json echo": json.dumps({"headers": {"Authorization": f"Bearer {VALUE.decode()}"}}).encode(),
    "basic": b"Basic " + base64.b64encode(b"x-access-token:" + VALUE),
    "basic, other user": b"Basic " + base64.b64encode(b"me:" + VALUE),
    "urlsafe base64": base64.urlsafe_b64encode(b"?" + VALUE),
    "upper case": VALUE.upper(),
    "lower case": VALUE.lower(),
    "hexadecimal": VALUE.hex().encode(),
    "percent": b"".join(b"%%%02X" % byte for byte in VALUE),
    "unicode escapes": b"".join(b"\\u%04x" % byte for byte in VALUE),
    "twice": VALUE + VALUE,
    "after a false start": VALUE[:20] + VALUE,
}


def scrub(chunks: list[bytes]) -> tuple[bytes, int]:
    scrubber = Scrubber(Needles.of([TOKEN]))
    out = b"".join(piece for chunk in chunks for piece in scrubber.feed(chunk))
    return out + b"".join(scrubber.finish()), scrubber.hits


def leaks(out: bytes) -> bool:
    """Whether 24 characters in a row of any spelling of the secret are left."""
    return any(
        needle[at : at + 24] in out for needle in Needles.of([TOKEN]) for at in range(len(needle) - 23)
    )


@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
@pytest.mark.parametrize("size", [1, 2, 7, 16, 65536])
def test_no_echo_in_a_body_gets_through_in_any_chunks(echo: bytes, size: int) -> None:
    """S-07, and its split into chunks."""
    body = b'{"ok": true, "echo": "' + echo + b'"}'
    out, hits = scrub([body[at : at + size] for at in range(0, len(body), size)])
    assert hits
    assert len(out) == len(body)
    assert not leaks(out)


def test_the_leak_check_itself_sees_a_leak() -> None:
    """The control of `leaks`: the greater part of a token in the clear counts."""
    assert leaks(b"x" + VALUE[8:34] + b"x")


def test_a_body_without_the_secret_passes_unchanged() -> None:
    """Positive control of S-07."""
    body = b'{"ok": true, "echo": "ghp_ and authorization: Bearer ***"}'
    assert scrub([body]) == (body, 0)


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress], ids=["gzip", "deflate"])
def test_a_compressed_body_hides_the_secret_so_it_must_be_decoded_first(pack: object) -> None:
    """S-08: scrubbing works on decoded bytes; encoded ones are for the caller to decode or withhold."""
    assert callable(pack)
    packed = pack(b"incompressible prefix 93fh2 " + VALUE)
    assert scrub([packed])[1] == 0
    decoded = zlib.decompress(packed, wbits=zlib.MAX_WBITS | 32)
    out, hits = scrub([decoded])
    assert hits == 1
    assert not leaks(out)


@pytest.mark.parametrize("where", ["{}", "sid={}; Path=/", "https://a.example/?t={}", "x-{}"])
@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
def test_no_echo_in_a_head_gets_through(where: str, echo: bytes) -> None:
    """S-09: a value, a cookie, a location, a header name and a reason phrase are text of latin-1."""
    text = where.format(echo.decode())
    masked = Needles.of([TOKEN]).mask_text(text)
    assert masked.hits
    assert len(masked.text) == len(text)
    assert not leaks(masked.text.encode("latin-1"))


def test_a_head_without_the_secret_passes_unchanged() -> None:
    """Positive control of S-09."""
    masked = Needles.of([TOKEN]).mask_text("https://a.example/?t=placeholder")
    assert (masked.text, masked.hits) == ("https://a.example/?t=placeholder", 0)


@pytest.mark.parametrize(
    "echo",
    [VALUE[::-1], base64.b64encode(base64.b64encode(VALUE)), VALUE[:18] + b"\n" + VALUE[18:]],
    ids=["reversed", "base64 twice", "broken in two"],
)
def test_the_stated_limits_are_real(echo: bytes) -> None:
    """What the documentation says is not found is not found: when this fails, shorten that list."""
    assert scrub([echo]) == (echo, 0)
