"""What was gone over: whole lines alone, however the pieces of a file fall."""

from __future__ import annotations

from hashlib import sha256

from egress.audit.seen import Looking, Seen


def test_the_beginning_of_a_line_is_no_part_of_what_was_seen() -> None:
    looking = Looking()
    assert looking.seen(1) == Seen(1, 0, sha256().digest())
    for piece in (b"a\nb", b"c\n", b"d"):
        looking.add(piece)
    assert looking.seen(7) == Seen(7, 5, sha256(b"a\nbc\n").digest())
    looking.add(b"\n")
    assert looking.seen(7) == Seen(7, 7, sha256(b"a\nbc\nd\n").digest())
