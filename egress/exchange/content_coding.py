"""Bodies that a search for secrets cannot read as they come: coded contents and gRPC messages. Pure.

A compressed body hides the secret that it returns. A response that will be searched is asked for as
plain contents (`request.asking_for_plain`). If the upstream codes it all the same, a single plain
compression of the whole body is decoded here, piece by piece; any other coding is not passed on.
Contents that are coded without being declared cannot be recognised: that is a stated limit. This
module must not guess a coding, and must not keep what it has returned.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Final, Protocol

import brotli  # type: ignore[import-untyped]  # compiled, and without stubs
import zstandard

from egress.errors import EgressError, WireError
from egress.shares.pool import OPEN_ACCOUNT, MemoryAccount, Resource


class ContentCoding(Enum):
    """How the contents of a response are coded."""

    PLAIN = "identity"
    GZIP = "gzip"
    DEFLATE = "deflate"
    BROTLI = "br"
    ZSTD = "zstd"
    UNREADABLE = ""
    """In a way that is not decoded: stacked, unknown, of single messages, or of the characters."""


# A body is a row of *members*: gzip and zstd may have many, the other codings have one. Each library is
# asked for a small piece at a time, so memory does not grow with the decoded length. Three bounds hold,
# and a body beyond one of them is a bomb:
#
# - a call returns at most `MAX_WINDOW_OUTPUT_BYTES`, or `MAX_PIECES_PER_CHUNK` times its input;
# - behind the first `FREE_BYTES` a body may be `MAX_RATIO` times as long as it came;
# - a window is at most 4 MiB: an upstream that ignores what we ask for could take 16 MiB for each response.
#
# A member counts as `MEMBER_COST_BYTES` bytes on top of its contents: an empty member makes work too.
# Bytes behind the end, an end too early, a preset dictionary and any fault of the coding raise.
PIECE_BYTES: Final = 64 << 10
MAX_WINDOW_OUTPUT_BYTES: Final = 8 << 20
MAX_PIECES_PER_CHUNK: Final = 128
FREE_BYTES: Final = 1 << 20
MAX_RATIO: Final = 500
MEMBER_COST_BYTES: Final = 16 << 10

MAX_WINDOW_BYTES: Final = 4 << 20
_INFLATE_WINDOW_BYTES: Final = 32 << 10
_TABLE_BYTES: Final = 512 << 10
"""Memory that a decoder needs beside its window, at most."""
_MAX_ZSTD_HEAD_BYTES: Final = 18
# A block of zstd takes four bytes at least and gives 128 KiB at most; its library has no other bound.
_SLICE_BYTES: Final = 128


class CodingError(EgressError):
    """The contents are not what their coding says."""

    code = "upstream.malformed"


class BombError(CodingError):
    """The contents grow beyond reason when they are decoded."""

    code = "response.withheld"


class MemoryShortError(CodingError):
    """There is no memory left for another decoder of this sandbox."""

    code = "limit.memory"


class Decoder:
    """The decoding of one body; not to be shared between bodies."""

    __slots__ = ("_account", "_begin", "_came", "_made", "_member", "_memory")

    def __init__(self, coding: ContentCoding, account: MemoryAccount = OPEN_ACCOUNT) -> None:
        """The memory that a window needs is taken of `account`, until `close`."""
        self._begin = _DECODERS[coding]
        self._account = account
        self._member: _Member | None = None
        self._came = 0
        self._made = 0
        self._memory = 0
        """Bytes that were taken."""

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

    def close(self) -> None:
        """Give the memory back; nothing may come after it."""
        self._account.give(Resource.DECODERS, self._memory)
        self._memory = 0
        self._member = None

    def _next(self) -> _Member:
        """The member that the next byte belongs to."""
        member = self._member
        if member is not None and not member.is_finished:
            return member
        if member is not None and not member.may_be_followed:
            raise CodingError("Bytes follow the end of the contents of the response.")
        self._made += MEMBER_COST_BYTES
        self._member = member = self._begin(self._reserve)
        return member

    def _reserve(self, window: int) -> None:
        """Take what a window needs, and what comes with it."""
        # One member follows the other, in the same memory.
        if window > MAX_WINDOW_BYTES:
            raise BombError("The window of the contents of the response is too large.")
        more = window + _TABLE_BYTES - self._memory
        if more > 0:
            if not self._account.take(Resource.DECODERS, more):
                raise MemoryShortError("There is no memory left to decode the response.")
            self._memory += more

    def _check(self, most: int) -> None:
        if self._made > most or self._made > max(FREE_BYTES, MAX_RATIO * self._came):
            raise BombError("The contents of the response grow beyond reason.")


# The codings ----------------------------------------------------------------------------------


_Reserve = Callable[[int], None]
"""Takes memory for a window of this size, or raises `CodingError`."""


class _Member(Protocol):
    """A compressed stream, from its header to its end."""

    may_be_followed: bool

    @property
    def is_finished(self) -> bool: ...

    @property
    def unused(self) -> bytes:
        """Bytes that came behind the end."""
        ...

    def feed(self, data: bytes) -> Iterator[bytes]: ...


class _Inflate:
    """Formats of zlib: gzip, and deflate with or without its own frame."""

    may_be_followed = False

    def __init__(self, bits: int, reserve: _Reserve) -> None:
        reserve(_INFLATE_WINDOW_BYTES)
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

    def __init__(self, reserve: _Reserve) -> None:
        super().__init__(zlib.MAX_WBITS | 16, reserve)


class _Deflate:
    """Deflate is a zlib stream by the standard; some servers send a bare deflate stream instead."""

    may_be_followed = False

    def __init__(self, reserve: _Reserve) -> None:
        self._reserve = reserve
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
            self._inflate = _Inflate(zlib.MAX_WBITS if _is_zlib(data) else -zlib.MAX_WBITS, self._reserve)
        return self._inflate.feed(data)


class _Brotli:
    may_be_followed = False
    unused = b""
    """Always empty: the library itself refuses bytes behind the end that come with it."""

    def __init__(self, reserve: _Reserve) -> None:
        self._stream = brotli.Decompressor()
        self._reserve = reserve
        self._is_begun = False

    @property
    def is_finished(self) -> bool:
        return bool(self._stream.is_finished())

    def feed(self, data: bytes) -> Iterator[bytes]:
        if data and not self._is_begun:
            self._is_begun = True
            self._reserve(_brotli_window(data[0]))
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

    def __init__(self, reserve: _Reserve) -> None:
        self._ahead = b""
        self._is_begun = False
        self._reserve = reserve
        self._stream = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).decompressobj()
        self.unused = b""

    @property
    def is_finished(self) -> bool:
        return self._stream.eof

    def feed(self, data: bytes) -> Iterator[bytes]:
        if not self._is_begun:
            data = self._ahead + data
            window = _zstd_window(data)
            if window is None:
                self._ahead = data
                return
            self._reserve(window)
            self._is_begun = True
        for begin in range(0, len(data), _SLICE_BYTES):
            end = begin + _SLICE_BYTES
            piece = self._stream.decompress(data[begin:end])
            if piece:
                yield piece
            if self._stream.eof:
                self.unused = self._stream.unused_data + data[end:]
                return


def _brotli_window(byte: int) -> int:
    """Return the size of the window that the first byte of a brotli stream states (RFC 7932, 9.1)."""
    if not byte & 1:
        return 1 << 16
    if byte >> 1 & 7:
        return 1 << (17 + (byte >> 1 & 7))
    # Where these three bits are 1 the stream is not of the standard, and the library refuses it.
    return 1 << (8 + (byte >> 4 & 7 or 9))


def _zstd_window(data: bytes) -> int | None:
    """Return the size of the window that the head of a zstd frame states; None while it is not whole."""
    try:
        return zstandard.get_frame_parameters(data).window_size
    except zstandard.ZstdError:
        if len(data) < _MAX_ZSTD_HEAD_BYTES:
            return None
        raise


def _is_zlib(data: bytes) -> bool:
    """Tell whether these bytes begin with a zlib header. No encoder writes a bare stream that does."""
    return data[0] & 0x0F == 8 and data[0] >> 4 <= 7 and (data[0] << 8 | data[1]) % 31 == 0


_DECODER_ERRORS: Final[tuple[type[Exception], ...]] = (zlib.error, brotli.error, zstandard.ZstdError)
_DECODERS: Final[Mapping[ContentCoding, Callable[[_Reserve], _Member]]] = {
    ContentCoding.GZIP: _Gzip,
    ContentCoding.DEFLATE: _Deflate,
    ContentCoding.BROTLI: _Brotli,
    ContentCoding.ZSTD: _Zstd,
}


# The search for secrets holds back the end of the bytes so far if a secret may begin there, and releases it
# with the bytes that follow. In a gRPC conversation no bytes may follow: the client waits for the end of a
# message before it sends, and the upstream waits for the client. So the held bytes go out at the end of each
# message, which is framed as a byte 0, four bytes of length, and that many bytes.
#
# No secret can reach over such an end: the next byte is 0, and a value holds no control characters. Any other
# byte there is an error. A 1 would mean a compressed message: we asked for none, no head has announced it,
# and it cannot be searched.
_HEAD_BYTES: Final = 5


class GrpcMessages:
    """The messages of one response, as its bytes come in."""

    __slots__ = ("_head", "_left")

    def __init__(self) -> None:
        self._head = bytearray()
        self._left = 0
        """Bytes of the message that are still to come."""

    def split(self, data: bytes) -> Iterator[tuple[bytes, bool]]:
        """Give out the bytes in pieces, each with whether a message ends there.

        To be run to its end before the next call. Raises WireError for what is no message.
        """
        start = at = 0
        while at < len(data):
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
            else:
                step = min(_HEAD_BYTES - len(self._head), len(data) - at)
                self._read(data[at : at + step])
            at += step
            if not self._left and not self._head:
                yield data[start:at], True
                start = at
        if at > start:
            yield data[start:at], False

    def _read(self, part: bytes) -> None:
        """Take a part of the five bytes before a message."""
        self._head += part
        if self._head[0]:
            raise WireError("A gRPC message begins with something else than 0.")
        if len(self._head) == _HEAD_BYTES:
            self._left = int.from_bytes(self._head[1:], "big")
            self._head.clear()
