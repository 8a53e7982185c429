"""The name server of the lab: says what a case wants to be true, and remembers what it was asked.

Answers have TTL 0. A name can have several addresses, another name (CNAME), or a row of answers of which each
question gets the next one. What nobody knows does not exist.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

A, CNAME, AAAA = 1, 5, 28
SERVFAIL, REFUSED = 2, 5
"""What `fail` may say instead of an answer."""
_KINDS: Final = {A: "A", AAAA: "AAAA", CNAME: "CNAME", 16: "TXT", 65: "HTTPS"}
_ANSWER, _AUTHORITATIVE, _NO_SUCH_NAME = 0x8000, 0x0400, 3

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Question:
    name: str
    kind: str
    source: str
    """The address it came from, which tells the room."""


class NameServer(asyncio.DatagramProtocol):
    """Serves UDP as a protocol of asyncio, and TCP by `talk`."""

    def __init__(self) -> None:
        self.asked: list[Question] = []
        self._rows: dict[str, list[tuple[str, ...]]] = {}
        self._given: dict[tuple[str, int], int] = {}
        self._failing: dict[str, int] = {}
        self._held: dict[str, list[tuple[bytes, Place]]] = {}

    def set(self, name: str, *addresses: str) -> None:
        """This name has these addresses, or is another name; `*.name` is for all below it."""
        self._rows[name.lower()] = [addresses]

    def set_row(self, name: str, *answers: Sequence[str]) -> None:
        """One answer for each time it is asked, of each kind; after the last one it begins anew."""
        self._rows[name.lower()] = [tuple(answer) for answer in answers]
        self._given = {key: count for key, count in self._given.items() if key[0] != name.lower()}

    def forget(self, name: str) -> None:
        self._rows.pop(name.lower(), None)

    def fail(self, name: str, code: int) -> None:
        """Every question for this name gets this code, and nothing else."""
        self._failing[name.lower()] = code

    def hold(self, *names: str) -> None:
        """Say nothing about these names, asked by UDP, until they are released."""
        self._held |= {name.lower(): [] for name in names}

    def held(self, name: str) -> int:
        """How many questions for a name wait for their answer."""
        return len(self._held.get(name.lower(), ()))

    def release(self, *names: str) -> None:
        """Answer what has been asked meanwhile. To be called on the loop that serves."""
        for name in names:
            for data, place in self._held.pop(name.lower(), ()):
                self.datagram_received(data, place)

    # Serving

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Place) -> None:
        if (held := self._held.get(_name_in(data))) is not None:
            held.append((data, addr))
        elif (reply := self.answer(data, addr[0])) and isinstance(self._transport, asyncio.DatagramTransport):
            self._transport.sendto(reply, addr)

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        source = writer.get_extra_info("peername")[0]
        try:
            while True:
                (length,) = struct.unpack("!H", await reader.readexactly(2))
                reply = self.answer(await reader.readexactly(length), source)
                writer.write(struct.pack("!H", len(reply)) + reply)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def answer(self, data: bytes, source: str) -> bytes:
        """The reply to one message; b"" for what is none."""
        try:
            number, _, count = struct.unpack_from("!HHH", data)
            name, end = _read_name(data, 12)
            kind, _ = struct.unpack_from("!HH", data, end)
        except (struct.error, IndexError, UnicodeDecodeError):
            return b""
        self.asked.append(Question(name, _KINDS.get(kind, str(kind)), source))
        question = data[12 : end + 4] if count else b""
        records: list[bytes] = []
        if (code := self._failing.get(name)) is not None:
            flags = _ANSWER | 0x80 | code
        elif (found := self._find(name, kind)) is None:
            flags = _ANSWER | _AUTHORITATIVE | 0x80 | _NO_SUCH_NAME
        else:
            flags, records = _ANSWER | _AUTHORITATIVE | 0x80, self._records(name, kind, found)
        head = struct.pack("!HHHHHH", number, flags, 1, len(records), 0, 0)
        return head + question + b"".join(records)

    def _find(self, name: str, kind: int) -> tuple[str, ...] | None:
        for known in (name, *_parents(name)):
            if row := self._rows.get(known):
                count = self._given[known, kind] = self._given.get((known, kind), 0) + 1
                return row[(count - 1) % len(row)]
        return None

    def _records(self, name: str, kind: int, found: Sequence[str]) -> list[bytes]:
        records: list[bytes] = []
        for text in found:
            if text[-1].isalpha() and ":" not in text:
                records.append(_record(name, CNAME, _wire_name(text)))
                records += self._records(text, kind, self._find(text.lower(), kind) or ())
            elif (ip := ip_address(text)).version == {A: 4, AAAA: 6}.get(kind):
                records.append(_record(name, kind, ip.packed))
        return records


def _name_in(data: bytes) -> str:
    try:
        return _read_name(data, 12)[0]
    except IndexError:
        return ""


def _parents(name: str) -> list[str]:
    labels = name.split(".")
    return ["*." + ".".join(labels[at:]) for at in range(1, len(labels))]


def _record(name: str, kind: int, data: bytes) -> bytes:
    return _wire_name(name) + struct.pack("!HHIH", kind, 1, 0, len(data)) + data


def _wire_name(name: str) -> bytes:
    parts = [label.encode("latin-1") for label in name.rstrip(".").split(".")]
    return b"".join(bytes([len(part)]) + part for part in parts) + b"\0"


def _read_name(data: bytes, at: int) -> tuple[str, int]:
    labels: list[str] = []
    while length := data[at]:
        labels.append(data[at + 1 : at + 1 + length].decode("latin-1").lower())
        at += 1 + length
    return ".".join(labels), at + 1


async def serve_names(
    server: NameServer, datagrams: socket.socket, listener: socket.socket
) -> asyncio.Server:
    """Answer on both sockets until the server that is returned is closed."""
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(lambda: server, sock=datagrams)
    return await asyncio.start_server(server.talk, sock=listener)
