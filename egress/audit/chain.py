"""The chain of MACs: every line vouches for all the lines before it.

A line is `{"seq":N,"time":"…",…,"mac":"<64 hex digits>"}` and a line end. Its MAC is
HMAC-SHA256(key, MAC of the line before ‖ content), where the content is every byte in front of
`,"mac":"`. The MAC stands at a fixed distance from the line's end, so that who checks a line works on
the bytes as they are and never has to write JSON again. Before the first line stand 32 zero bytes.

One key is given; each use has a key of its own derived from it, so that a head can never pass for a
line. Nothing here touches a file.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass

ZERO_MAC = bytes(32)
MARK = b',"mac":"'
END = b'"}'
TAIL = len(MARK) + 64 + len(END)
"""How many bytes at the end of a line, its line end left out, are not content."""
MAX_LINE_BYTES = 256 * 1024
"""No line of ours is nearly as long; whatever is, was not written by us."""

_MAC = re.compile(rb"[0-9a-f]{64}")
_SEQ = re.compile(rb'\{"seq":([1-9][0-9]{0,17}),')


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys of a log, one for each use. Their text never shows them."""

    line: bytes
    head: bytes
    anchor: bytes
    register: bytes

    @classmethod
    def of(cls, key: bytes) -> Keys:
        """Derive them from the key of the log, which has 32 bytes."""
        if len(key) != 32:
            raise ValueError("the key of an audit log has 32 bytes")
        # Derived, so that the MAC of a head or an anchor is never the MAC of a line.
        return cls(*(hmac.digest(key, b"egress audit " + use, "sha256") for use in USES))

    def __repr__(self) -> str:
        return "Keys(...)"


USES = (b"line", b"head", b"anchor", b"register")


class Chain:
    """The newest line's number and MAC, and how the next line is made."""

    __slots__ = ("_empty", "mac", "seq")

    def __init__(self, key: bytes, seq: int = 0, mac: bytes = ZERO_MAC) -> None:
        # Copying a keyed state is a third faster than keying one for every line.
        self._empty = hmac.new(key, digestmod=hashlib.sha256)
        self.seq = seq
        self.mac = mac

    def seal(self, stamp: str, body: str) -> bytes:
        """The next line, with its line end."""
        self.seq += 1
        content = f'{{"seq":{self.seq},"time":"{stamp}",{body}'.encode()
        state = self._empty.copy()
        state.update(self.mac + content)
        self.mac = state.digest()
        return content + f',"mac":"{self.mac.hex()}"}}\n'.encode()

    def mac_for(self, previous: bytes, content: bytes) -> bytes:
        """The MAC that a line with this content has behind one with that MAC."""
        state = self._empty.copy()
        state.update(previous + content)
        return state.digest()


@dataclass(frozen=True, slots=True)
class ParsedLine:
    """A line taken apart; nothing about it is proven."""

    seq: int
    content: bytes
    mac: bytes


def parse_line(line: bytes) -> ParsedLine | None:
    """Take a line without its line end apart; None for what does not have the form of one."""
    content = line[:-TAIL]
    number, mac = _SEQ.match(content), mac_in(line[-TAIL:])
    return None if number is None or mac is None else ParsedLine(int(number[1]), content, mac)


def mac_in(tail: bytes) -> bytes | None:
    """The MAC in the last bytes of a line without its line end."""
    digits = tail[len(MARK) : len(MARK) + 64]
    if not tail.startswith(MARK) or not tail.endswith(END) or not _MAC.fullmatch(digits):
        return None
    return bytes.fromhex(digits.decode("ascii"))


def is_authentic(chain: Chain, previous: bytes, line: ParsedLine) -> bool:
    """True if the line was made with the key, behind a line with that MAC."""
    # In constant time: the line may come from somebody who wants to forge one.
    return hmac.compare_digest(chain.mac_for(previous, line.content), line.mac)
