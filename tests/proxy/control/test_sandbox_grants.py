"""Grants of a running proxy: made and ended over its control socket, in force for real requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from egress.proxy.clock import SystemClock
from egress.proxy.control.sandbox_grants import MAX_GRANTS
from egress.proxy.control.server import ControlReply
from egress.proxy.lanes.engine import ServedSandbox
from egress.types import Identity
from tests.cli.command import put
from tests.proxy.control.test_service import Running, listed
from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.http1 import Response
from tests.proxy.lab.proxy_stack import NAME, OTHER, SANDBOX, ProxyStack
from tests.proxy.lab.raw_upstream import RawUpstream, Stall
from tests.proxy.test_withdrawal import ended

SECRET = "sesame-open-sesame-42"
POLICY = f"/policy/{SANDBOX}"
TTL = 60

certs = Certificates()


def rules(port: int, token: Path, delegate: str) -> str:
    return f"""\
version: 1
secrets:
  tracker: {{from: "file:{token}", hosts: ["{NAME}:{port}"]}}
hosts:
  {NAME}:
    ports: [{port}]
    addresses: [127.0.0.1/32]
    allow: [{{id: read, methods: [GET], paths: [/echo, /stall]}}]
    deny: [{{id: no-keys, paths: [/keys]}}]
    inject: [{{bearer: tracker}}]
{delegate}"""


def delegate(*ports: int) -> str:
    to = f"to: {{sandboxes: [{SANDBOX}]}}, ttl: 10m"
    bounds = f"ports: {list(ports)}" if ports else "may: [deny]"
    return f'delegate: [{{id: open, {to}, hosts: ["*.example.test"], {bounds}}}]\n'


class MovedClock(SystemClock):
    """The clock of the machine, put forward or back."""

    by = 0
    passed = 0.0
    """Seconds that pass without the time of day."""

    def now(self) -> int:
        return super().now() + self.by

    def now_ns(self) -> int:
        return super().now_ns() + self.by * 10**9

    @staticmethod
    def monotonic() -> float:
        return SystemClock.monotonic() + MovedClock.passed


@dataclass
class Granting:
    """A proxy, its upstream, and the clock that both decisions and grants go by."""

    running: Running
    upstream: RawUpstream
    clock: MovedClock
    token: Path
    ids: list[str] = field(default_factory=list)

    @property
    def stack(self) -> ProxyStack:
        return self.running.stack

    async def ask(self, method: str, name: str = SANDBOX, **body: object) -> ControlReply:
        return await self.running.ask(method, "/policy/*", name=name, **body)

    async def grant(self, kind: str, **body: object) -> ControlReply:
        asked = {"kind": kind, "host": NAME, "port": self.upstream.port, "ttl": TTL, **body}
        reply = await self.running.ask("POST", "/policy/*", name=SANDBOX, **asked)
        self.ids += [str(reply.body.get("id"))]
        return reply

    async def get(self, target: str, method: str = "GET", extra: str = "") -> Response:
        """What the client in the sandbox gets, on a connection of its own."""
        async with await self.stack.visit(self.upstream) as peer:
            lines = f"host: {NAME}:{self.upstream.port}\r\n{extra}content-length: 0\r\n\r\n"
            return await peer.request(f"{method} {target} HTTP/1.1\r\n{lines}".encode())

    async def reload(self, text: str) -> None:
        self.running.rules = rules(self.upstream.port, self.token, text)
        assert (await self.running.ask("POST", "/reload")).body["result"] == "loaded"


@pytest.fixture
async def granting(tmp_path: Path) -> AsyncIterator[Granting]:
    token, clock = put(tmp_path / "token", SECRET), MovedClock()
    async with RawUpstream(certs.good(NAME)) as upstream:
        text = rules(upstream.port, token, delegate(upstream.port))
        async with ProxyStack(tmp_path, certs, text, clock=clock) as stack:
            yield Granting(Running(stack, text), upstream, clock, token)


# In force -----------------------------------------------------------------------------------------


async def test_a_denied_request_is_allowed_by_a_grant_without_the_credential_until_it_expires(
    granting: Granting,
) -> None:
    denied = await granting.get("/echo", "POST")
    assert (denied.status, denied.header("egress-denied")) == (403, "rule.none")
    reply = await granting.grant("allow", methods=["POST"], paths=["/echo"], by="alice")
    assert reply.status == 201
    # The upstream echoes what it got: nothing of ours, and nothing of the sandbox's own in its place.
    allowed = await granting.get("/echo", "POST", "authorization: Bearer mine\r\n")
    assert allowed.status == 200
    assert b"authorization" not in allowed.body.lower()
    # The positive control: where the file allows the request, it carries the credential.
    await granting.get("/echo")
    assert f"Bearer {SECRET}".encode() in granting.upstream.links[-1].heads[-1]
    assert (await granting.get("/echo/other", "POST")).status == 403

    granting.clock.by = TTL
    assert (await granting.get("/echo", "POST")).header("egress-denied") == "rule.none"
    granting.running.service.policies.expire()
    assert not granting.stack.engine.policy.overlays

    lines = granting.stack.exchanges()
    assert [line["verdict"] for line in lines] == ["deny", "allow", "allow", "deny", "deny"]
    (grant,) = granting.ids
    assert lines[1]["rule"] == f"grant#{grant}"
    assert lines[1]["facts"] == {"grant": grant, "delegation": "open", "stripped": "header:authorization"}
    assert lines[1]["injected"] == []
    assert lines[2]["rule"] == f"{NAME}#read"
    (made,), (over,) = granting.running.events("granted"), granting.running.events("grant.expired")
    change = f"allow POST https://{NAME}:{granting.upstream.port}/echo"
    assert (made["sandbox"], made["grant"], made["change"], made["by"]) == (SANDBOX, grant, change, "alice")
    assert (over["grant"], over["change"]) == (grant, change)


async def test_a_clock_that_is_put_back_gives_a_grant_no_more_time(
    granting: Granting, monkeypatch: pytest.MonkeyPatch
) -> None:
    await granting.grant("allow", methods=["POST"], paths=["/echo"])
    granting.clock.by = -600
    granting.running.service.policies.expire()
    assert (await granting.get("/echo", "POST")).status == 200
    monkeypatch.setattr(MovedClock, "passed", float(TTL))
    granting.running.service.policies.expire()
    assert (await granting.get("/echo", "POST")).header("egress-denied") == "rule.none"
    (over,) = granting.running.events("grant.expired")
    assert over["grant"] == granting.ids[0]


async def test_a_deny_ends_what_is_open_and_is_lifted_when_it_is_taken_back(granting: Granting) -> None:
    granting.upstream.script("/stall", Stall())
    async with await granting.stack.visit(granting.upstream) as peer:
        await peer.send(f"GET /stall HTTP/1.1\r\nhost: {NAME}:{granting.upstream.port}\r\n\r\n".encode())
        await granting.upstream.until(
            lambda: bool(granting.upstream.links and granting.upstream.links[-1].heads)
        )
        reply = await granting.grant("deny", host="*.example.test", paths=["/**"])
        assert reply.status == 201
        await ended(peer)
    assert (await granting.get("/echo")).header("egress-denied") == "rule.denied"
    (cut, refused) = granting.stack.exchanges()
    assert cut["code"] == "access.withdrawn"
    assert refused["facts"] == {"grant": granting.ids[0], "delegation": "open"}

    assert (await granting.ask("DELETE", grant="g-none")).status == 404
    assert (await granting.ask("DELETE", grant=granting.ids[0], by="alice")).status == 200
    (revoked,) = granting.running.events("grant.revoked")
    assert (revoked["grant"], revoked["by"]) == (granting.ids[0], "alice")
    assert not granting.stack.engine.policy.overlays


async def test_a_granted_host_is_dialled_at_allowed_addresses_only(granting: Granting) -> None:
    """The file opens loopback for one name; a grant of another name opens nothing of it."""
    assert (await granting.grant("allow", host=OTHER)).status == 201
    async with await granting.stack.visit(granting.upstream, OTHER) as peer:
        answer = await peer.get("/echo", f"{OTHER}:{granting.upstream.port}")
    assert answer.header("egress-denied") == "address.refused"
    assert not granting.upstream.links


async def test_a_canary_is_caught_in_a_granted_request(granting: Granting) -> None:
    text = delegate(granting.upstream.port) + "canaries: {decoy: {like: github, env: DECOY}}\n"
    await granting.reload(text)
    await granting.grant("allow")
    engine = granting.stack.engine
    (planted,) = engine.sandboxes[SANDBOX].planted(engine.policy)
    assert (await granting.get(f"/echo/{planted.value}", "POST")).header("egress-denied") == "canary.seen"


# Beyond the delegation ----------------------------------------------------------------------------


async def test_what_is_not_delegated_is_refused_and_recorded(granting: Granting) -> None:
    beyond: list[dict[str, object]] = [
        {"host": "api.evil.test"},
        {"host": "**.example.test"},
        {"port": 443},
        {"ttl": 601},
    ]
    for change in beyond:
        assert (await granting.grant("allow", **change)).status == 403, change
    chosen = await granting.ask("POST", kind="profile", profile="admin", ttl=1)
    assert chosen.status == 403
    events = granting.running.events("grant.refused")
    assert len(events) == len(beyond) + 1
    assert all("do not delegate" in str(event["reason"]) for event in events)
    assert not granting.stack.engine.policy.overlays
    assert (await granting.get("/echo", "POST")).status == 403


async def test_nothing_but_a_change_can_be_asked_for(granting: Granting) -> None:
    assert (await granting.grant("allow")).status == 201
    for wrong in ({"secret": "tracker"}, {"inject": [{"bearer": "tracker"}]}, {"ttl": -1}, {"paths": ["x"]}):
        assert (await granting.grant("allow", **wrong)).status == 400
    assert (await granting.ask("POST", name="nobody", kind="allow")).status == 404
    assert (await granting.ask("GET", name="nobody")).status == 404
    assert (await granting.ask("DELETE", name="nobody")).status == 404
    assert (await granting.ask("DELETE", grant="g", by=7)).status == 400
    assert (await granting.ask("DELETE", grant="g", force=True)).status == 400


async def test_a_grant_that_could_have_no_effect_is_refused_and_recorded(granting: Granting) -> None:
    port = granting.upstream.port
    closed = delegate(port) + f"deny: [{{id: never, hosts: [{OTHER}]}}]\n"
    await granting.reload(closed)
    reply = await granting.grant("allow", host=OTHER)
    assert reply.status == 409
    assert "rule.denied" in str(reply.body["error"])
    await granting.reload(delegate(port, 443))
    reply = await granting.grant("allow", port=443)
    assert reply.status == 409
    assert "host.port" in str(reply.body["error"])
    assert len(granting.running.events("grant.refused")) == 2


async def test_a_sandbox_has_no_more_grants_than_there_is_room_for(granting: Granting) -> None:
    for _ in range(MAX_GRANTS):
        assert (await granting.grant("deny", paths=["/echo/x"])).status == 201
    assert (await granting.grant("deny", paths=["/echo/x"])).status == 409
    granting.clock.by = TTL
    assert (await granting.grant("deny", paths=["/echo/x"])).status == 201, "the others have expired"
    assert len(set(granting.ids)) == MAX_GRANTS + 2


async def test_what_cannot_be_recorded_is_not_allowed(
    granting: Granting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(granting.stack.audit, "may_work", lambda _: False)
    assert (await granting.grant("allow")).status == 503
    assert not granting.stack.engine.policy.overlays
    assert (await granting.grant("deny")).status == 201, "a deny is never held up"


async def test_no_secret_is_recorded_that_stands_in_a_path(granting: Granting) -> None:
    await granting.stack.secrets.resolve(granting.stack.engine.policy.secrets.values())
    await granting.grant("allow", paths=[f"/echo/{SECRET}"], by=f"bearer of {SECRET}")
    (event,) = granting.running.events("granted")
    assert SECRET not in str(event)
    assert "*" * len(SECRET) in str(event["change"])


# Other rules, other sandboxes ---------------------------------------------------------------------


async def test_other_rules_drop_what_they_do_not_delegate(granting: Granting) -> None:
    await granting.grant("allow", paths=["/echo"])
    await granting.grant("deny", host=OTHER)
    await granting.reload(delegate())
    assert (await granting.get("/echo", "POST")).header("egress-denied") == "rule.none"
    (dropped,) = granting.running.events("grant.dropped")
    assert (dropped["grant"], dropped["reason"]) == (granting.ids[0], "the rules no longer delegate it")
    (left,) = granting.stack.engine.policy.overlays[SANDBOX].grants
    assert left.id == granting.ids[1]
    await granting.reload("")
    assert len(granting.running.events("grant.dropped")) == 2
    assert not granting.stack.engine.policy.overlays


async def test_a_kill_of_a_host_holds_beside_a_grant(granting: Granting) -> None:
    await granting.grant("allow", paths=["/echo"])
    await granting.running.ask("POST", "/kill", name=NAME)
    assert (await granting.get("/echo", "POST")).header("egress-denied") == "rule.denied"
    await granting.running.ask("POST", "/kill", name=NAME, undo=True)
    assert (await granting.get("/echo", "POST")).status == 200, "the grant is still in force"


async def test_a_later_sandbox_of_the_name_has_no_grant(granting: Granting) -> None:
    await granting.grant("allow")
    engine = granting.stack.engine
    engine.set_overlay(SANDBOX, None)
    granting.running.service._forget(SANDBOX)
    (dropped,) = granting.running.events("grant.dropped")
    assert dropped["reason"] == "the sandbox was removed"
    assert (await granting.ask("GET")).body["grants"] == []


async def test_a_grant_of_one_sandbox_is_not_that_of_another(granting: Granting) -> None:
    engine = granting.stack.engine
    engine.sandboxes["other"] = ServedSandbox(Identity("other"), granting.stack.authority, bytes(32))
    await granting.grant("allow")
    reply = await granting.ask("GET", name="other")
    assert (reply.body["grants"], reply.body["delegations"]) == ([], [])
    assert (await granting.ask("POST", name="other", kind="deny", host=NAME, ttl=1)).status == 403


# Telling ------------------------------------------------------------------------------------------


async def test_what_is_in_force_is_told(granting: Granting) -> None:
    await granting.grant("allow", methods=["GET"], paths=["/echo/a"], by="alice")
    reply = await granting.ask("GET")
    body = reply.body
    assert (body["sandbox"], body["profile"], body["profile_in_force"]) == (SANDBOX, None, None)
    assert body["params"] == {}
    assert body["policy"] == granting.stack.engine.policy.digest
    assert listed(await granting.running.ask("GET", "/status"), "sandboxes")[0]["grants"] == 1
    (grant,) = listed(reply, "grants")
    assert (grant["id"], grant["kind"], grant["host"], grant["by"]) == (
        granting.ids[0],
        "allow",
        NAME,
        "alice",
    )
    assert granting.clock.now() < int(str(grant["expires"])) <= granting.clock.now() + TTL
    (delegation,) = listed(reply, "delegations")
    assert (delegation["id"], delegation["ttl"]) == ("open", 600)


async def test_a_chosen_profile_is_in_force_and_in_the_record(granting: Granting) -> None:
    profiles = f"""
profiles:
  default: {{hosts: []}}
  wide: {{hosts: [{NAME}]}}
delegate: [{{id: widen, to: {{profiles: [default]}}, ttl: 10m, profiles: [wide]}}]
"""
    await granting.reload(profiles)
    assert (await granting.get("/echo")).header("egress-denied") == "profile.excluded"
    reply = await granting.ask("POST", kind="profile", profile="wide", ttl=TTL)
    assert reply.status == 201
    assert (await granting.get("/echo")).status == 200
    assert granting.stack.exchanges()[-1]["facts"] == {"chosen_profile": "wide"}
    body = (await granting.ask("GET")).body
    assert (body["profile"], body["profile_in_force"]) == (None, "wide")
    again = await granting.ask("POST", kind="profile", profile="wide", ttl=TTL)
    assert again.status == 409, "two could not both decide"
    granting.clock.by = TTL
    assert (await granting.get("/echo")).header("egress-denied") == "profile.excluded"
