"""Clients that know no proxy: they ask for a name, dial what they are told, and land at the door."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from egress.proxy.ingress.listener import listen
from tests.proxy.injecting_proxy import NAME, SECRET, certs, made, rules, stall
from tests.proxy.lab.certificates import trusting
from tests.proxy.lab.client import Peer, connect, dial
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.serve_process import ServeProcess, until
from tests.unit.proxy.dns_messages import NOERROR, NXDOMAIN, Told, query, told

AT = "127.0.0.2"
MORE = ["--network", "--transparent", AT, "--dns", f"{AT}:0"]


@pytest.fixture
async def upstream() -> AsyncIterator[RawUpstream]:
    async with RawUpstream(certs.good(NAME)) as upstream:
        yield upstream


@pytest.fixture
def served(tmp_path: Path, upstream: RawUpstream, request: pytest.FixtureRequest) -> Iterator[ServeProcess]:
    """A proxy with these options, and with those that a test asks for."""
    served = made(tmp_path, upstream)
    served.arguments += [*MORE, *getattr(request, "param", ())]
    with served:
        yield served


refusing = pytest.mark.parametrize("served", [["--denied-tls", "refuse"]], indirect=True, ids=["refuse"])
"""A denied host is refused without a page."""


def box(served: ServeProcess) -> dict[str, object]:
    boxes: list[dict[str, object]] = served.ask("GET", "/status")[1]["sandboxes"]  # type: ignore[assignment]
    (found,) = boxes
    return found


def name_server(served: ServeProcess) -> tuple[str, int]:
    host, _, port = box(served)["dns"][0].partition(":")  # type: ignore[index]
    return host, int(port)


def asked(at: tuple[str, int], name: str, kind: type[socket.SocketKind] | int) -> Told:
    with socket.socket(socket.AF_INET, kind) as sock:  # type: ignore[arg-type]
        sock.settimeout(20)
        sock.connect(at)
        if kind == socket.SOCK_DGRAM:
            sock.send(query(name))
            return told(sock.recv(2000))
        data = query(name)
        sock.sendall(len(data).to_bytes(2, "big") + data)
        stream = sock.makefile("rb")
        return told(stream.read(int.from_bytes(stream.read(2), "big")))


async def land(served: ServeProcess, port: int, name: str = NAME) -> Peer:
    """A client that believes to talk to the host itself."""
    pem = await asyncio.to_thread(served.egress, "ca", "export")
    return await connect((AT, port), name, trusting(pem.out.encode(), ("http/1.1",)))


# Where clients land -------------------------------------------------------------------------------


async def test_a_client_without_a_proxy_gets_there_with_the_credential(
    served: ServeProcess, upstream: RawUpstream
) -> None:
    async with await land(served, upstream.port) as peer:
        response = await peer.get("/echo", f"{NAME}:{upstream.port}")
    assert response.status == 200
    assert SECRET.encode() in upstream.links[0].heads[0]
    assert SECRET.encode() not in response.body
    (record,) = await asyncio.to_thread(served.recorded, "exchange")
    assert (record["entry"], record["host"]) == ("sni", NAME)
    text = "\n".join(served.out)
    assert f"clients without proxy support: {AT}:{upstream.port} (transparent)" in text
    assert f"answers {AT}" in text


async def test_a_client_of_a_name_that_no_rule_names_reads_why(
    served: ServeProcess, upstream: RawUpstream
) -> None:
    async with await land(served, upstream.port, "evil.example.test") as peer:
        response = await peer.get("/a", f"evil.example.test:{upstream.port}")
    assert (response.status, response.header("egress-denied")) == (403, "host.unknown")
    (record,) = await asyncio.to_thread(served.recorded, "exchange")
    assert (record["entry"], record["host"], record["code"]) == ("sni", "evil.example.test", "host.unknown")
    assert record["request"] == response.header("egress-request")
    assert upstream.links == []


@refusing
async def test_a_name_that_no_rule_names_is_refused(served: ServeProcess, upstream: RawUpstream) -> None:
    with pytest.raises(ssl.SSLError, match="UNRECOGNIZED_NAME"):
        await land(served, upstream.port, "evil.example.test")
    (record,) = await asyncio.to_thread(served.recorded, "refusal")
    assert (record["entry"], record["host"], record["code"]) == ("sni", "evil.example.test", "host.unknown")
    assert upstream.links == []


async def test_clear_text_is_told_by_its_host_field(tmp_path: Path) -> None:
    text = (
        f"version: 1\nhosts:\n  {NAME}: {{http: [PORT], ports: [], addresses: [127.0.0.1/32], allow: all}}\n"
    )
    async with RawUpstream() as upstream:
        rules = text.replace("PORT", str(upstream.port))
        with ServeProcess(tmp_path, rules, ["--resolve", f"{NAME}=127.0.0.1", *MORE]):
            async with await dial((AT, upstream.port)) as peer:
                response = await peer.get("/echo", f"{NAME}:{upstream.port}")
            assert response.status == 200
            async with await dial((AT, upstream.port)) as peer:
                assert (await peer.get("/", f"evil.example.test:{upstream.port}")).status == 403


# Names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM])
async def test_an_allowed_name_is_the_door_and_any_other_does_not_exist(
    served: ServeProcess, kind: socket.SocketKind
) -> None:
    """S-46 and S-47."""
    at = await asyncio.to_thread(name_server, served)
    found = await asyncio.to_thread(asked, at, NAME, kind)
    assert (found.rcode, found.addresses) == (NOERROR, (AT,))
    found = await asyncio.to_thread(asked, at, "c2VjcmV0.evil.example.test", kind)
    assert (found.rcode, found.addresses) == (NXDOMAIN, ())
    (record,) = await asyncio.to_thread(served.recorded, "refusal")
    assert (record["entry"], record["host"]) == ("dns", "c2vjcmv0.evil.example.test")
    assert (record["code"], record["port"], record["connection"]) == ("host.unknown", 0, "")
    assert served.ask("GET", "/status")[1]["requests"]["refused"] == 1  # type: ignore[index]


async def test_a_flood_of_names_is_folded(served: ServeProcess) -> None:
    """S-81 over DNS."""
    at = await asyncio.to_thread(name_server, served)
    for number in range(60):
        await asyncio.to_thread(asked, at, f"n{number}.evil.example.test", socket.SOCK_DGRAM)

    def counted() -> int:
        folded = sum(int(str(line["count"])) for line in served.records("folded"))
        return folded + len(served.records("refusal"))

    await asyncio.to_thread(until, lambda: counted() == 60)


# New rules ----------------------------------------------------------------------------------------


def with_port(served: ServeProcess, upstream: RawUpstream, port: int) -> str:
    """The rules of the start, and a host on another port."""
    own = rules(upstream.port, f"file:{served.folder / 'secret'}")
    return own + f"  more.example.test: {{ports: [{port}]}}\n"


def unused() -> int:
    with listen(AT, 0) as sock:
        return int(sock.getsockname()[1])


@refusing
async def test_new_rules_open_their_ports_and_close_the_others(
    served: ServeProcess, upstream: RawUpstream
) -> None:
    """What is inside a lane goes on: that is for the rules to say."""
    before = served.rules.read_text(encoding="utf-8")
    port = unused()
    served.write(with_port(served, upstream, port))
    assert (await asyncio.to_thread(served.ask, "POST", "/reload"))[0] == 200
    assert box(served)["transparent"] == [f"{AT}:{each}" for each in sorted((upstream.port, port))]
    with pytest.raises(ssl.SSLError, match="UNRECOGNIZED_NAME"):
        await land(served, port, "evil.example.test")
    async with await stall(served, upstream) as peer:
        served.write(before)
        assert (await asyncio.to_thread(served.ask, "POST", "/reload"))[0] == 200
        with pytest.raises(OSError, match="Connect call failed"):
            await land(served, port)
        upstream.released.set()
        assert (await peer.response()).complete


async def test_a_port_that_cannot_be_opened_is_recorded_and_the_rules_hold(
    served: ServeProcess, upstream: RawUpstream
) -> None:
    with listen(AT, 0) as taken:
        port = int(taken.getsockname()[1])
        served.write(with_port(served, upstream, port))
        assert (await asyncio.to_thread(served.ask, "POST", "/reload"))[0] == 200
        event = served.recorded("listener.failed")[0]
        assert (event["sandbox"], event["address"], event["port"]) == ("default", AT, port)
        assert "in use" in str(event["reason"])
        logged = (await asyncio.to_thread(until, lambda: served.logged("listener.failed")))[0]
        assert "stop the process that listens there" in str(logged["hint"])
        assert str(port) in str(box(served)["failed"])
        async with await land(served, upstream.port) as peer:
            assert (await peer.get("/echo", f"{NAME}:{upstream.port}")).status == 200
    await asyncio.to_thread(served.ask, "POST", "/reload")
    assert box(served)["failed"] == []
    assert f"{AT}:{port}" in json.dumps(box(served)["transparent"])


async def test_a_kill_of_the_sandbox_takes_every_entry(served: ServeProcess, upstream: RawUpstream) -> None:
    at = await asyncio.to_thread(name_server, served)
    assert (await asyncio.to_thread(served.egress, "kill", "default")).status == 0
    with pytest.raises(OSError, match="Connect call failed"):
        await land(served, upstream.port)
    with pytest.raises(OSError, match="refused"):
        await asyncio.to_thread(asked, at, NAME, socket.SOCK_STREAM)
    assert (await asyncio.to_thread(served.egress, "kill", "--undo", "default")).status == 0
    async with await land(served, upstream.port) as peer:
        assert (await peer.get("/echo", f"{NAME}:{upstream.port}")).status == 200
    assert (await asyncio.to_thread(asked, at, NAME, socket.SOCK_DGRAM)).addresses == (AT,)
