"""What is fuzzed in this process: readers, rules and relay, each against something that knows better.

A target makes a sample from chance and checks a sample; a check that fails raises, whatever it raises. The
same check plays the corpus, so it must not depend on anything but its sample.
"""

from __future__ import annotations

import ssl
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Final

import h11

from egress.errors import WireError
from egress.proxy.dns import wire_format
from egress.proxy.ingress.destination_parser import read_authority
from egress.relay.ports import CLIENT_WIRE, WireEnd
from egress.relay.relay import ClientProtocol
from egress.rules.compile.load import RuleText, load
from egress.rules.decide.decision import decide, decide_host
from egress.tls.client_hello import ClientHello, HelloReader
from egress.types import Head, Identity, Verdict
from tests.attack.lab.names import API, EVIL
from tests.attack.test_websocket import ACCEPT
from tests.cli.command import CONFIG
from tests.faults.seeded_random import SeededRandom
from tests.fuzz import git_push, grammar, graphql_body, llm_streams, mcp_messages, mutate, node_id
from tests.fuzz.frames import PREFACE, H2Seen, ws_seen
from tests.fuzz.leak_scan import LeakScan, is_cutting
from tests.fuzz.sample import Reply, Sample
from tests.property.test_http1 import agree, hear, read_request, read_response, same, server
from tests.property.test_http1 import client as h11_client
from tests.proxy.lab.certificates import Certificates
from tests.unit.proxy.dns_messages import A, query
from tests.unit.proxy.hellos import body, message, protocols, real, records, server_name, versions
from tests.unit.relay.wires import NAME, RULES, VALUE, Lab, read_requests

Make = Callable[[SeededRandom], Sample]
Check = Callable[[Sample], None]


class UnsoundError(AssertionError):
    """What was checked does not hold."""


@dataclass(frozen=True, slots=True)
class FuzzTarget:
    """One thing that is fuzzed."""

    name: str
    make: Make
    check: Check
    weight: int = 1


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise UnsoundError(what)


# HTTP/1.1 -----------------------------------------------------------------------------------------


def _make_request(chance: SeededRandom) -> Sample:
    data = grammar.request(chance, NAME, "/v1/a", wild=chance.one_of((0, 1, 1, 2, 3)))
    return Sample("http1.request", mutate.cut(chance, data))


def _check_request(sample: Sample) -> None:
    data = b"".join(sample.client)
    whole = read_request([data])
    same(whole, read_request(list(sample.client)))
    agree(whole, hear(server(), data))


def _make_response(chance: SeededRandom) -> Sample:
    data = grammar.reply(chance, chance.one_of((0, 1, 1, 2, 3))).spoken(VALUE)
    method = chance.one_of(("GET", "HEAD", "POST", "CONNECT"))
    upgrade = chance.one_of(("", "", "websocket"))
    return Sample("http1.response", mutate.cut(chance, data), words=(method, upgrade))


def _check_response(sample: Sample) -> None:
    data, (method, upgrade) = b"".join(sample.client), sample.words
    upgrades = (upgrade,) if upgrade else ()
    whole = read_response([data], method, upgrades)
    same(whole, read_response(list(sample.client), method, upgrades))
    if whole.fault is None or whole.fault[0] not in LIMIT_MESSAGES:
        agree(whole, hear(_asked(method, upgrades), data))


def _asked(method: str, upgrades: tuple[str, ...]) -> h11.Connection:
    return h11_client(method, upgrades)


# TLS ----------------------------------------------------------------------------------------------

_KEY_SHARE: Final = 51
WIRE_NAMES: Final = (
    b"api.good.test", b"API.good.test", b"evil.test", b"api.good.test.", b"a\0b", b"", b"1.2.3.4", b"\xff",
    b"xn--pi-8ka.test", b"a" * 64, b"a..b", b"-a.b", b"x_y.test",
)  # fmt: skip


def _make_hello(chance: SeededRandom) -> Sample:
    if chance.randrange(2):
        name = chance.one_of(("api.good.test", "x.any.good.test", None))
        most = chance.one_of((None, None, ssl.TLSVersion.TLSv1_2))
        data = _steady(chance, real(name, chance.one_of(((), ("h2",), ("h2", "http/1.1"))), most=most))
    else:
        data = records(message(body(_extensions(chance))), chance.one_of((1 << 14, 40, 1)))
    if chance.randrange(4):
        data = mutate.names(chance, data) if chance.randrange(4) == 0 else _bent(chance, data)
    return Sample("tls.hello", mutate.cut(chance, data))


def _steady(chance: SeededRandom, hello: bytes) -> bytes:
    """The same hello, with what OpenSSL took from its own chance taken from ours."""
    made = bytearray(hello)
    made[11:43] = chance.randbytes(32)
    at = 44 + made[43]
    made[44:at] = chance.randbytes(made[43])
    at += 2 + int.from_bytes(made[at : at + 2])
    at += 1 + made[at] + 2
    while at < len(made):
        kind, size = struct.unpack_from(">HH", made, at)
        share = at + 6
        while kind == _KEY_SHARE and share < at + 4 + size:
            length = int.from_bytes(made[share + 2 : share + 4])
            made[share + 4 : share + 4 + length] = chance.randbytes(length)
            share += 4 + length
        at += 4 + size
    return bytes(made)


def _extensions(chance: SeededRandom) -> list[tuple[int, bytes]]:
    listed = [
        server_name(*chance.sample(WIRE_NAMES, chance.one_of((1, 1, 1, 2)))),
        protocols(*chance.sample((b"h2", b"http/1.1", b"", b"x" * 255), chance.randrange(3))),
        versions(*chance.sample((0x0304, 0x0303, 0x0A0A, 0x0301), chance.randrange(1, 4))),
        (10, b"\0\2\0\x1d"), (13, b"\0\4\4\3\x08\4"), (0xFE0D, b"\0" * 9),
    ]  # fmt: skip
    return mutate.rows(chance, listed, listed, chance.randrange(4))


def _bent(chance: SeededRandom, data: bytes) -> bytes:
    """Damage that leaves most lengths right, because what is too short is soon dealt with."""
    made = bytearray(data)
    for _ in range(chance.one_of((1, 1, 2, 4))):
        at = chance.randrange(len(made))
        made[at] = chance.one_of((0, 1, 255, made[at] ^ 1, made[at] ^ 0x20, chance.randrange(256)))
    return bytes(made) if chance.randrange(4) else mutate.scratch(chance, bytes(made))


def _read_hello(pieces: tuple[bytes, ...]) -> ClientHello | str | None:
    reader, found = HelloReader(), None
    for piece in pieces:
        try:
            found = reader.feed(piece)
        except WireError as error:
            return error.message
    return found


def _check_hello(sample: Sample) -> None:
    data = b"".join(sample.client)
    ours = _read_hello((data,))
    _demand(_read_hello(sample.client) == ours, "how it is cut changes what is read")
    if isinstance(ours, ClientHello):
        _demand(ours.sni in ("", ours.sni.lower().rstrip(".")), "a name that is not canonical")
        theirs = _openssl_name(data)
        if theirs is not None:
            _demand(theirs.lower().rstrip(".") == ours.sni, "OpenSSL reads another server name")


def _openssl_name(data: bytes) -> str | None:
    """The server name as OpenSSL's server reads it; None where it never comes to that."""
    found: list[str | None] = []
    context = _server()
    context.sni_callback = lambda _tls, name, _context: found.append(name)
    incoming = ssl.MemoryBIO()
    incoming.write(data)
    with suppress(ssl.SSLError, UnicodeError):
        context.wrap_bio(incoming, ssl.MemoryBIO(), server_side=True).do_handshake()
    return (found[0] or "") if found else None


@cache
def _server() -> ssl.SSLContext:
    return Certificates().good("api.good.test")


# Destinations and names ---------------------------------------------------------------------------


def _make_authority(chance: SeededRandom) -> Sample:
    data = chance.one_of(mutate.NAMES) + chance.one_of((b":443", b":80", b"", b":0", b":65536", b":443:443"))
    if chance.randrange(2):
        data = mutate.scratch(chance, data, chance.one_of((1, 2)))
    return Sample("destination", (data,))


def _check_authority(sample: Sample) -> None:
    text = b"".join(sample.client).decode("latin-1")
    found = read_authority(text)
    if found is None:
        return
    host, port = found
    _demand(0 < port < 65536, "a port out of range")
    _demand(host in text.lower(), "a host that does not stand there")
    again = read_authority(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    _demand(again == found, "the canonical spelling is read differently")


def _make_question(chance: SeededRandom) -> Sample:
    name = chance.one_of(
        (API, EVIL, f"x.{EVIL}", "x.any.good.test", "a" * 63, "API.good.TEST", "a.b" * 60, "")
    )
    data = query(name, chance.one_of((A, 28, 16, 65, 255, 252, 5)))
    if chance.randrange(3):
        data = _bent(chance, data)
    return Sample("dns.question", (data,))


def _check_question(sample: Sample) -> None:
    data = b"".join(sample.client)
    match found := wire_format.read_query(data):
        case None:
            return
        case wire_format.DnsQuestion():
            reply = wire_format.encode_answer(found, wire_format.Rcode.NXDOMAIN)
            _demand(found.wire in data, "the question was changed")
            plain = b".".join(_labels(found.wire)).decode("latin-1").lower()
            _demand(found.name in ("", plain), "another name than stands there")
        case _:
            reply = wire_format.encode_fault(found)
    _demand(reply[:2] == data[:2] and bool(reply[2] & 0x80), "no answer to this message")
    _demand(len(reply) <= len(data) + 16, "the answer is longer than it may be")
    _demand(wire_format.read_query(reply) is None, "an answer is taken for a question")


def _labels(wire: bytes) -> list[bytes]:
    labels, at = [], 0
    while length := wire[at]:
        labels.append(wire[at + 1 : at + 1 + length])
        at += 1 + length
    return labels


# Rules --------------------------------------------------------------------------------------------

SPARE_LINES: Final = (
    "  evil.test:", "    allow: all", "    allow: []", "deny:", "  - {id: x, hosts: [api.example.test]}",
    "version: 2", "    inject: [{bearer: nobody}]", "  '*': {allow: all}", "    ports: [443, 8443]",
    "hots: {}",
    "    limits: {requests: 1/s}", '  "*.test": {allow: all}', "    http: true", "    intercept: never",
    "&a", "*a", "---", "...", "!!python/object:os.system {}", "    tests:", "      - GET / -> allow", "\t",
    "? x",
    "<<: *a", '    expires: "2020-01-01"', "profiles: {agent: {hosts: [evil.test]}}", "presets: [github]",
)  # fmt: skip
TOKENS: Final = (
    ":", "{", "}", "[", "]", ",", "'", '"', "*", "**", "&", "!", "|", ">", "#", "\n", "  ", "-", "null",
    "~", "0x10",
    "1e9", "no", "\0", "\x85", "\ufeff", "\u2028", "evil.test", "*.evil.test", "all", "never", "/**",
    "/../", "{secret}",
)  # fmt: skip


def _make_rules(chance: SeededRandom) -> Sample:
    text = RULES if chance.randrange(2) else CONFIG.read_text(encoding="utf-8")
    return Sample("rules", (damaged_rules(chance, text).encode("utf-8", "surrogatepass"),))


def damaged_rules(chance: SeededRandom, text: str) -> str:
    """The text of a rule file with a few lines and signs that are not right."""
    lines = mutate.rows(chance, text.split("\n"), SPARE_LINES, chance.one_of((1, 2, 4)))
    text = "\n".join(lines)
    for _ in range(chance.randrange(3)):
        at = chance.randrange(len(text) + 1)
        text = text[:at] + chance.one_of(TOKENS) + text[at + chance.randrange(3) :]
    return text


def _check_rules(sample: Sample) -> None:
    text = b"".join(sample.client).decode("utf-8", "surrogatepass")
    loaded = load([RuleText("hosts.yaml", text)], {}, 0)
    for finding in loaded.findings:
        str(finding)
    if loaded.policy is None:
        _demand(bool(loaded.findings), "refused without a word")
        return
    identity = Identity("box")
    for host in (NAME, EVIL, f"x.{EVIL}", "other.example.test", "169.254.169.254"):
        opened = decide_host(loaded.policy, identity, host, 443, 0)
        decision = decide(loaded.policy, identity, Head("GET", "https", host, 443, "/v1/a"), 0)
        allowed = opened.verdict is Verdict.ALLOW
        _demand(allowed or decision.verdict is not Verdict.ALLOW, "a request where no connection is")
        if allowed and EVIL in host:
            # Nothing that does not speak of it may open it.
            _demand("evil" in text or "*" in text or "observe" in text or "\\" in text, f"{host} is open")


# The relay ----------------------------------------------------------------------------------------

BEARER: Final = f"Bearer {VALUE.decode()}"
LIMIT_MESSAGES: Final = frozenset({"There are too many interim responses."})
"""What h11 does not count."""
ENDS: Final[dict[str, WireEnd]] = {"close": "clean", "cut": "unproven", "reset": "cut"}
"""How a relay is told of the end that a reply makes."""

_DETECTOR: Final = LeakScan([("api", VALUE)])


def _make_relay(chance: SeededRandom) -> Sample:
    count = chance.one_of((1, 2, 3))
    wild = chance.one_of((0, 0, 1, 2))
    data = b"".join(
        grammar.request(chance, NAME, f"/v1/c0-{each}", wild=wild if each == count - 1 else 0)
        for each in range(count)
    )
    replies = tuple(grammar.reply(chance, chance.one_of((0, 1, 2))) for _ in range(count))
    return Sample("relay.http1", mutate.cut(chance, data), replies, ("http/1.1",))


def _make_websocket(chance: SeededRandom) -> Sample:
    wild = chance.one_of((0, 1, 2))
    asked = grammar.upgrade(chance, NAME, "/ws", wild=chance.one_of((0, 0, 0, 1)))
    up = b"".join(
        each.wire(each.data, masked=True) for each in grammar.ws_frames(chance, masked=True, wild=wild)
    )
    return Sample(
        "relay.websocket", (asked, *mutate.cut(chance, up)), (socket_reply(chance, wild),), ("http/1.1",)
    )


def socket_reply(chance: SeededRandom, wild: int) -> Reply:
    """A host that agrees to a WebSocket, and what it says then."""
    lines = [
        "HTTP/1.1 101 Switching Protocols", "upgrade: websocket", "connection: Upgrade",
        f"sec-websocket-accept: {ACCEPT}",
    ]  # fmt: skip
    head = "".join(f"{line}\r\n" for line in lines).encode()
    if wild and chance.randrange(4) == 0:
        head = mutate.scratch(chance, head)
    frames = grammar.ws_frames(chance, masked=False, wild=wild)
    parts = tuple(each.packed() for each in frames)
    return Reply(head, parts, "websocket", write=chance.one_of((0, 1, 7)), ends="close")


def _make_http2(chance: SeededRandom) -> Sample:
    paths = [f"/v1/c0-{each}" for each in range(chance.one_of((1, 2, 4)))]
    wild = chance.one_of((0, 1, 1, 2, 3))
    frames = grammar.h2_requests(chance, NAME, paths, wild)
    data = PREFACE + b"".join(each.wire(each.data) for each in frames)
    is_h2 = chance.randrange(2)
    replies = tuple(
        h2_reply(chance, chance.one_of((0, 1, 2))) if is_h2 else grammar.reply(chance, chance.one_of((0, 1)))
        for _ in paths
    )
    return Sample("relay.http2", mutate.cut(chance, data), replies, ("h2", "h2" if is_h2 else "http/1.1"))


def h2_reply(chance: SeededRandom, wild: int) -> Reply:
    """The frames of an answer."""
    parts = tuple(each.packed() for each in grammar.h2_answer(chance, wild))
    return Reply(
        b"", parts, "http2", write=chance.one_of((0, 0, 1, 9)), ends=chance.one_of(("open", "open", "cut"))
    )


def _check_relay(sample: Sample) -> None:
    protocol: ClientProtocol = "h2" if sample.words[0] == "h2" else "http/1.1"
    Play(sample, protocol).run()


class Play:
    """A sample in a relay that is made of memory: who opens, who answers, who leaves."""

    def __init__(self, sample: Sample, protocol: ClientProtocol) -> None:
        self.sample = sample
        self.lab = Lab(RULES, protocol=protocol, is_strict=False)
        self.alpn = sample.words[1] if len(sample.words) > 1 else ""
        self.replies = list(sample.replies)
        self.heads: dict[int, int] = {}
        """How many requests of each upstream wire have been answered."""

    def run(self) -> None:
        lab = self.lab
        for piece in self.sample.client:
            if not lab.closed():
                lab.says(piece)
            self._others()
        self._others()
        if not lab.closed():
            lab.leaves()
        self._others()
        lab.check()
        lab.shuts("proxy.stopping")
        lab.check()
        self._judge()

    def _others(self) -> None:
        """Open what is asked for and answer what has come, until nothing is left to do."""
        for _ in range(64):
            if self.lab.opening:
                wire = next(iter(self.lab.opening))
                has_h2 = self.alpn == "h2" and "h2" in self.lab.opening[wire]
                self.lab.opens("h2" if has_h2 else "http/1.1", wire=wire)
                if has_h2 and wire in self.lab.standing:
                    self.lab.answers(b"\0\0\0\4\0\0\0\0\0", wire=wire)
                continue
            # Each of them gets its turn, whatever the others did.
            answered = [self._answer(wire) for wire in list(self.lab.standing)]
            if True not in answered:
                return

    def _answer(self, wire: int) -> bool:
        streams = self._asked(wire)
        done = self.heads.get(wire, 0)
        if done >= len(streams) or not self.replies:
            return False
        self.heads[wire] = done + 1
        reply = self.replies.pop(0)
        data = reply.frames(streams[done], VALUE) if reply.framing == "http2" else reply.spoken(VALUE)
        step = max(reply.write, len(data) // 300 + 1) if reply.write else len(data) or 1
        for at in range(0, len(data), step):
            if wire not in self.lab.ended:
                self.lab.answers(data[at : at + step], wire=wire)
        if reply.ends != "open" and wire not in self.lab.ended:
            self.lab.hangs_up(wire, ENDS[reply.ends])
        return True

    def _asked(self, wire: int) -> list[int]:
        """One entry for each request head that went up on a wire; in HTTP/2 its stream."""
        data = bytes(self.lab.sent[wire])
        if not data.startswith(PREFACE):
            return [0] * data.count(b" HTTP/1.1\r\n")
        found, at = [], len(PREFACE)
        while len(data) - at >= 9:
            size = int.from_bytes(data[at : at + 3])
            if data[at + 3] == 1:
                found.append(struct.unpack_from(">I", data, at + 5)[0])
            at += 9 + size
        return list(dict.fromkeys(found))

    def _judge(self) -> None:
        got = bytes(self.lab.sent[CLIENT_WIRE])
        seen = [got]
        if self.sample.words[0] == "h2":
            reader = H2Seen()
            reader.feed(got)
            seen.append(reader.everything())
        elif b" 101 " in got[:20]:
            seen.append(ws_seen(got.partition(b"\r\n\r\n")[2]))
        found = [leak for data in seen for leak in _DETECTOR.promised(data, is_cut=is_cutting(self.sample))]
        _demand(not found, f"the client got {', '.join(map(str, found))}")
        for record in self.lab.desk.records:
            _demand(record.code != "internal", "an exception inside")
        for wire, data in self.lab.sent.items():
            if wire != CLIENT_WIRE and not data.startswith(PREFACE):
                for asked in read_requests(_http_of(bytes(data))):
                    _demand(asked.headers.get("host", "").lower() == NAME, "a foreign Host")
                    _demand(asked.headers.get("authorization") == BEARER, "a request without its credential")


def _http_of(data: bytes) -> bytes:
    """What an upstream was sent, up to where it is HTTP no more."""
    head, end, _ = data.partition(b"\r\n\r\n")
    return head + end if b"upgrade: websocket" in head.lower() else data


# All of them --------------------------------------------------------------------------------------

TARGETS: Final = {
    target.name: target
    for target in (
        FuzzTarget("http1.request", _make_request, _check_request, 4),
        FuzzTarget("http1.response", _make_response, _check_response, 4),
        FuzzTarget("tls.hello", _make_hello, _check_hello, 2),
        FuzzTarget("destination", _make_authority, _check_authority, 2),
        FuzzTarget("dns.question", _make_question, _check_question, 2),
        FuzzTarget("git.push", git_push.make_push, git_push.check_push, 2),
        FuzzTarget("git.pack", git_push.make_pack, git_push.check_pack, 1),
        FuzzTarget("mcp.body", mcp_messages.make_message, mcp_messages.check_message, 2),
        FuzzTarget("mcp.events", mcp_messages.make_stream, mcp_messages.check_stream, 2),
        FuzzTarget("llm.sse", llm_streams.make_sse, llm_streams.check_sse),
        FuzzTarget("llm.event_stream", llm_streams.make_event_stream, llm_streams.check_event_stream),
        FuzzTarget("graphql.body", graphql_body.make_graphql, graphql_body.check_graphql, 2),
        FuzzTarget("graphql.node-id", node_id.make_node_id, node_id.check_node_id, 1),
        FuzzTarget("rules", _make_rules, _check_rules, 1),
        FuzzTarget("relay.http1", _make_relay, _check_relay, 3),
        FuzzTarget("relay.websocket", _make_websocket, _check_relay, 2),
        FuzzTarget("relay.http2", _make_http2, _check_relay, 3),
    )
}
_ROW: Final = [name for name, target in TARGETS.items() for _ in range(target.weight)]


def sample_of(seed: int, case: int) -> Sample:
    """The sample of a case, which follows from its two numbers alone."""
    chance = SeededRandom("inside", seed, case)
    return TARGETS[chance.one_of(_ROW)].make(chance)


def check(sample: Sample) -> None:
    """Raise where something does not hold."""
    TARGETS[sample.target].check(sample)
