"""The cases of a whole proxy: what a sandbox says on which way in, and what the host behind answers.

`sample_of(seed, case)` is all there is to a case. `words` of its sample are the way in, the host, and how the
client knows that it is over.

    raw     bytes on the proxy's port              tls     HTTP/1.1 in a tunnel
    tunnel  bytes in a tunnel, where TLS should be  h2      HTTP/2 in a tunnel
    door    bytes where TLS is taken by its name    sni     TLS there, HTTP/1.1 in it
    clear   bytes where plain HTTP is taken         ws      WebSocket in a tunnel
    udp     a datagram for the name server          tcp     the same by TCP
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from egress.errors import UsageError, WireError
from egress.http1 import End, RequestReader
from tests.attack.lab import names
from tests.faults.seeded_random import SeededRandom
from tests.fuzz import grammar, in_process, mutate
from tests.fuzz.frames import PREFACE
from tests.fuzz.sample import Reply, Sample
from tests.unit.proxy.dns_messages import A, query

CLOSES, QUIET, WHOLE = "closes", "quiet", "whole"
"""The proxy will close; it may wait for more; every stream will be answered."""

INJECTED: Final = (
    names.API, names.API, names.API, names.KEYED, names.BASIC, names.QUERY, names.COOKIE, names.STANDIN,
    names.BLOCKING, names.FRONT, names.HTTP2, "x.any.good.test",
)  # fmt: skip
ALLOWED: Final = (*INJECTED, *INJECTED, names.OTHER, names.SCOPED, names.SOCKETS)
DENIED: Final = (
    names.EVIL,
    f"below.{names.EVIL}",
    names.BEHIND,
    *names.CERTIFICATES_GONE_WRONG,
    "169.254.169.254",
)
MODERN: Final = (names.HTTP2, names.KEYED)
"""Hosts for which the rules offer HTTP/2; one speaks it, the other one does not."""


def _ending(data: bytes) -> str:
    """Whether whoever reads these requests will hang up by itself."""
    reader = RequestReader()
    try:
        events = reader.feed(data)
        for _ in range(64):
            if not any(isinstance(event, End) for event in events):
                return QUIET
            events = reader.next_message()
    except WireError:
        return CLOSES
    except UsageError:
        # The last one said that it was the last.
        return CLOSES
    return QUIET


def _requests(
    chance: SeededRandom, case: int, host: str, count: int, wild: int, form: str = "origin"
) -> bytes:
    """A row of requests on one connection; only the last but one is broken, so that all are read."""
    made = []
    for number in range(count):
        is_last = number == count - 1
        odd = wild if number == count - 2 or (is_last and chance.randrange(2)) else 0
        path = grammar.mark(case, number)
        made.append(grammar.request(chance, host, path, wild=odd, last=is_last, form=form))
    return b"".join(made)


def _heads(chance: SeededRandom, case: int) -> Sample:
    """Broken requests, and a host that is well."""
    host = chance.one_of(ALLOWED)
    entry = chance.one_of(("tls", "tls", "tls", "tls", "sni"))
    form = chance.one_of(("origin",) * 7 + ("absolute",))
    data = _requests(chance, case, host, chance.one_of((6, 8, 10)), chance.one_of((1, 1, 2, 3)), form)
    replies = tuple(grammar.reply(chance) for _ in range(3))
    return Sample("proxy.heads", mutate.cut(chance, data), replies, (entry, host, _ending(data)))


def _answers(chance: SeededRandom, case: int) -> Sample:
    """A host that is not, and requests that are well."""
    host = chance.one_of(INJECTED)
    count = chance.one_of((4, 6, 8))
    data = _requests(chance, case, host, count, 0)
    replies = tuple(grammar.reply(chance, chance.one_of((0, 0, 1, 1, 2, 3))) for _ in range(count))
    if host == names.HTTP2:
        replies = tuple(in_process.h2_reply(chance, chance.one_of((0, 0, 1, 2))) for _ in range(count))
        return Sample("proxy.answers", (data,), replies, ("tls", host, QUIET))
    return Sample("proxy.answers", (data,), replies, ("tls", host, _ending(data)))


def _streams(chance: SeededRandom, case: int) -> Sample:
    """HTTP/2, one side or both of them broken."""
    host = chance.one_of(MODERN)
    count = chance.one_of((1, 4, 8))
    paths = [grammar.mark(case, number) for number in range(count)]
    wild, odd = chance.one_of(((0, 0), (1, 0), (2, 0), (4, 0), (0, 1), (0, 2), (1, 1)))
    frames = grammar.h2_requests(chance, host, paths, wild)
    data = PREFACE + b"".join(each.wire(each.data) for each in frames)
    if wild and chance.randrange(8) == 0:
        data = mutate.scratch(chance, data)
    make: Callable[[SeededRandom, int], Reply] = in_process.h2_reply if host == names.HTTP2 else grammar.reply
    replies = tuple(make(chance, odd) for _ in paths)
    is_tame = not (wild or odd) and all(reply.ends == "open" for reply in replies)
    ending = WHOLE if is_tame else QUIET
    return Sample("proxy.streams", mutate.cut(chance, data), replies, ("h2", host, ending))


def _sockets(chance: SeededRandom, case: int) -> Sample:
    wild = chance.one_of((0, 1, 2))
    asked = grammar.upgrade(chance, names.SOCKETS, grammar.mark(case, 0), chance.one_of((0, 0, 0, 1)))
    frames = grammar.ws_frames(chance, masked=True, wild=chance.one_of((0, wild)))
    up = b"".join(each.wire(each.data, masked=True) for each in frames)
    reply = in_process.socket_reply(chance, wild)
    return Sample("proxy.sockets", (asked, *mutate.cut(chance, up)), (reply,), ("ws", names.SOCKETS, QUIET))


CONNECTS: Final = (
    b"connection: keep-alive", b"proxy-authorization: Basic eDp5", b"content-length: 5", b"upgrade: x",
    b"transfer-encoding: chunked", b"host: api.good.test:443", b"expect: 100-continue", b"x: \0",
    b"proxy-connection: x",
)  # fmt: skip


def _connects(chance: SeededRandom, case: int) -> Sample:
    """What is said to the proxy itself."""
    host = chance.one_of((*mutate.NAMES, *(name.encode() for name in (*ALLOWED, *DENIED))))
    target = host + chance.one_of(
        (b":443", b":443", b":80", b"", b":0", b":8443", b":00443", b":443@x", b":65979")
    )
    match chance.randrange(5):
        case 0:
            form = chance.one_of(("plain", "absolute"))
            name = chance.one_of((names.PLAIN, names.PLAIN, names.API, names.EVIL, names.OTHER))
            data = grammar.request(
                chance, name, grammar.mark(case, 0), wild=chance.randrange(3), last=True, form=form
            )
        case 1:
            data = chance.one_of(STRANGE)
        case _:
            lines = [b"CONNECT " + target + b" HTTP/1.1", b"host: " + target]
            if chance.randrange(2):
                lines = mutate.rows(chance, lines, CONNECTS, chance.one_of((1, 2)))
            data = b"\r\n".join([*lines, b"", b""])
    if chance.randrange(3) == 0:
        data = mutate.scratch(chance, data, chance.one_of((1, 2)))
    replies = (grammar.reply(chance, chance.randrange(2)),)
    return Sample("proxy.connects", mutate.cut(chance, data), replies, ("raw", "", QUIET))


STRANGE: Final = (
    b"\x05\x01\x00\x05\x01\x00\x03\x09evil.test\x01\xbb", b"\x04\x01\x01\xbb\x2d\x42\0\1\0", PREFACE,
    b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n", b"\x16\x03\x01\0\5\1\0\0\1\0",
    b"GET / HTTP/1.1\r\nhost: egress\r\n\r\n",
    b"GET http://mitm.it/ HTTP/1.1\r\nhost: mitm.it\r\n\r\n", b"\0" * 40, b"SSH-2.0-x\r\n", b"\r\n\r\n\r\n",
    b"GET /\r\n",
    b"CONNECT\r\n\r\n", b"\r\n\r\nCONNECT evil.test:443 HTTP/1.1\r\nhost: evil.test:443\r\n\r\n",
    b"A" * 70_000,
    b"X: " + b"y" * 70_000,
)  # fmt: skip


def _hellos(chance: SeededRandom, case: int) -> Sample:
    """The beginning of TLS, in a tunnel and where its name decides."""
    made = in_process.TARGETS["tls.hello"].make(chance)
    entry = chance.one_of(("tunnel", "door"))
    pieces = made.client if chance.randrange(8) else (chance.one_of(STRANGE),)
    return Sample("proxy.hellos", pieces, (), (entry, names.API, QUIET))


def _clear(chance: SeededRandom, case: int) -> Sample:
    """Plain HTTP from a client that knows no proxy."""
    host = chance.one_of((names.PLAIN, names.PLAIN, names.PLAIN, names.API, names.EVIL))
    data = _requests(chance, case, host, chance.one_of((2, 4)), chance.one_of((0, 1, 2)))
    replies = tuple(grammar.reply(chance, chance.randrange(2)) for _ in range(2))
    return Sample("proxy.clear", mutate.cut(chance, data), replies, ("clear", host, _ending(data)))


BARRED: Final = "proxy.refused"
"""Cases of which no request may come to any host."""
SCOPES: Final = (
    ("DELETE", "/repos/acme/app{}"), ("POST", "/repos/acme/app{}"), ("GET", "/user{}"),
    ("GET", "/repos/acme/app/keys{}"), ("GET", "/repos/acme/../user{}"),
    ("GET", "/repos/acme/app/%6beys{}"), ("PUT", "/repos/acme/app/issues{}"),
)  # fmt: skip


def _refused(chance: SeededRandom, case: int) -> Sample:
    """Requests that are well-formed and may not be made: by their tunnel, by their Host, by their rule."""
    entry = chance.one_of(("tls", "tls", "sni"))
    match chance.randrange(3):
        case 0:
            host = named = chance.one_of(DENIED)
            data = _requests(chance, case, host, 2, 0)
        case 1:
            host, named = chance.one_of(INJECTED), chance.one_of((names.EVIL, names.OTHER, names.BEHIND))
            data = _requests(chance, case, named, 2, 0)
        case _:
            host = named = names.SCOPED
            made = []
            for number in range(4):
                method, path = chance.one_of(SCOPES)
                target = path.format(grammar.mark(case, number))
                last = "connection: close\r\n" if number == 3 else ""
                made.append(f"{method} {target} HTTP/1.1\r\nhost: {named}\r\n{last}\r\n".encode())
            data = b"".join(made)
    return Sample(BARRED, (data,), (), (entry, host, CLOSES))


def _questions(chance: SeededRandom, case: int) -> Sample:
    host = chance.one_of((names.EVIL, f"c{case}.{names.EVIL}", names.API, f"c{case}.any.good.test", "a" * 63))
    data = query(host, chance.one_of((A, 28, 16, 65, 255, 252, 5)))
    if chance.randrange(2):
        data = mutate.scratch(chance, data, chance.one_of((1, 2, 4)))
    entry = chance.one_of(("udp", "udp", "tcp"))
    if entry == "tcp":
        data = struct.pack("!H", chance.one_of((len(data), len(data), 0, 65535))) + data
    return Sample("proxy.questions", (data,), (), (entry, host, QUIET))


FAMILIES: Final[tuple[tuple[int, Callable[[SeededRandom, int], Sample]], ...]] = (
    (8, _heads),
    (8, _answers),
    (4, _streams),
    (2, _sockets),
    (2, _connects),
    (1, _hellos),
    (1, _clear),
    (2, _refused),
    (1, _questions),
)
_ROW: Final = [make for weight, make in FAMILIES for _ in range(weight)]


def sample_of(seed: int, case: int) -> Sample:
    """The sample of a case, which follows from its two numbers alone."""
    chance = SeededRandom("proxy", seed, case)
    return chance.one_of(_ROW)(chance, case)
