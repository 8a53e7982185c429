"""A server sends back what it was sent: S-07, S-08 and S-09 as far as bytes decide them.

The positive control of each class: the same answer without the secret passes unchanged.
"""

from __future__ import annotations

import base64
import gzip
import json
import zlib

import brotli  # type: ignore[import-untyped]  # compiled, and without stubs
import pytest

from egress.scrub import Needles, Scrubber
from egress.types import Secret
from tests.unit.exchange.sample import PACK, running, told
from tests.unit.exchange.sample import TOKEN as HELD

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


def packed_by_gzip(data: bytes) -> bytes:
    """Without the time that gzip notes by default: what a test is called must not change from run to run."""
    return gzip.compress(data, mtime=0)


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


SPLIT = [1, 5, 65536]


def answered(coding: str, packed: bytes, size: int) -> bytes | str:
    """What the sandbox gets of a coded body on a host with a secret, or the code of the cut."""
    chunks = [packed[at : at + size] for at in range(0, len(packed), size)]
    outcome = told(running(), chunks, ("content-encoding", coding))
    return outcome if isinstance(outcome, str) else outcome.body


@pytest.mark.parametrize("size", SPLIT)
@pytest.mark.parametrize("coding", PACK)
def test_a_compressed_body_does_not_hide_the_secret(coding: str, size: int) -> None:
    """S-08: it is decoded before it is searched."""
    packed = PACK[coding](f"incompressible prefix 93fh2 {HELD} and {HELD}".encode())
    assert scrub([packed])[1] == 0, "the secret must not stand in the clear, else this proves nothing"
    mask = "*" * len(HELD)
    assert answered(coding, packed, size) == f"incompressible prefix 93fh2 {mask} and {mask}".encode()


@pytest.mark.parametrize("size", SPLIT)
@pytest.mark.parametrize("coding", PACK)
def test_a_compressed_body_without_the_secret_arrives_whole(coding: str, size: int) -> None:
    """Positive control of S-08."""
    body = b"incompressible prefix 93fh2 and no secret"
    assert answered(coding, PACK[coding](body), size) == body


@pytest.mark.parametrize("size", SPLIT)
def test_a_secret_across_two_members_is_one_secret(size: int) -> None:
    """S-08: to a client the members of gzip are one body."""
    packed = packed_by_gzip(HELD[:9].encode()) + packed_by_gzip(HELD[9:].encode())
    assert answered("gzip", packed, size) == b"*" * len(HELD)


@pytest.mark.parametrize(
    ("said", "packed"),
    [
        ("gzip", packed_by_gzip(packed_by_gzip(HELD.encode()))),
        ("br", packed_by_gzip(HELD.encode())),
        ("deflate", packed_by_gzip(HELD.encode())),
        ("gzip", HELD.encode()),
        ("gzip", packed_by_gzip(b"") + HELD.encode()),
        ("br", bytes(brotli.compress(b"")) + HELD.encode()),
        ("deflate", zlib.compress(b"") + HELD.encode()),
        ("zstd", PACK["zstd"](b"") + HELD.encode()),
        ("gzip, identity", packed_by_gzip(HELD.encode())),
        ("identity, gzip", packed_by_gzip(HELD.encode())),
        ("gzip, br", packed_by_gzip(HELD.encode())),
        ("sdch", HELD.encode()),
    ],
)
@pytest.mark.parametrize("size", SPLIT)
def test_what_is_not_coded_as_it_says_does_not_carry_the_secret(said: str, packed: bytes, size: int) -> None:
    """S-08: no byte behind the end of the contents, and no coding but the one that is named."""
    outcome = answered(said, packed, size)
    # Twice coded goes out once decoded: what is in it is a body that nobody says is coded.
    assert outcome in ("upstream.malformed", "response.withheld", packed_by_gzip(HELD.encode()))


@pytest.mark.parametrize("coding", PACK)
def test_a_bomb_is_cut_before_it_fills_anything(coding: str) -> None:
    """S-08: 64 MiB of nothing; the good twin is half a MiB of it."""
    assert answered(coding, PACK[coding](bytes(64 << 20)), 65536) == "response.withheld"
    assert answered(coding, PACK[coding](bytes(1 << 19)), 65536) == bytes(1 << 19)


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
