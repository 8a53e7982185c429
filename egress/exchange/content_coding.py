"""Contents that a search for secrets cannot read: not asked for, and recognised when they come.

A compressed body shows nothing of a secret that it returns. Where a response is going to be
searched, the upstream is asked for plain contents, in every dialect in which a client can ask for
others. From an upstream that codes them all the same, one plain compression of the whole body is
decoded (`decode`); anything else is not passed on. What is coded without being declared cannot be
recognised; that is a stated limit.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Final, Protocol

import brotli  # type: ignore[import-untyped]  # compiled, and without stubs
import zstandard

from egress.errors import EgressError
from egress.types import Headers


class ContentCoding(Enum):
    """How the contents of a response are coded."""

    PLAIN = "identity"
    GZIP = "gzip"
    DEFLATE = "deflate"
    BROTLI = "br"
    ZSTD = "zstd"
    UNREADABLE = ""
    """In a way that is not decoded: stacked, unknown, of single messages, or of the characters."""


ACCEPT_FIELDS = frozenset(
    {
        "accept-encoding",
        "grpc-accept-encoding",
        "connect-accept-encoding",
        "accept-charset",
        "a-im",  # differences against an older version, and compression by another name
        "sec-websocket-extensions",  # permessage-deflate
    }
)
_PLAIN_FIELD = ("accept-encoding", "identity")
_CODING_FIELDS = frozenset(
    {"content-encoding", "grpc-encoding", "connect-content-encoding", "im", "sec-websocket-extensions"}
)
_PLAIN_CODINGS = frozenset({"", "identity"})
_DECODABLE_CODINGS: Final = {
    "gzip": ContentCoding.GZIP,
    "x-gzip": ContentCoding.GZIP,
    "deflate": ContentCoding.DEFLATE,
    "br": ContentCoding.BROTLI,
    "zstd": ContentCoding.ZSTD,
}
_USUAL_TYPE_PATTERN = re.compile(r"[a-z0-9.+-]++/[a-z0-9.+-]++(?:; ?charset=utf-8)?+", re.IGNORECASE)
_CHARSET_PATTERN = re.compile(r"charset\s*=\s*[\"']?\s*([^\s\"';,]*)", re.IGNORECASE)
_READABLE_CHARSETS = frozenset(
    {"", "utf-8", "utf8", "us-ascii", "ascii", "big5", "gb2312", "gbk", "shift_jis", "euc-jp", "euc-kr"}
)
_CHARSET_FAMILY = re.compile(
    r"(?:iso-8859-|iso8859-|latin-?|windows-125|cp125|koi8-)[0-9a-z]{1,2}", re.IGNORECASE
)


def asking_for_plain(headers: Headers) -> Headers:
    """The fields with a request for plain contents."""
    return (*[field for field in headers if field[0] not in ACCEPT_FIELDS], _PLAIN_FIELD)


def coding_of(headers: Headers) -> ContentCoding:
    """What a response says of how its contents, messages or frames are coded."""
    codings: list[tuple[str, str]] = []
    for name, value in headers:
        if name == "content-type":
            if not _is_readable(value):
                return ContentCoding.UNREADABLE
        elif name in _CODING_FIELDS:
            codings.append((name, value.strip(" \t").lower()))
    coded = [each for each in codings if each[1] not in _PLAIN_CODINGS]
    if not coded:
        return ContentCoding.PLAIN
    of_body = [coding for name, coding in codings if name == "content-encoding"]
    # Two fields are a list, even where one of them says nothing.
    if len(coded) > 1 or len(of_body) != 1 or coded[0][0] != "content-encoding":
        return ContentCoding.UNREADABLE
    return _DECODABLE_CODINGS.get(of_body[0], ContentCoding.UNREADABLE)


def _is_readable(content_type: str) -> bool:
    """Whether its charset, if it names one, writes ASCII as ASCII: a secret is searched for as such."""
    if _USUAL_TYPE_PATTERN.fullmatch(content_type) is not None:
        return True
    charsets = _CHARSET_PATTERN.findall(content_type)
    return all(
        charset.lower() in _READABLE_CHARSETS or _CHARSET_FAMILY.fullmatch(charset) for charset in charsets
    )


# Decode the contents of a response piece by piece, and stop before they grow beyond reason. Pure.
#
# Theory of operation. A body is a row of *members*: gzip and zstd may have many, the others have one.
# Each library is asked for a small piece at a time, so what is in memory does not depend on what the
# body decodes to. Three bounds hold, and a body beyond one of them is a bomb:
#
# - one call hands out at most `MAX_WINDOW_OUTPUT_BYTES`, or `MAX_PIECES_PER_CHUNK` times what it was given;
# - behind the first `FREE` bytes a body may be `MAX_RATIO` times as long as it came;
# - a window is at most 8 MiB for zstd (RFC 9659), 16 MiB for br, 32 KiB for the others.
#
# A member counts as `MEMBER_COST_BYTES` bytes on top of what it holds: an empty one makes work too.
#
# Nothing is lenient. Bytes behind the end, an end too early, a preset dictionary and any fault of the
# coding raise. Must not guess a coding, and must not keep what it has handed out.
PIECE_BYTES: Final = 64 << 10
MAX_WINDOW_OUTPUT_BYTES: Final = 8 << 20
MAX_PIECES_PER_CHUNK: Final = 128
FREE_BYTES: Final = 1 << 20
MAX_RATIO: Final = 500
MEMBER_COST_BYTES: Final = 16 << 10

_MAX_WINDOW_BYTES: Final = 8 << 20
# A block of zstd takes four bytes at least and gives 128 KiB at most; its library has no other bound.
_SLICE_BYTES: Final = 128


class CodingError(EgressError):
    """The contents are not what their coding says."""

    code = "upstream.malformed"


class BombError(CodingError):
    """The contents grow beyond reason when they are decoded."""

    code = "response.withheld"


class Decoder:
    """The decoding of one body; not to be shared between bodies."""

    __slots__ = ("_begin", "_came", "_is_begun", "_made", "_member")

    def __init__(self, coding: ContentCoding) -> None:
        self._begin = _DECODERS[coding]
        self._member: _Member | None = None
        self._is_begun = False
        self._came = 0
        self._made = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Take the next bytes and yield what they decode to, in small pieces, none of them empty.

        To be run to its end before the next call. Raises CodingError.
        """
        self._came += len(chunk)
        most = self._made + max(MAX_WINDOW_OUTPUT_BYTES, MAX_PIECES_PER_CHUNK * len(chunk))
        while chunk:
            member = self._next()
            self._check(most)
            try:
                for piece in member.feed(chunk):
                    self._made += len(piece)
                    self._check(most)
                    yield piece
            except _DECODER_ERRORS:
                # The cause would show bytes of the peer to whoever prints a traceback.
                raise CodingError("The contents of the response cannot be decoded.") from None
            chunk = member.unused if member.is_finished else b""

    def finish(self) -> None:
        """Check that the contents have ended where the body did. Raises CodingError."""
        if self._member is not None and not self._member.is_finished:
            raise CodingError("The contents of the response end too early.")

    def _next(self) -> _Member:
        """The member that the next byte belongs to."""
        member = self._member
        if member is not None and not member.is_finished:
            return member
        if member is not None and not member.may_be_followed:
            raise CodingError("Bytes follow the end of the contents of the response.")
        self._made += MEMBER_COST_BYTES
        self._member = member = self._begin()
        return member

    def _check(self, most: int) -> None:
        if self._made > most or self._made > max(FREE_BYTES, MAX_RATIO * self._came):
            raise BombError("The contents of the response grow beyond reason.")


# The codings ----------------------------------------------------------------------------------


class _Member(Protocol):
    """One compressed stream, from its header to its end."""

    may_be_followed: bool

    @property
    def is_finished(self) -> bool: ...

    @property
    def unused(self) -> bytes:
        """What came behind the end."""
        ...

    def feed(self, data: bytes) -> Iterator[bytes]: ...


class _Inflate:
    """What zlib reads: gzip, and deflate with or without its own frame."""

    may_be_followed = False

    def __init__(self, bits: int) -> None:
        self._stream = zlib.decompressobj(bits)

    @property
    def is_finished(self) -> bool:
        return self._stream.eof

    @property
    def unused(self) -> bytes:
        return self._stream.unused_data

    def feed(self, data: bytes) -> Iterator[bytes]:
        is_full = False
        # A full piece may leave output behind although all input was taken.
        while (data or is_full) and not self._stream.eof:
            piece = self._stream.decompress(data, PIECE_BYTES)
            data = self._stream.unconsumed_tail
            is_full = len(piece) >= PIECE_BYTES
            if piece:
                yield piece


class _Gzip(_Inflate):
    may_be_followed = True

    def __init__(self) -> None:
        super().__init__(zlib.MAX_WBITS | 16)


class _Deflate:
    """Two things go by this name: a zlib stream, as it should be, and a bare one, as some servers send."""

    may_be_followed = False

    def __init__(self) -> None:
        self._ahead = b""
        self._inflate: _Inflate | None = None

    @property
    def is_finished(self) -> bool:
        return self._inflate is not None and self._inflate.is_finished

    @property
    def unused(self) -> bytes:
        return self._inflate.unused if self._inflate is not None else b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._inflate is None:
            data = self._ahead + data
            if len(data) < 2:
                self._ahead = data
                return iter(())
            self._inflate = _Inflate(zlib.MAX_WBITS if _is_zlib(data) else -zlib.MAX_WBITS)
        return self._inflate.feed(data)


class _Brotli:
    may_be_followed = False
    unused = b""
    """Always empty: the library itself refuses bytes behind the end that come with it."""

    def __init__(self) -> None:
        self._stream = brotli.Decompressor()

    @property
    def is_finished(self) -> bool:
        return bool(self._stream.is_finished())

    def feed(self, data: bytes) -> Iterator[bytes]:
        is_drained = False
        while not is_drained:
            piece: bytes = self._stream.process(data, output_buffer_limit=PIECE_BYTES)
            data = b""
            # A full piece may leave output behind although all input was taken; see `_Inflate`.
            is_taken = bool(self._stream.can_accept_more_data()) and len(piece) < PIECE_BYTES
            is_drained = is_taken or self.is_finished
            if piece:
                yield piece


class _Zstd:
    may_be_followed = True

    def __init__(self) -> None:
        self._stream = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES).decompressobj()
        self.unused = b""

    @property
    def is_finished(self) -> bool:
        return self._stream.eof

    def feed(self, data: bytes) -> Iterator[bytes]:
        for begin in range(0, len(data), _SLICE_BYTES):
            end = begin + _SLICE_BYTES
            piece = self._stream.decompress(data[begin:end])
            if piece:
                yield piece
            if self._stream.eof:
                self.unused = self._stream.unused_data + data[end:]
                return


def _is_zlib(data: bytes) -> bool:
    """Whether these bytes begin with a zlib header. A bare stream never does where an encoder wrote it."""
    return data[0] & 0x0F == 8 and data[0] >> 4 <= 7 and (data[0] << 8 | data[1]) % 31 == 0


_DECODER_ERRORS: Final[tuple[type[Exception], ...]] = (zlib.error, brotli.error, zstandard.ZstdError)
_DECODERS: Final[Mapping[ContentCoding, Callable[[], _Member]]] = {
    ContentCoding.GZIP: _Gzip,
    ContentCoding.DEFLATE: _Deflate,
    ContentCoding.BROTLI: _Brotli,
    ContentCoding.ZSTD: _Zstd,
}
