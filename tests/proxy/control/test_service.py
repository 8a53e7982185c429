"""What a running proxy tells about itself, and does when it is told, with all of a proxy behind it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from structlog.testing import capture_logs

from egress.ca.authority import Authority
from egress.ca.constraints import Constraints
from egress.errors import UnreadableError
from egress.proxy.control.kept_revocations import KeptRevocations
from egress.proxy.control.server import Body, ControlReply
from egress.proxy.control.service import ControlService, ProcessHooks
from egress.proxy.dns.name_servers import NameServers
from egress.proxy.ingress.configured_listeners import ConfiguredListeners, ports_of
from egress.proxy.lanes.engine import ServedSandbox
from egress.proxy.pods.cluster_assembly import ClusterPods
from egress.proxy.settings import Settings
from egress.rules.compile.load import LoadResult, RuleText, load
from egress.secrets.source_value import SourceValue
from egress.types import Finding, Identity, Place, Severity
from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.proxy_stack import SANDBOX, ProxyStack
from tests.unit.audit.sample import FACTS, NAME, OPENING, RECORD
from tests.unit.secrets.secret_samples import put

SECRET = "sesame-open-sesame-42"
RULES = """\
version: 1
secrets:
  tracker: {from: "file:TOKEN", hosts: [api.example.com]}
hosts:
  api.example.com: {allow: all, inject: [{bearer: tracker}]}
  docs.example.com: {}
"""

certs = Certificates()


class Running:
    """A service, and the rules that it would read."""

    def __init__(self, stack: ProxyStack, rules: str) -> None:
        self.stack = stack
        self.rules = rules
        self.reasons: list[str] = []
        values = Settings.model_validate({"listen": ("127.0.0.1:0",), "sandbox": SANDBOX})
        self.names = NameServers(stack.engine)
        self.listening = ConfiguredListeners(
            stack.door, self.names, values, b"", lambda: ports_of(stack.engine.policy)
        )
        self.remarks = 0
        self.service = self.served()

    def served(self, kept: KeptRevocations | None = None) -> ControlService:
        """A service for the same engine."""
        process = ProcessHooks(lambda: ["hosts.yaml"], self.read, self.reasons.append, self.remark)
        return ControlService(self.stack.engine, self.stack.door, self.listening, process, kept=kept)

    def remark(self) -> None:
        self.remarks += 1

    def read(self) -> LoadResult:
        if not self.rules:
            raise UnreadableError("file not found: hosts.yaml", "write one")
        return load([RuleText("hosts.yaml", self.rules)])

    async def ask(self, method: str, path: str, **body: object) -> ControlReply:
        given: Body = body
        return await self.service.routes()[method, path](given)

    def events(self, kind: str) -> list[dict[str, object]]:
        return [line for line in self.stack.lines() if line["event"] == kind]


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    token = tmp_path / "token"
    token.write_text(SECRET, encoding="utf-8")
    rules = RULES.replace("TOKEN", str(token))
    async with ProxyStack(tmp_path, certs, rules) as stack:
        running = Running(stack, rules)
        await running.listening.open()
        yield running


def listed(reply: ControlReply, key: str) -> list[dict[str, object]]:
    found = reply.body[key]
    assert isinstance(found, list)
    return found


def variables(reply: ControlReply) -> object:
    rules = reply.body["rules"]
    assert isinstance(rules, dict)
    return rules["variables"]


# Telling ------------------------------------------------------------------------------------------


async def test_it_is_ready_while_it_can_serve(running: Running) -> None:
    assert (await running.ask("GET", "/healthz")).status == 200
    assert (await running.ask("GET", "/readyz")).body == {"ready": True, "problems": []}


@pytest.mark.parametrize("what", ["stopping", "no listener"])
async def test_it_says_why_it_is_not_ready(running: Running, what: str) -> None:
    if what == "stopping":
        running.stack.engine.stopping = True
    else:
        await running.listening.shut(SANDBOX)
    reply = await running.ask("GET", "/readyz")
    assert reply.status == 503
    assert what in str(reply.body["problems"])


async def test_it_is_not_ready_when_nothing_can_be_recorded(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running.stack.audit, "may_work", lambda _: False)
    reply = await running.ask("GET", "/readyz")
    assert reply.status == 503
    assert "audit" in str(reply.body["problems"])


async def test_its_status_has_names_and_numbers_and_no_value(running: Running) -> None:
    reply = await running.ask("GET", "/status")
    text = json.dumps(reply.body)
    assert "tracker" in text
    assert SECRET not in text
    (box,) = listed(reply, "sandboxes")
    assert box["name"] == SANDBOX
    assert box["listeners"] == [str(running.listening.addresses[SANDBOX][0])]


async def test_what_was_recorded_before_its_status_is_in_the_log(running: Running) -> None:
    """`egress run` reads the log once it has the answer, and adds up the requests of its sandbox."""
    running.stack.audit.refusal(NAME)
    log = running.stack.folder / "audit" / "audit-000001.jsonl"
    assert b"refusal" not in log.read_bytes()
    assert (await running.ask("GET", "/status")).status == 200
    assert b"refusal" in log.read_bytes()


async def test_its_status_tells_which_variables_of_the_rules_it_was_started_with(running: Running) -> None:
    values = running.stack.secrets._sources.captured.values
    assert isinstance(values, dict)
    values |= {"TRACKER": SourceValue(SECRET.encode()), "UNNAMED": SourceValue(SECRET.encode())}
    assert variables(await running.ask("GET", "/status")) == {}
    hosts = "hosts: [api.example.com]"
    running.rules = running.rules.replace(
        "secrets:\n", f"secrets:\n  a: {{from: 'env:TRACKER', {hosts}}}\n  b: {{from: 'env:NONE', {hosts}}}\n"
    )
    assert (await running.ask("POST", "/reload")).status == 200
    reply = await running.ask("GET", "/status")
    assert variables(reply) == {"NONE": "not set", "TRACKER": "set"}
    assert SECRET not in json.dumps(reply.body)


async def test_stand_ins_are_told_and_secrets_are_not(running: Running) -> None:
    item = '{placeholder: {secret: tracker, like: openai, in: ["header:authorization"]}}'
    running.rules = running.rules.replace("{bearer: tracker}", item)
    assert (await running.ask("POST", "/reload")).status == 200
    reply = await running.ask("GET", "/placeholders")
    (each,) = listed(reply, SANDBOX)
    assert each["secret"] == "tracker"
    assert SECRET not in json.dumps(reply.body)


async def test_texts_that_hold_a_secret_are_told_by_their_place_alone(running: Running) -> None:
    reply = await running.ask("POST", "/held", texts=["innocent", f"KEY={SECRET}", SECRET, "\ud800"])
    assert (reply.status, reply.body) == (200, {"texts": 4, "held": [1, 2]})
    for wrong in (None, SECRET, [1]):
        reply = await running.ask("POST", "/held", texts=wrong)
        assert reply.status == 400
        assert SECRET not in json.dumps(reply.body)


# Reloading ----------------------------------------------------------------------------------------


async def test_a_reload_is_told_and_recorded(running: Running) -> None:
    before = running.stack.engine.policy.digest
    running.rules += "  new.example.com: {}\n"
    reply = await running.ask("POST", "/reload")
    assert (reply.status, reply.body["result"]) == (200, "loaded")
    (event,) = running.events("reloaded")
    assert (event["policy_before"], event["policy"]) == (before, running.stack.engine.policy.digest)
    assert event["files"] == "hosts.yaml"


async def test_a_refused_reload_is_told_and_recorded_with_its_place(running: Running) -> None:
    running.rules = "version: 1\nhots: {}\n"
    reply = await running.ask("POST", "/reload")
    assert (reply.status, reply.body["result"]) == (409, "refused")
    (event,) = running.events("reload.refused")
    assert (event["file"], event["line"], event["column"]) == ("hosts.yaml", 2, 1)
    running.rules = ""
    await running.ask("POST", "/reload")
    assert running.events("reload.refused")[1]["reason"] == "file not found: hosts.yaml"


async def test_every_problem_of_a_refused_reload_is_logged_with_its_own_hint(running: Running) -> None:
    running.rules = "version: 1\nhots: {}\nsecret: {}\n"
    with capture_logs() as logged:
        await running.ask("POST", "/reload")
    lines = [line for line in logged if line["event"] == "rules.refused"]
    hints = {line["problem"].partition(":")[2][:1]: line["hint"] for line in lines}
    assert hints == {"2": "did you mean `hosts`?", "3": "did you mean `secrets`?"}
    assert all(re.match(r"the rules of 20\S+Z \(\w{12}\) stay in force", line["kept"]) for line in lines)


async def test_a_problem_without_a_hint_is_logged_without_one(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read() -> LoadResult:
        return LoadResult(None, (Finding(Place("hosts.yaml", 1, 1), Severity.ERROR, "it is so"),))

    monkeypatch.setattr(running.service._reloader, "_read", read)
    with capture_logs() as logged:
        await running.ask("POST", "/reload")
    (line,) = [line for line in logged if line["event"] == "rules.refused"]
    assert "hint" not in line
    assert "stay in force" in line["kept"]


async def test_warnings_of_new_rules_are_logged(running: Running) -> None:
    running.rules += '  "*.github.io": {}\n'
    with capture_logs() as logged:
        await running.ask("POST", "/reload")
    (line,) = [line for line in logged if line["event"] == "rules.warning"]
    assert str(line["place"]).startswith("hosts.yaml:")
    assert line["hint"]


async def test_no_reload_gives_a_secret_back(running: Running) -> None:
    """Neither one that was asked for, nor another value at the source."""
    await running.ask("POST", "/kill", name="tracker")
    spec = running.stack.engine.policy.secrets["tracker"]
    running.rules += "  new.example.com: {}\n"
    await running.service.reload("a file has changed")
    await running.ask("POST", "/reload")
    put(Path(spec.reference[0]), f"another-{SECRET}".encode())
    assert await running.stack.secrets.resolve([spec]) == {}
    assert (await running.ask("GET", "/status")).body["killed"] == {
        "sandbox": [],
        "host": [],
        "secret": ["tracker"],
    }
    assert 'egress_secret_available{secret="tracker"} 0' in (await running.ask("GET", "/metrics")).text
    await running.ask("POST", "/kill", name="tracker", undo=True)
    assert "tracker" in await running.stack.secrets.resolve([spec])


async def test_an_authority_that_cannot_sign_for_all_hosts_is_told(running: Running) -> None:
    engine = running.stack.engine
    sandbox = engine.sandboxes[SANDBOX]
    limits = Constraints.for_policy(engine.policy, Identity(SANDBOX))
    sandbox.authority = Authority.create("test", engine.clock.now(), limits)
    running.rules += "  new.example.org: {}\n"
    await running.ask("POST", "/reload")
    (box,) = listed(await running.ask("GET", "/status"), "sandboxes")
    assert box["authority_lacks"] == ["new.example.org"]


# Killing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"), [("api.example.com", "host"), ("tracker", "secret"), (SANDBOX, "sandbox")]
)
async def test_a_kill_and_its_undoing_are_recorded(running: Running, name: str, kind: str) -> None:
    reply = await running.ask("POST", "/kill", name=name)
    assert reply.body == {"kind": kind, "name": name, "connections": 0, "known": True, "kept": False}
    assert name in str((await running.ask("GET", "/status")).body["killed"])
    await running.ask("POST", "/kill", name=name, undo=True)
    assert name not in str((await running.ask("GET", "/status")).body["killed"])
    (killed,), (undone,) = running.events("killed"), running.events("kill.undone")
    assert (killed["kind"], killed["name"], killed["connections"]) == (kind, name, 0)
    assert (undone["kind"], undone["name"]) == (kind, name)


async def test_undoing_what_was_not_done_is_told_and_not_recorded(running: Running) -> None:
    reply = await running.ask("POST", "/kill", name="tracker", undo=True)
    assert reply.body["known"] is False
    assert running.events("killed") == running.events("kill.undone") == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"name": ""}, 400),
        ({"name": 1}, 400),
        ({"name": "x", "kind": "planet"}, 400),
        ({"name": "x", "undo": "yes"}, 400),
        ({"name": "nothing"}, 409),
        ({"name": "a b.example.com"}, 409),
        ({"name": "tracker", "kind": "sandbox"}, 409),
    ],
)
async def test_a_kill_of_nothing_is_refused(running: Running, body: dict[str, object], status: int) -> None:
    assert (await running.ask("POST", "/kill", **body)).status == status
    assert running.events("killed") == []


async def test_a_kept_revocation_is_told_and_recorded(running: Running, tmp_path: Path) -> None:
    stack = running.stack
    running.service = running.served(KeptRevocations(tmp_path))
    reply = await running.ask("POST", "/kill", name="tracker", keep=True)
    assert (reply.status, reply.body["kept"]) == (200, True)
    assert (await running.ask("GET", "/status")).body["kept"] == {"host": [], "secret": ["tracker"]}
    running.service = running.served(KeptRevocations(tmp_path))
    running.service.record_kept()
    assert [(line["name"], line["kept"]) for line in running.events("killed")] == [("tracker", True)] * 2
    spec = stack.engine.policy.secrets["tracker"]
    assert await stack.secrets.resolve([spec]) == {}


async def test_a_revocation_that_cannot_be_kept_is_told_and_in_force(
    running: Running, tmp_path: Path
) -> None:
    running.service = running.served(KeptRevocations(tmp_path / "file"))
    (tmp_path / "file").write_text("in the place of the folder")
    reply = await running.ask("POST", "/kill", name="tracker", keep=True)
    assert reply.status == 500
    assert "cannot be written" in str(reply.body["error"])
    assert (await running.ask("GET", "/status")).body["killed"] == {
        "sandbox": [],
        "host": [],
        "secret": ["tracker"],
    }
    assert [line["name"] for line in running.events("killed")] == ["tracker"]
    assert "kept" not in running.events("killed")[0]


async def test_a_sandbox_is_not_kept_revoked(running: Running, tmp_path: Path) -> None:
    running.service = running.served(KeptRevocations(tmp_path))
    reply = await running.ask("POST", "/kill", name=SANDBOX, keep=True)
    assert reply.status == 409
    assert running.events("killed") == []


async def test_it_is_told_to_stop(running: Running) -> None:
    assert (await running.ask("POST", "/stop")).status == 200
    assert running.reasons == ["the control socket"]


async def test_what_was_done_is_told_in_numbers(running: Running) -> None:
    audit = running.stack.audit
    none = {"exchanges": 0, "tunnels": 0, "refused": 0, "cut": 0, "with_secret": 0, "unrecorded": 0}
    assert (await running.ask("GET", "/status")).body["requests"] == none
    audit.refusal(NAME)
    sent = audit.begin(OPENING)
    audit.exchange(sent, RECORD, FACTS)
    numbers = (await running.ask("GET", "/status")).body["requests"]
    assert numbers == {**none, "exchanges": 1, "refused": 1, "with_secret": 1}


async def test_remarks_are_made_after_new_rules_and_only_then(running: Running) -> None:
    await running.ask("POST", "/reload")
    assert running.remarks == 0
    running.rules += "  new.example.com: {}\n"
    await running.ask("POST", "/reload")
    assert running.remarks == 1


# Canaries -----------------------------------------------------------------------------------------


async def stopped(running: Running) -> object:
    """Those that whoever runs them is to end."""
    return (await running.ask("GET", "/stopped")).body["sandboxes"]


async def alarmed(running: Running, guilty: ServedSandbox) -> None:
    """Say that this one sent its canary, and wait for all that follows."""
    running.stack.engine.on_canary(guilty)
    await asyncio.gather(*running.service._warming)


async def test_a_sandbox_that_sent_a_stopping_canary_loses_its_access_once(running: Running) -> None:
    guilty = running.stack.engine.sandboxes[SANDBOX]
    assert await stopped(running) == []
    await alarmed(running, guilty)
    await alarmed(running, guilty)
    assert await stopped(running) == [SANDBOX]
    (event,) = running.events("killed")
    assert (event["kind"], event["name"]) == ("sandbox", SANDBOX)
    assert running.service.withdrawals.all()["sandbox"] == [SANDBOX]
    assert not running.listening.addresses.get(SANDBOX)


async def test_in_a_cluster_the_canary_of_a_stranger_does_not_shut_the_gateway(running: Running) -> None:
    """Everybody without rights is the sandbox of the gateway's own listeners."""
    running.service._pods = cast("ClusterPods", object())
    await alarmed(running, running.stack.engine.sandboxes[SANDBOX])
    assert running.events("killed") == []
    assert running.listening.addresses.get(SANDBOX)


async def test_one_that_got_its_access_back_is_not_to_end(running: Running) -> None:
    await alarmed(running, running.stack.engine.sandboxes[SANDBOX])
    await running.ask("POST", "/kill", kind="sandbox", name=SANDBOX, undo=True)
    assert await stopped(running) == []
    # Taken back by hand, it goes on: nobody said that its processes are to end.
    await running.ask("POST", "/kill", kind="sandbox", name=SANDBOX)
    assert await stopped(running) == []


async def test_the_next_one_of_its_name_does_not_answer_for_it(running: Running) -> None:
    guilty = running.stack.engine.sandboxes[SANDBOX]
    running.stack.engine.sandboxes[SANDBOX] = replace(guilty)
    await alarmed(running, guilty)
    assert running.events("killed") == []
    assert running.service.withdrawals.all()["sandbox"] == []
    assert await stopped(running) == []
    await alarmed(running, running.stack.engine.sandboxes[SANDBOX])
    running.stack.engine.sandboxes[SANDBOX] = guilty
    assert await stopped(running) == []


async def test_planted_values_are_told_to_whoever_plants_them(running: Running) -> None:
    running.rules += "canaries: {decoy: {like: aws}}\n"
    assert (await running.ask("POST", "/reload")).status == 200
    (each,) = listed(await running.ask("GET", "/placeholders"), SANDBOX)
    assert (each["canary"], each["like"]) == ("decoy", "aws")
    assert str(each["value"]).startswith("AKIA")


# Barred by an earlier proxy -----------------------------------------------------------------------


async def access(running: Running) -> object:
    return (await running.ask("GET", "/stopped")).body["access"]


@pytest.mark.parametrize(("is_offender", "offenders"), [(True, [SANDBOX]), (False, [])])
async def test_a_sandbox_that_an_earlier_proxy_revoked_has_no_access_until_it_is_restored(
    running: Running, is_offender: bool, offenders: list[str]
) -> None:
    assert await access(running) == {SANDBOX: True}
    reply = await running.ask("POST", "/bar", name=SANDBOX, canary=is_offender)
    assert (reply.status, reply.body) == (200, {"name": SANDBOX})
    assert (await stopped(running), await access(running)) == (offenders, {SANDBOX: False})
    assert not running.listening.addresses.get(SANDBOX)
    assert [line["name"] for line in running.events("killed")] == [SANDBOX]
    await running.ask("POST", "/kill", kind="sandbox", name=SANDBOX, undo=True)
    assert (await stopped(running), await access(running)) == ([], {SANDBOX: True})


@pytest.mark.parametrize(
    "body", [{}, {"name": SANDBOX}, {"name": "nobody", "canary": True}, {"name": SANDBOX, "canary": 1}]
)
async def test_what_is_no_sandbox_is_not_barred(running: Running, body: dict[str, object]) -> None:
    assert (await running.ask("POST", "/bar", **body)).status == 400
    assert running.events("killed") == []


async def test_lines_that_wait_are_written_when_a_reader_asks(running: Running) -> None:
    def written() -> bool:
        files = (running.stack.folder / "audit").glob("*.jsonl")
        return any('"name":"waits.example"' in file.read_text() for file in files)

    running.stack.engine.audit.event("killed", kind="host", name="waits.example", connections=0)
    assert not written()
    assert (await running.ask("POST", "/flush")).status == 200
    assert written()
