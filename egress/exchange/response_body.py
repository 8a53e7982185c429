"""The body of a response on its way to the sandbox: decoded where it is coded, and searched. Pure.

A coded body may decode to a thousand times as much, so the work on a chunk of it can outlast a turn of the
event loop. Then the body is *behind*: what is left of the chunk goes on with `more`, and no other chunk may
come before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from egress.errors import WireError
from egress.exchange.content_coding import CodingError, ContentCoding, Decoder, GrpcMessages
from egress.exchange.messages import CutExchange
from egress.exchange.response import coding_of, must_withhold
from egress.inspect.inspector import AnswerError, AnswerReader
from egress.scrub import Needles, Scrubber
from egress.shares.pool import OPEN_ACCOUNT, MemoryAccount, Resource
from egress.shares.turns import Turn
from egress.types import Effects, Headers

Pieces = list[bytes] | CutExchange
_READ_BYTES: Final = 4 * 1024
"""Bytes that a reader takes in one step: each of them may be an event of its own."""


class ResponseBody:
    """One body, or the frames of one WebSocket."""

    __slots__ = (
        "_account",
        "_decoded_length",
        "_decoder",
        "_effects",
        "_found",
        "_grpc",
        "_headers",
        "_is_unreadable",
        "_kept",
        "_left",
        "_max_bytes",
        "_reader",
        "_scrubber",
    )

    def __init__(
        self, effects: Effects, found: Counter[str], headers: Headers, max_bytes: int | None
    ) -> None:
        """`headers` are those of the response, `max_bytes` the most that it may be decoded to."""
        self._effects = effects
        self._found = found
        self._headers = headers
        self._max_bytes = max_bytes
        self._scrubber: Scrubber | None = None
        self._decoder: Decoder | None = None
        self._grpc: GrpcMessages | None = None
        self._reader: AnswerReader | None = None
        self._account: MemoryAccount = OPEN_ACCOUNT
        self._kept = 0
        """Bytes that were taken for what the reader keeps."""
        self._decoded_length = 0
        self._is_unreadable = False
        self._left: Iterator[bytes] | None = None
        """What a chunk is still decoded to."""

    def decode(self, coding: ContentCoding, account: MemoryAccount) -> None:
        """Decode what comes, with memory of this account."""
        self._decoder = Decoder(coding, account)

    def read(self, reader: AnswerReader, account: MemoryAccount) -> None:
        """Let a reader see, and change, what comes, with memory of this account. It sees no coding."""
        self._reader, self._account = reader, account

    def split_messages(self) -> None:
        """Search what comes as messages of gRPC, none of which waits for the next one."""
        self._grpc = GrpcMessages()

    def search(self, needles: Needles) -> None:
        """Search what comes for these from now on."""
        if self._scrubber is not None:
            self._scrubber.update_needles(needles)
        else:
            self._scrubber = Scrubber(needles, self._found)

    def search_late(self, needles: Needles) -> None:
        """Search a body that may have gone unsearched so far: what came of it in a coding is lost to that."""
        if self._scrubber is None and coding_of(self._headers) is not ContentCoding.PLAIN:
            self._is_unreadable = True
        else:
            self.search(needles)

    @property
    def is_rewritten(self) -> bool:
        """The body is passed on as other bytes than it came in."""
        return self._decoder is not None or self._reader is not None

    @property
    def is_behind(self) -> bool:
        """A part of the last chunk is still to be decoded."""
        return self._left is not None

    def feed(self, chunk: bytes, turn: Turn) -> Pieces:
        """Take a chunk; return what may go out now. In a coding the rest may have to wait for `more`."""
        if self._decoder is not None:
            left = self._decoder.feed(chunk)
        elif self._grpc is not None:
            return self._framed(self._grpc, chunk)
        elif self._reader is not None:
            left = iter((chunk,))
        else:
            return self._searched(chunk)
        self._left = left if self._reader is None else _in_read_pieces(left)
        return self.more(turn)

    def more(self, turn: Turn) -> Pieces:
        """Go on with the last chunk; return what may go out now."""
        passed: list[bytes] = []
        left, self._left = self._left or iter(()), None
        try:
            for piece in left:
                self._decoded_length += len(piece)
                if self._max_bytes is not None and self._decoded_length > self._max_bytes:
                    return CutExchange("limit.response_body")
                pieces = self._read(piece)
                if isinstance(pieces, CutExchange):
                    return pieces
                passed += pieces
                if turn.is_over:
                    self._left = left
                    return passed
        except CodingError as fault:
            return CutExchange(fault.code)
        return passed

    def end_message(self) -> list[bytes]:
        """Return what was held back: nothing that follows belongs to it."""
        return [] if self._scrubber is None else self._scrubber.finish()

    def finish(self) -> Pieces:
        """Return what a reader kept until the end."""
        if self._reader is None:
            return []
        try:
            return self._search_all(self._reader.end())
        except AnswerError as error:
            return CutExchange(error.code)

    def close(self) -> None:
        """Give back the memory that decoding and reading took."""
        self._account.give(Resource.DECODERS, self._kept)
        self._kept = 0
        if self._decoder is not None:
            self._decoder.close()

    def check_end(self) -> str:
        """Return the code of a fault if a coded body ends too early, or nothing."""
        if self._decoder is not None:
            try:
                self._decoder.finish()
            except CodingError as fault:
                return fault.code
        return ""

    def _framed(self, messages: GrpcMessages, chunk: bytes) -> Pieces:
        """Search a piece of gRPC. The end of a message releases its held bytes."""
        passed: list[bytes] = []
        try:
            for piece, ends in messages.split(chunk):
                pieces = self._searched(piece)
                if isinstance(pieces, CutExchange):
                    return pieces
                passed += pieces
                if ends:
                    passed += self.end_message()
        except WireError:
            return CutExchange("upstream.malformed")
        return passed

    def _read(self, chunk: bytes) -> Pieces:
        """Let the reader see a piece, and search what it lets pass."""
        reader = self._reader
        if reader is None:
            return self._searched(chunk)
        try:
            pieces = self._search_all(reader.feed(chunk))
        except AnswerError as error:
            return CutExchange(error.code)
        more = reader.held - self._kept
        if more > 0 and not self._account.take(Resource.DECODERS, more):
            return CutExchange("limit.memory")
        if more < 0:
            self._account.give(Resource.DECODERS, -more)
        self._kept = reader.held
        return pieces

    def _search_all(self, read: list[bytes]) -> Pieces:
        passed: list[bytes] = []
        for piece in read:
            pieces = self._searched(piece)
            if isinstance(pieces, CutExchange):
                return pieces
            passed += pieces
        return passed

    def _searched(self, chunk: bytes) -> Pieces:
        if self._scrubber is None:
            if self._is_unreadable:
                return CutExchange("response.withheld")
            return [chunk] if chunk else []
        pieces = self._scrubber.feed(chunk)
        return CutExchange("response.withheld") if must_withhold(self._effects, self._found) else pieces


def _in_read_pieces(pieces: Iterable[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        for at in range(0, len(piece), _READ_BYTES):
            yield piece[at : at + _READ_BYTES]
