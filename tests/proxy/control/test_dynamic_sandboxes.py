"""Sandboxes that come and go: what each is given is its own, and nothing of it is left behind."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from egress.ca.authority import Authority
from egress.errors import UsageError
from egress.proxy.control import dynamic_sandboxes as module
from egress.proxy.control.dynamic_sandboxes import DynamicSandboxes
from egress.proxy.control.sandbox_routes import SandboxRoutes
from egress.proxy.dns.name_servers import NameServers
from egress.proxy.ingress.listener import Listener, ListenerKind, listen, listen_udp
from egress.proxy.lanes.engine import ServedSandbox
from egress.rules.compile.grants import request_terms
from egress.rules.decide.overlay import Grant, Overlay
from egress.types import Identity, Limit, Place, Rate
from tests.proxy.injecting_proxy import certs
from tests.proxy.lab.certificates import trusting
from tests.proxy.lab.channel import EndedError
from tests.proxy.lab.client import Peer, connect
from tests.proxy.lab.proxy_stack import NAME, SANDBOX, ProxyStack, policy_of
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.unit.proxy.dns_messages import query, told

RULES = """\
version: 1
secrets:
  tracker: {from: "file:TOKEN", hosts: ["NAME:PORT"]}
profiles:
  coding: {hosts: [NAME]}
hosts:
  NAME:
    ports: [PORT]
    addresses: [127.0.0.1/32]
    allow: all
    inject: [{placeholder: {secret: tracker, like: openai, in: ["header:authorization"]}}]
"""
SECRET = "sesame-open-sesame-42"
PARAMETERS = """\
version: 1
parameters: {repo: {pattern: "acme/[a-z]+"}}
hosts: {api.example.test: {paths: ["/{param.repo}"]}}
"""


@pytest.fixture
async def upstream() -> AsyncIterator[RawUpstream]:
    async with RawUpstream(certs.good(NAME)) as upstream:
        yield upstream


class House:
    """A proxy to which sandboxes are added."""

    def __init__(self, stack: ProxyStack, *, constrain: bool = False) -> None:
        self.stack = stack
        self.names = NameServers(stack.engine)
        self.sandboxes = DynamicSandboxes(
            stack.engine, stack.door, self.names, stack.full.tls, constrain=constrain
        )

    def add(self, name: str) -> ServedSandbox:
        return self.sandboxes.add(Identity(name, "coding"))

    async def hand_over(self, name: str, kind: ListenerKind = "proxy") -> tuple[str, int]:
        sock = (listen_udp if kind == "dns-udp" else listen)("127.0.0.3", 0)
        try:
            await self.sandboxes.adopt(Listener(f"{name}-{kind}", kind, name, sock))
        except BaseException:
            sock.close()
            raise
        host, port = sock.getsockname()
        return str(host), int(port)

    async def visit(self, at: tuple[str, int], authority: Authority, upstream: RawUpstream) -> Peer:
        trust = trusting(authority.certificate_pem, ("http/1.1",))
        return await connect(("", upstream.port), NAME, trust, proxy=at)

    def events(self, kind: str) -> list[dict[str, object]]:
        return [line for line in self.stack.lines() if line["event"] == kind]


@pytest.fixture
async def house(tmp_path: Path, upstream: RawUpstream) -> AsyncIterator[House]:
    token = tmp_path / "token"
    token.write_text(SECRET, encoding="utf-8")
    rules = RULES.replace("NAME", NAME).replace("PORT", str(upstream.port)).replace("TOKEN", str(token))
    async with ProxyStack(tmp_path, certs, rules) as stack:
        house = House(stack)
        yield house
        await house.names.close()


# Coming -------------------------------------------------------------------------------------------


async def test_each_has_an_authority_and_stand_ins_of_its_own(house: House) -> None:
    policy = house.stack.engine.policy
    one, two = house.add("one"), house.add("two")
    assert one.identity == Identity("one", "coding")
    assert two.identity == Identity("two", "coding")
    assert one.authority.fingerprint != two.authority.fingerprint
    assert {each.value for each in one.placeholders(policy).all}.isdisjoint(
        each.value for each in two.placeholders(policy).all
    )
    (first, second) = house.events("sandbox.added")
    assert [first["sandbox"], second["sandbox"]] == ["one", "two"]
    assert (first["profile"], first["authority"]) == ("coding", one.authority.fingerprint)
    assert sorted(house.sandboxes) == ["one", "two"]


async def test_what_was_handed_over_serves_its_sandbox(house: House, upstream: RawUpstream) -> None:
    box = house.add("box")
    (stand_in,) = box.placeholders(house.stack.engine.policy).all
    at = await house.hand_over("box")
    async with await house.visit(at, box.authority, upstream) as peer:
        extra = f"authorization: Bearer {stand_in.value}\r\n"
        assert (await peer.get("/echo", f"{NAME}:{upstream.port}", extra)).status == 200
    assert f"Bearer {SECRET}".encode() in upstream.links[0].heads[0]
    assert house.stack.exchanges()[0]["sandbox"] == "box"
    assert house.sandboxes.listeners("box") == ["box-proxy"]
    assert house.sandboxes.listeners("nobody") == []


async def test_one_does_not_trust_the_authority_of_another(house: House, upstream: RawUpstream) -> None:
    """S-42, and a stand-in of another sandbox (S-05) is worth nothing."""
    one, two = house.add("one"), house.add("two")
    at = await house.hand_over("one")
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        await house.visit(at, two.authority, upstream)
    (stand_in,) = two.placeholders(house.stack.engine.policy).all
    async with await house.visit(at, one.authority, upstream) as peer:
        extra = f"authorization: Bearer {stand_in.value}\r\n"
        await peer.get("/echo", f"{NAME}:{upstream.port}", extra)
    assert all(SECRET.encode() not in head for link in upstream.links for head in link.heads)


async def test_canaries_are_made_from_what_is_handed_in(house: House) -> None:
    """What lies in a sandbox is looked for by the next proxy too; its stand-ins are new."""
    policy = policy_of("version: 1\ncanaries: {decoy: {like: aws}}\n")

    def planted(sandbox: ServedSandbox) -> str:
        [each] = sandbox.planted(policy)
        return each.value

    first = house.add("one")
    again = house.sandboxes.add(Identity("again", "coding"), first.canary_key)
    other = house.add("other")
    assert planted(first) == planted(again)
    assert planted(first) != planted(other)
    assert first.placeholder_key != again.placeholder_key
    assert first.canary_key not in (first.placeholder_key, b"")


async def test_an_authority_is_constrained_where_that_is_asked_for(house: House) -> None:
    limits = House(house.stack, constrain=True).sandboxes.add(Identity("box", "coding")).authority.constraints
    assert limits is not None
    assert limits.names == (NAME,)


@pytest.mark.parametrize(
    ("name", "profile", "why"),
    [
        ("Box", None, "not a name"),
        ("../box", None, "not a name"),
        ("", None, "not a name"),
        ("x" * 64, None, "not a name"),
        (SANDBOX, None, "already"),
        ("box", "gardening", "no such profile"),
        ("box", None, "no such profile"),
    ],
)
async def test_what_cannot_be_is_refused(house: House, name: str, profile: str | None, why: str) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        house.sandboxes.add(Identity(name, profile))
    assert caught.value.hint
    assert house.events("sandbox.added") == []
    assert list(house.stack.engine.sandboxes) == [SANDBOX]


async def test_a_sandbox_has_its_parameters_and_a_value_that_does_not_fit_is_refused(house: House) -> None:
    engine = house.stack.engine
    engine.swap(policy_of(PARAMETERS))
    routes = SandboxRoutes(engine, house.sandboxes, lambda _: None).routes()
    add = routes["POST", "/sandboxes"]
    made = await add({"name": "box", "params": {"repo": "acme/site"}})
    assert made.status == 201
    assert engine.sandboxes["box"].identity.parameters == (("repo", "acme/site"),)
    for params, said in [
        ({"repo": "other/site"}, "does not fit its pattern"),
        ({"repos": "acme/site"}, "declare no parameter repos"),
        ({"repo": "acme/../x"}, "cannot have this value"),
    ]:
        refused = await add({"name": "other", "params": params})
        assert refused.status == 409
        assert said in str(refused.body)
        assert "parameters of the rules: repo" in str(refused.body)
    for wrong in (["repo"], "repo=acme/site", {"repo": 1}, {"repo": None}):
        assert (await add({"name": "other", "params": wrong})).status == 400
    assert "other" not in engine.sandboxes


async def test_there_are_only_so_many(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SANDBOXES", 2)
    for name in ("one", "two"):
        house.add(name)
    with pytest.raises(UsageError, match="2 sandboxes already"):
        house.add("three")
    await house.sandboxes.remove("one")
    house.add("three")


# Listeners ----------------------------------------------------------------------------------------


async def test_names_have_the_address_of_the_door(house: House) -> None:
    house.add("box")
    at = await house.hand_over("box", "dns-udp")

    def asked() -> bytes:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(20)
            sock.connect(at)
            sock.send(query(NAME))
            return sock.recv(2000)

    assert told(await asyncio.to_thread(asked)).addresses == ("127.0.0.3",)


async def test_a_name_server_without_an_address_is_refused(house: House) -> None:
    house.add("box")
    for sock in (listen_udp("0.0.0.0", 0), listen_udp("::1", 0)):
        with sock, pytest.raises(UsageError, match="no IPv4 address"):
            await house.sandboxes.adopt(Listener("names", "dns-udp", "box", sock))


async def test_only_what_was_added_takes_listeners(house: House) -> None:
    for name in (SANDBOX, "nobody"):
        with pytest.raises(UsageError, match="no such sandbox"):
            await house.hand_over(name)
        with pytest.raises(UsageError, match="no such sandbox"):
            await house.sandboxes.release(name)


async def test_there_are_only_so_many_listeners(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LISTENERS", 1)
    house.add("box")
    at = await house.hand_over("box")
    with pytest.raises(UsageError, match="1 listeners already"):
        await house.hand_over("box")
    await house.sandboxes.shut("box")
    with pytest.raises(UsageError, match="1 listeners already"):
        await house.hand_over("box")
    await house.sandboxes.reopen("box")
    await house.sandboxes.release("box")
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection(*at)
    await house.hand_over("box")


async def test_a_revoked_sandbox_is_not_served_and_has_its_listeners_again_when_it_is_restored(
    house: House, upstream: RawUpstream
) -> None:
    box = house.add("box")
    at, names = await house.hand_over("box"), await house.hand_over("box", "dns-tcp")
    await house.sandboxes.shut("box")
    for refused in (at, names):
        with pytest.raises(OSError, match="Connect call failed"):
            await asyncio.open_connection(*refused)
    assert {each.name for each in house.sandboxes.kept_listeners()} == {"box-proxy", "box-dns-tcp"}
    # A listener that comes meanwhile is kept like the others, and refuses as they do.
    late = await house.hand_over("box", "transparent")
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection(*late)
    assert house.sandboxes.listeners("box") == []
    await house.sandboxes.reopen("box")
    async with await house.visit(at, box.authority, upstream) as peer:
        assert (await peer.get("/echo", f"{NAME}:{upstream.port}")).status == 200
    (await asyncio.open_connection(*names))[1].close()
    (await asyncio.open_connection(*late))[1].close()
    assert sorted(house.sandboxes.listeners("box")) == ["box-dns-tcp", "box-proxy", "box-transparent"]
    await house.hand_over("box", "dns-udp")
    await house.sandboxes.shut(SANDBOX)
    await house.sandboxes.reopen(SANDBOX)


async def test_the_removal_of_a_revoked_sandbox_closes_what_it_had(house: House) -> None:
    house.add("box")
    at = await house.hand_over("box")
    await house.sandboxes.shut("box")
    await house.sandboxes.remove("box")
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection(*at)
    assert list(house.sandboxes.kept_listeners()) == []


# Going --------------------------------------------------------------------------------------------


async def test_a_removal_leaves_nothing(house: House, upstream: RawUpstream) -> None:
    """S-80: what is open ends, and what was counted and resumed is forgotten."""
    engine, sessions = house.stack.engine, house.stack.full.tls._sessions
    box = house.add("box")
    at, names = await house.hand_over("box"), await house.hand_over("box", "dns-tcp")
    bounds = (Limit(Place("hosts.yaml", 1, 1), requests=Rate(5, 60, 5)),)
    engine.counts.spender("box")(bounds)
    engine.counts.spender(SANDBOX)(bounds)
    async with await house.visit(at, box.authority, upstream) as peer:
        assert (await peer.get("/echo", f"{NAME}:{upstream.port}")).status == 200
        assert await house.sandboxes.remove("box") == 1
        with pytest.raises((EndedError, OSError)):
            await peer.get("/echo", f"{NAME}:{upstream.port}")
    for place in (at, names):
        with pytest.raises(OSError, match="Connect call failed"):
            await asyncio.open_connection(*place)
    assert "box" not in engine.sandboxes
    assert "box" not in house.sandboxes
    assert {key[0] for key in engine.counts._arrivals} == {SANDBOX}
    assert {key.sandbox for key in sessions._kept} == set()
    (event,) = house.events("sandbox.removed")
    assert (event["sandbox"], event["connections"]) == ("box", 1)
    assert house.add("box").authority.fingerprint != box.authority.fingerprint


async def test_a_grant_is_not_that_of_a_later_sandbox_of_the_name(house: House) -> None:
    """Also where the first one ends without a word: what is added begins without grants."""
    terms = request_terms("allow", 60, "other.example.test")
    for end in ("removed", "gone"):
        box = house.add("box")
        grant = Grant("g-1", terms, house.stack.clock.now() + 60, "x", Place("hosts.yaml", 1, 1))
        house.stack.engine.set_overlay("box", Overlay(box.identity, (grant,)))
        assert house.stack.engine.policy.overlays.keys() == {"box"}
        if end == "removed":
            await house.sandboxes.remove("box")
            assert not house.stack.engine.policy.overlays
        else:
            del house.sandboxes._added["box"], house.stack.engine.sandboxes["box"]
    house.add("box")
    assert not house.stack.engine.policy.overlays


@pytest.mark.parametrize("how", ["remove", "shut", "release"])
async def test_nobody_comes_under_a_name_whose_listeners_are_being_closed(
    house: House, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """His would be closed with them."""
    refused: list[str] = []
    close = house.names.close_sandbox

    async def meanwhile(name: str) -> None:
        house.sandboxes._added.pop(name, None)
        house.stack.engine.sandboxes.pop(name, None)
        with pytest.raises(UsageError, match="still closing"):
            house.add(name)
        house.add("other")
        refused.append(name)
        await close(name)

    house.add("box")
    with monkeypatch.context() as patch:
        patch.setattr(house.names, "close_sandbox", meanwhile)
        await getattr(house.sandboxes, how)("box")
    assert refused == ["box"]
    house.add("box")


async def test_the_sandbox_of_the_settings_is_not_removed(house: House) -> None:
    for name in (SANDBOX, "nobody"):
        with pytest.raises(UsageError, match="no added sandbox has this name"):
            await house.sandboxes.remove(name)
    assert SANDBOX in house.stack.engine.sandboxes


async def test_a_name_is_free_when_its_last_connection_is_closed(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(house.stack.door, "connections", lambda _: 1)
    with pytest.raises(UsageError, match="still closing"):
        house.add("box")
