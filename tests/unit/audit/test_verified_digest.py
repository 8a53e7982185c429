"""What was gone over: whole lines alone, however the pieces of a file fall."""

from __future__ import annotations

from hashlib import sha256

from egress.audit.verified_digest import ExtentDigest, VerifiedExtent


def test_the_beginning_of_a_line_is_no_part_of_what_was_seen() -> None:
    looking = ExtentDigest()
    assert looking.extent(1) == VerifiedExtent(1, 0, sha256().digest())
    for piece in (b"a\nb", b"c\n", b"d"):
        looking.add(piece)
    assert looking.extent(7) == VerifiedExtent(7, 5, sha256(b"a\nbc\n").digest())
    looking.add(b"\n")
    assert looking.extent(7) == VerifiedExtent(7, 7, sha256(b"a\nbc\nd\n").digest())
