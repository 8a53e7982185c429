"""The denial lane: a client of a denied host reads why inside of its own TLS, and nothing else happens."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509

from egress.ca.authority import Authority
from egress.ca.constraints import Constraints
from egress.exchange import Destination
from egress.proxy.ingress.limits import IngressLimits
from egress.proxy.lanes.connection import AdmittedConnection, DeniedConnection
from egress.proxy.lanes.denial_lane import DenialLane, DenialServices
from egress.proxy.lanes.dial import Dialer
from egress.rules.decide.decision import decide_host
from egress.secrets.resolver import SecretResolver
from egress.types import Identity
from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.channel import EndedError
from tests.proxy.lab.client import Peer, RefusedError, at, connect, dial, open_tunnel
from tests.proxy.lab.http2 import Http2Client
from tests.proxy.lab.proxy_stack import NAME, SANDBOX, ProxyStack, policy_of
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.unit.proxy.hellos import real

EVIL = "evil.example.test"
CERTS = Certificates()
LIMITS = IngressLimits(first_byte=5, hello_time=0.3, head_time=0.3, linger_time=0.3)


def rules(port: int, more: str = "") -> str:
    return f"""
version: 1
hosts:
  {NAME}: {{ports: [{port}], addresses: [127.0.0.1/32]}}
  shut.example.test: {{allow: []}}
  never.example.test: {{ports: [8443], intercept: never}}
  port.example.test: {{ports: [8443]}}
{more}"""


@pytest.fixture
async def upstream() -> AsyncIterator[RawUpstream]:
    async with RawUpstream(CERTS.good(NAME, EVIL)) as upstream:
        yield upstream


@pytest.fixture
async def stack(tmp_path: Path, upstream: RawUpstream) -> AsyncIterator[ProxyStack]:
    """Every name leads to the one upstream: whoever is dialled, it shows."""
    names = dict.fromkeys((NAME, EVIL), "127.0.0.1")
    async with ProxyStack(tmp_path, CERTS, rules(upstream.port), names=names) as stack:
        yield stack


@pytest.fixture(autouse=True)
def nothing_leaves(stack: ProxyStack, upstream: RawUpstream, monkeypatch: pytest.MonkeyPatch) -> None:
    """A denied host is neither resolved nor dialled, and no secret is fetched: each of these would show."""

    async def refuse(*_: object, **__: object) -> object:
        raise AssertionError("the lane asked for it")

    plain = Dialer.connect

    async def connected(self: Dialer, to: Destination, *more: object, **options: object) -> object:
        assert to.host == NAME, to
        return await plain(self, to, *more, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Dialer, "connect", connected)
    monkeypatch.setattr(SecretResolver, "resolve", refuse)


async def visit(stack: ProxyStack, host: str = EVIL, port: int = 443, *alpn: str, sni: str = "") -> Peer:
    trust = stack.trust(*(alpn or ("http/1.1",)))
    return await connect(at(port), host, trust, proxy=stack.proxy, sni=sni or None)


async def flood(peer: Peer) -> None:
    """Send until the other side takes no more."""
    while True:
        await peer.send(b"x" * 65536)
        await asyncio.sleep(0)


async def refused(stack: ProxyStack, authority: str) -> str:
    """Why a CONNECT is refused at once."""
    async with await dial(stack.proxy) as peer:
        with pytest.raises(RefusedError) as error:
            await open_tunnel(peer, authority)
    return error.value.response.header("egress-denied") or ""


async def all_closed(stack: ProxyStack) -> None:
    async with asyncio.timeout(10):
        while stack.door.connections(SANDBOX):  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.001)


async def record(stack: ProxyStack, event: str = "exchange") -> dict[str, object]:
    """The one line of the log, once it is there."""
    await all_closed(stack)
    (line,) = stack.lines()
    assert (line["event"], line["verdict"]) == (event, "deny"), line
    return line


# A page -------------------------------------------------------------------------------------------


async def test_a_client_reads_why_inside_of_its_tls(stack: ProxyStack, upstream: RawUpstream) -> None:
    async with await visit(stack) as peer:
        shown = x509.load_der_x509_certificate(peer.channel.certificate or b"")
        names = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        response = await peer.get("/v1/me?token=t0ken", EVIL)
    assert [str(name.value) for name in names] == [EVIL]
    assert (response.status, response.header("egress-denied")) == (403, "host.unknown")
    line = await record(stack)
    told = json.loads(response.body)["error"]
    assert (told["code"], told["request"]) == ("host.unknown", line["request"])
    assert told["operator"] == f"egress log suggest {line['request']}"
    facts = ("host", "port", "entry", "code", "method", "path", "status", "address", "injected")
    assert [line[name] for name in facts] == [
        *(EVIL, 443, "connect", "host.unknown", "GET", "/v1/me", 403, None, [])
    ]
    assert not upstream.links


async def test_an_allowed_host_is_carried_beside_it(stack: ProxyStack, upstream: RawUpstream) -> None:
    async with await visit(stack) as denied, await stack.visit(upstream) as peer:
        assert (await peer.get("/echo", f"{NAME}:{upstream.port}")).status == 200
        assert (await denied.get("/", EVIL)).status == 403
    assert len(upstream.links) == 1


async def test_git_reads_it_as_text(stack: ProxyStack) -> None:
    async with await visit(stack) as peer:
        body = (await peer.get("/", EVIL, "user-agent: git/2.45\r\n")).body.decode()
    line = await record(stack)
    assert body.endswith(f"For the operator: egress log suggest {line['request']}\n")


@pytest.mark.parametrize("alpn", [("h2",), ("h2", "http/1.1")])
async def test_a_client_that_speaks_http2_alone_reads_it_too(
    stack: ProxyStack, alpn: tuple[str, ...]
) -> None:
    async with await visit(stack, EVIL, 443, *alpn) as peer:
        assert peer.channel.alpn == ("h2" if len(alpn) == 1 else "http/1.1")
        if len(alpn) > 1:
            assert (await peer.get("/", EVIL)).status == 403
            return
        async with Http2Client(peer.channel) as client:
            stream = await client.get(EVIL, "/a")
            other = await client.post(EVIL, "/b", b"x" * 1000)
    assert (stream.status, other.status) == (403, 403)
    assert dict(stream.fields)["egress-denied"] == "host.unknown"
    assert json.loads(bytes(stream.body))["error"]["code"] == "host.unknown"
    assert [(line["path"], line["alpn"]) for line in stack.exchanges()] == [("/a", "h2"), ("/b", "h2")]


async def test_a_client_without_a_proxy_reads_it_as_well(stack: ProxyStack, upstream: RawUpstream) -> None:
    await stack.open_transparent("127.0.0.3", upstream.port)
    async with await connect(("127.0.0.3", upstream.port), EVIL, stack.trust("http/1.1")) as peer:
        response = await peer.get("/", f"{EVIL}:{upstream.port}")
    assert response.header("egress-denied") == "host.unknown"
    assert (await record(stack))["entry"] == "sni"
    assert not upstream.links


@pytest.mark.parametrize(
    ("host", "port", "code"),
    [("shut.example.test", 443, "host.closed"), ("port.example.test", 9443, "host.port")],
)
async def test_other_denials_of_a_host_are_told_in_the_same_way(
    stack: ProxyStack, host: str, port: int, code: str
) -> None:
    async with await visit(stack, host, port) as peer:
        assert (await peer.get("/", f"{host}:{port}")).header("egress-denied") == code
    assert (await record(stack))["code"] == code


async def test_plain_http_inside_the_tunnel_is_answered_in_clear(stack: ProxyStack) -> None:
    """As libraries send it that make a tunnel for every URL."""
    async with await dial(stack.proxy) as peer:
        await open_tunnel(peer, f"{EVIL}:80")
        assert (await peer.get("/", EVIL)).header("egress-denied") == "host.unknown"
    assert (await record(stack, "refusal"))["code"] == "host.unknown"


# Refused at once ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("authority", "code"),
    [
        ("203.0.113.7:443", "host.literal"),
        ("[2001:db8::7]:443", "host.literal"),
        (f"{EVIL}:22", "host.unknown"),
        (f"{EVIL}:587", "host.unknown"),
        ("never.example.test:443", "host.port"),
        ("no..name:443", "host.malformed"),
    ],
)
async def test_it_is_refused_at_once_where_no_client_would_read_a_page(
    stack: ProxyStack, authority: str, code: str
) -> None:
    """An address, a port of servers that speak first, a host whose TLS the rules leave closed, no name."""
    assert await refused(stack, authority) == code
    assert (await record(stack, "refusal"))["code"] == code


async def test_it_is_refused_at_once_where_the_authority_may_not_sign(stack: ProxyStack) -> None:
    known = stack.engine.sandboxes[SANDBOX]
    narrow = Authority.create("narrow", stack.clock.now(), Constraints.of([NAME]))
    stack.engine.sandboxes[SANDBOX] = replace(known, authority=narrow)
    assert await refused(stack, f"{EVIL}:443") == "host.unknown"
    await record(stack, "refusal")


async def test_it_is_refused_at_once_where_the_log_is_full(
    stack: ProxyStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack.audit, "may_work", lambda _: False)
    assert await refused(stack, f"{EVIL}:443") == "host.unknown"


async def test_it_counts_towards_the_limit_of_connections(stack: ProxyStack, upstream: RawUpstream) -> None:
    stack.engine.swap(policy_of(rules(upstream.port, "limits: {connections: 1}\n")))
    async with await visit(stack):
        assert await refused(stack, f"{EVIL}:443") == "host.unknown"
    await all_closed(stack)
    async with await visit(stack) as peer:
        assert (await peer.get("/", EVIL)).status == 403


# Clients that do something else -------------------------------------------------------------------


def ingress(stack: ProxyStack) -> None:
    """Let the door wait for less long than people would."""
    stack.door._bounds = LIMITS


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\x00\x01\x02\x03" * 100,
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x16\x03\x01\x40\x00" + b"\x01" * 400,
        b"\x16\x03\x01\x00\x04\x01\x00\x00\x00",
        b"GET / HTTP/1.1\r\nx: ",
        b"GET / HTTP/1.1\r\nx : y\r\n\r\n",
        real("another.example.test"),
        real(NAME),
    ],
    ids=["nothing", "noise", "ssh", "half a hello", "no hello", "half a head", "no head", "sni", "allowed"],
)
async def test_what_is_no_tls_for_the_denied_host_is_closed_and_recorded(
    stack: ProxyStack, upstream: RawUpstream, said: bytes
) -> None:
    ingress(stack)
    async with await dial(stack.proxy) as peer:
        await open_tunnel(peer, f"{EVIL}:443")
        await peer.send(said)
        async with asyncio.timeout(10):
            answer = b""
            while part := await peer.channel.some():
                answer += part
    # A page in clear, an alert, or nothing: never the first bytes of a handshake.
    assert answer[:1] in (b"", b"H", b"\x15"), answer
    line = await record(stack, "refusal")
    assert (line["code"], line["host"], line["port"]) == ("host.unknown", EVIL, 443)
    assert not upstream.links


@pytest.mark.parametrize("step", ["tunnel", "hello", "tls"])
async def test_a_client_that_leaves_is_recorded_once(stack: ProxyStack, step: str) -> None:
    peer = await dial(stack.proxy)
    await open_tunnel(peer, f"{EVIL}:443")
    if step == "hello":
        await peer.send(real(EVIL))
        await peer.channel.some()
    elif step == "tls":
        await peer.channel.to_tls(stack.trust("http/1.1"), EVIL)
    await peer.channel.drop()
    assert (await record(stack, "refusal"))["code"] == "host.unknown"


async def test_a_client_that_trusts_others_is_recorded_as_denied(stack: ProxyStack) -> None:
    async with await dial(stack.proxy) as peer:
        await open_tunnel(peer, f"{EVIL}:443")
        with pytest.raises(ssl.SSLError):
            await peer.channel.to_tls(CERTS.trust(("http/1.1",)), EVIL)
    assert (await record(stack, "refusal"))["code"] == "host.unknown"


@pytest.mark.parametrize("host", [NAME, "other.example.test", f"{EVIL}:8443"])
async def test_another_host_inside_is_refused_as_well(
    stack: ProxyStack, upstream: RawUpstream, host: str
) -> None:
    async with await visit(stack) as peer:
        response = await peer.get("/", host)
    assert response.header("egress-denied") == "host.unknown"
    line = await record(stack)
    assert (line["code"], line["host"]) == ("host.unknown", EVIL)
    assert not upstream.links


async def test_a_request_behind_the_first_is_denied_like_it(stack: ProxyStack, upstream: RawUpstream) -> None:
    """Also one in the name of an allowed host; each has a record of its own."""
    second = f"GET /second HTTP/1.1\r\nhost: {NAME}:{upstream.port}\r\n\r\n".encode()
    async with await visit(stack) as peer:
        await peer.send(f"GET /first HTTP/1.1\r\nhost: {EVIL}\r\n\r\n".encode() + second)
        answers = [await peer.response(), await peer.response()]
    assert [answer.header("egress-denied") for answer in answers] == ["host.unknown"] * 2
    await all_closed(stack)
    lines = stack.lines()
    assert [(line["path"], line["host"], line["verdict"]) for line in lines] == [
        ("/first", EVIL, "deny"),
        ("/second", EVIL, "deny"),
    ]
    assert [line["request"] for line in lines] == [answer.header("egress-request") for answer in answers]
    assert not upstream.links


async def test_a_body_is_dropped_within_a_bound(stack: ProxyStack) -> None:
    async with await visit(stack) as peer:
        head = f"PUT /x HTTP/1.1\r\nhost: {EVIL}\r\ncontent-length: 1000000000\r\n\r\n"
        response = await peer.request(head.encode())
        assert (response.status, response.complete) == (403, True)
        with pytest.raises((EndedError, ConnectionError, ssl.SSLError)):
            await flood(peer)
    line = await record(stack)
    assert (line["bytes_up"], line["code"]) == (0, "host.unknown")


async def test_a_head_without_end_is_refused(stack: ProxyStack) -> None:
    async with await visit(stack) as peer:
        await peer.send(f"GET / HTTP/1.1\r\nhost: {EVIL}\r\n".encode() + b"x: " + b"y" * 200_000)
        assert (await peer.response()).status == 431
    assert (await record(stack))["verdict"] == "deny"


# The rules change ---------------------------------------------------------------------------------


async def test_new_rules_close_it_and_the_next_connection_is_decided_anew(
    stack: ProxyStack, upstream: RawUpstream
) -> None:
    opened = policy_of(rules(upstream.port, f"  {EVIL}: {{ports: [443]}}\n"))
    async with await visit(stack) as peer:
        stack.engine.swap(stack.engine.policy)
        assert len(stack.engine.live) == 1
        stack.engine.swap(opened)
        assert await peer.channel.some() == b""
    assert (await record(stack, "refusal"))["code"] == "host.unknown"
    assert not upstream.links


async def test_a_request_that_comes_with_the_new_rules_is_denied_all_the_same(
    stack: ProxyStack, upstream: RawUpstream
) -> None:
    """The connection was denied: no change of the rules makes more of it."""
    async with await visit(stack) as peer:
        stack.engine.policy = policy_of(rules(upstream.port, f"  {EVIL}: {{ports: [443]}}\n"))
        assert (await peer.get("/", EVIL)).header("egress-denied") == "host.unknown"
    assert not upstream.links


async def test_rules_that_change_before_its_hello_decide_about_it(
    stack: ProxyStack, upstream: RawUpstream
) -> None:
    """Rules that opened the host, or deny it for another reason: the old reason is told by neither."""
    async with await dial(stack.proxy) as peer:
        await open_tunnel(peer, f"{EVIL}:443")
        stack.engine.swap(policy_of(rules(upstream.port, f"  {EVIL}: {{allow: []}}\n")))
        await peer.channel.to_tls(stack.trust("http/1.1"), EVIL)
        assert (await peer.get("/", EVIL)).header("egress-denied") == "host.closed"
    assert (await record(stack))["code"] == "host.closed"
    async with await dial(stack.proxy) as peer:
        await open_tunnel(peer, f"{EVIL}:443")
        stack.engine.swap(policy_of(rules(upstream.port, f"  {EVIL}: {{ports: [443]}}\n")))
        with pytest.raises((EndedError, OSError)):
            await peer.channel.to_tls(stack.trust("http/1.1"), EVIL)
    await all_closed(stack)
    assert not upstream.links


async def test_a_stop_of_the_proxy_closes_it(stack: ProxyStack) -> None:
    async with await visit(stack) as peer:
        (found,) = stack.engine.live
        found.drain()
        assert await peer.channel.some() == b""
    assert (await record(stack, "refusal"))["code"] == "host.unknown"


# What it is made of -------------------------------------------------------------------------------


def denied(stack: ProxyStack) -> DeniedConnection:
    who, policy = Identity(SANDBOX), stack.engine.policy
    decision = decide_host(policy, who, EVIL, 443, stack.clock.now())
    return DeniedConnection("c1", who, "test", "connect", Destination("https", EVIL, 443), decision, policy)


async def test_neither_lane_takes_a_connection_of_the_other(stack: ProxyStack) -> None:
    found = denied(stack)
    facts = (found.id, found.identity, found.listener, found.entry, found.destination)
    with pytest.raises(TypeError, match="cannot be admitted"):
        AdmittedConnection(*facts, found.decision, found.policy)
    allowed = decide_host(found.policy, found.identity, "port.example.test", 8443, 0)
    with pytest.raises(TypeError, match="no denial"):
        DeniedConnection(*facts, allowed, found.policy)
    with pytest.raises(TypeError, match="only an admitted connection"):
        await stack.full.dial(found)
    with pytest.raises(TypeError, match="asked for an upstream"):
        await DenialLane(stack.full).dial(found)
    assert not DenialLane(stack.full).still_allows(found, found.policy, 0)


async def test_its_exchanges_get_no_secret_and_are_never_sent(stack: ProxyStack) -> None:
    services = DenialServices(stack.engine, denied(stack), stack.engine.sandboxes[SANDBOX])
    with pytest.raises(TypeError, match="asked for a secret"):
        services.secrets(stack.engine.policy, ("api",), unscrubbed=False)
    with pytest.raises(TypeError, match="about to be sent"):
        services.begin("r1", "GET", ())


async def test_only_a_known_sandbox_and_a_denied_name_are_explained(stack: ProxyStack) -> None:
    lane, decision = DenialLane(stack.full), denied(stack).decision
    allowed = decide_host(stack.engine.policy, Identity(SANDBOX), "port.example.test", 8443, 0)
    assert lane.can_explain(SANDBOX, EVIL, decision)
    assert not lane.can_explain("nobody", EVIL, decision)
    assert not lane.can_explain(SANDBOX, "203.0.113.7", decision)
    assert not lane.can_explain(SANDBOX, EVIL, replace(decision, intercept=False))
    assert not lane.can_explain(SANDBOX, "port.example.test", allowed)
