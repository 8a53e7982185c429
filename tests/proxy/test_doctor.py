"""`egress doctor` beside real proxies, ports, upstreams and engines, whole and broken in one way each."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from tempfile import TemporaryDirectory
from typing import override

import pytest

from egress.ca import AuthorityStore
from egress.cli import control_client as cli
from egress.doctor import audit, clock, container_engine, ipv6, listeners, running_proxy, upstreams, variables
from egress.doctor.diagnosis import Diagnosis, Level
from egress.doctor.proxy_under_check import ProxyUnderCheck
from egress.doctor.running_proxy import RunningProxy
from egress.doctor.upstreams import ProbeResult, probe, resolver_of
from egress.proxy.ingress.listener import listen, listen_udp
from egress.proxy.lanes.dial import DialError
from egress.proxy.lanes.resolve import FixedResolver, SystemResolver
from egress.proxy.setting_values import ListenAddress
from tests.cli.command import Outcome, egress, put
from tests.proxy.injecting_proxy import BLIND, NAME, SECRET, certs, made
from tests.proxy.lab.raw_upstream import RawUpstream, Say, Stall
from tests.proxy.serve_process import ServeProcess
from tests.proxy.test_pins import RIGHT, WRONG
from tests.unit.doctor.proxy_setups import answering, by_name, is_content, needs_care, only, patient

SECOND = "second.example.test"


# Beside a running proxy ---------------------------------------------------------------------------


def options(served: ServeProcess) -> list[str]:
    """The options of the proxy that the doctor has as well."""
    words = served.arguments
    at = words.index("--drain")
    return [*words[:at], *words[at + 2 :]]


def asked(served: ServeProcess, *more: str) -> Outcome:
    # An engine that runs on this machine is none of the tests' business.
    env = {**served.env, "DOCKER_HOST": "unix:///nowhere/docker.sock"}
    return egress("doctor", *options(served), *more, cwd=served.folder, env=env)


def checks(outcome: Outcome) -> dict[tuple[str, str], dict[str, str]]:
    """What `--json` says, by group and name."""
    assert outcome.err == "", outcome
    found: list[dict[str, str]] = json.loads(outcome.out)["checks"]
    return {(item["group"], item["name"]): item for item in found}


async def test_a_proxy_that_is_well_is_found_well_and_its_upstreams_are_sent_nothing(tmp_path: Path) -> None:
    async with RawUpstream(certs.good(NAME)) as upstream:
        with made(tmp_path, upstream) as served:
            outcome = await asyncio.to_thread(asked, served, "--json", "--connections", "10")
        port = upstream.port
        assert [link.heads for link in upstream.links] == [[], []]
        assert [link.established for link in upstream.links].count(True) == 1
    found = checks(outcome)
    assert outcome.status == 0, outcome
    assert {item["level"] for item in found.values()} <= {"ok", "note"}, outcome
    assert "verified at 127.0.0.1" in found["upstreams", f"{NAME}:{port}"]["fact"]
    assert "clients verify it" in found["upstreams", f"{BLIND}:{port}"]["fact"]
    assert f"pid {served.process.pid}" in found["running", "process"]["fact"]
    assert found["running", "rules"]["level"] == "ok"
    assert found["authority", "default"]["level"] == "ok"
    assert found["audit", "log"]["level"] == "ok"
    assert found["clock", "upstreams"]["level"] == "ok"
    assert SECRET not in outcome.said


async def test_what_is_wrong_with_it_is_found_and_is_the_status(tmp_path: Path) -> None:
    """Several things at once: each has its line, and none hides another."""
    async with RawUpstream(certs.good(NAME)) as upstream:
        with made(tmp_path, upstream) as served:
            good = served.rules.read_text("utf-8")
            served.write(good + "hots: {}\n")
            assert (await asyncio.to_thread(served.ask, "POST", "/reload"))[0] == 409
            AuthorityStore(served.state / "ca").path("default").chmod(0o644)
            (served.state / "audit.key").write_bytes(bytes(32))
            outcome = await asyncio.to_thread(asked, served, "--offline")
        assert upstream.links == []
    assert outcome.status == 1
    lines = [line.split(maxsplit=2) for line in outcome.out.splitlines()]
    wrong = {words[1]: words[2] for words in lines if words[:1] == ["fault"]}
    number = good.count("\n") + 1
    assert "unknown key" in wrong[f"hosts.yaml:{number}:1"]
    assert "it refused the current rules" in wrong["rules"]
    assert "open to other users" in wrong["default"]
    assert "not written with this key" in wrong["log"]
    assert outcome.out.count("\n           fix: ") >= 4


async def test_a_variable_that_only_the_proxy_has_is_fine_while_it_runs(tmp_path: Path) -> None:
    """From another shell. There, a program that is led to the proxy has somebody to talk to, or has not."""
    async with RawUpstream(certs.good(NAME)) as upstream:
        with made(tmp_path, upstream, source="env:TRACKER") as served:
            words = [*options(served), "--offline", "--json", "--listen", f"127.0.0.1:{served.port}"]
            env = {
                "EGRESS_RUNTIME_DIR": str(served.runtime),
                "HTTPS_PROXY": f"http://127.0.0.1:{served.port}",
            }
            beside_it = await asyncio.to_thread(egress, "doctor", *words, cwd=tmp_path, env=env)
            served.kill()
            alone = await asyncio.to_thread(egress, "doctor", *words, cwd=tmp_path, env=env)
    assert (beside_it.status, alone.status) == (0, 1)
    found = checks(beside_it)
    assert found["secrets", "tracker"]["level"] == "ok"
    assert "but in the running proxy" in found["secrets", "tracker"]["fact"]
    assert found["variables", "proxy"]["level"] == "note"
    assert found["running", "rules"]["fact"].startswith("it uses the rules checked above: hosts")
    found = checks(alone)
    assert found["secrets", "tracker"]["level"] == "fault"
    assert found["secrets", "tracker"]["fact"] == "`env:TRACKER` is not set in this shell"
    assert found["variables", "proxy"]["level"] == "warning"
    assert "where no proxy runs" in found["variables", "proxy"]["fact"]


async def test_what_changed_under_it_is_noticed(tmp_path: Path) -> None:
    """Other rules are named here, and its authority was rotated on the disk."""
    async with RawUpstream(certs.good(NAME)) as upstream:
        with made(tmp_path, upstream) as served:
            put(tmp_path / "other.yaml", "version: 1\nhosts:\n  a.example.test: {}\n")
            assert (await asyncio.to_thread(served.egress, "ca", "rotate")).status == 0
            words = ["--rules", "other.yaml", "--offline", "--json", "--listen", "127.0.0.1:0"]
            outcome = await asyncio.to_thread(served.egress, "doctor", *words)
    found = checks(outcome)
    assert found["running", "rules"]["level"] == "warning"
    assert found["running", "sandbox default"]["level"] == "warning"
    assert "another authority" in found["running", "sandbox default"]["fact"]


async def test_one_that_hangs_is_found_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_proxy, "ANSWER_TIMEOUT", 0.3)
    async with RawUpstream(certs.good(NAME)) as upstream:
        with made(tmp_path, upstream) as served:
            found = beside(tmp_path, served.runtime)
            assert is_content(running_proxy.check(found, await running_proxy.ask(found), None))
            served.signal(signal.SIGSTOP)
            try:
                told = only(running_proxy.check(found, await running_proxy.ask(found), None))
            finally:
                served.signal(signal.SIGCONT)
    needs_care(told, Level.FAULT, "no proxy answered within")


async def test_one_that_was_killed_left_nothing_that_looks_like_a_proxy(tmp_path: Path) -> None:
    async with RawUpstream(certs.good(NAME)) as upstream:
        with made(tmp_path, upstream) as served:
            served.kill()
            assert (served.runtime / "control.sock").is_socket()
            found = beside(tmp_path, served.runtime)
            assert is_content(running_proxy.check(found, await running_proxy.ask(found), None))
            log = by_name(audit.check(patient(tmp_path, settings={"state_dir": served.state})))["log"]
    assert log.level is Level.OK


def beside(folder: Path, runtime: Path) -> ProxyUnderCheck:
    """One without rules, that asks the proxy there."""
    return answering(patient(folder, None), lambda: cli.ask_proxy("GET", "/status", None, runtime))


# Secrets ------------------------------------------------------------------------------------------

PLANTED = {
    "file": "planted-in-a-file-4f2a",
    "env": "planted-in-a-variable-9c1e",
    "command": "planted-by-a-command-77b0",
    "broken": "planted-by-a-failing-one-5d3f",
    "short": "pl4nt-x",
    "unsendable": "planted-and\nunsendable-0a9b",
    "password": "planted-as-a-password-e2c8",
    "proxy": "planted-in-a-proxy-31aa",
    "engine": "planted-in-an-engine-64dd",
    "bundle": "planted-in-a-bundle-b0b7",
}


def planted(folder: Path) -> tuple[list[str], dict[str, str]]:
    """A secret wherever one can be; most of them beside a fault that somebody could quote."""
    script = put(folder / "kept/tool", f"#!/bin/sh\necho {PLANTED['command']}\n")
    broken = put(folder / "kept/broken", f"#!/bin/sh\necho {PLANTED['broken']} | tee /dev/stderr; exit 3\n")
    for program in (script, broken):
        program.chmod(0o700)
    sources = {
        "file": f"file:{put(folder / 'kept/file', PLANTED['file'])}",
        "env": "env:PLANTED",
        "command": f"command:{script}",
        "broken": f"command:{broken}",
        "short": f"file:{put(folder / 'kept/short', PLANTED['short'])}",
        "unsendable": f"file:{put(folder / 'kept/unsendable', PLANTED['unsendable'])}",
    }
    named = "".join(f'  {name}: {{from: "{at}", hosts: [a.example.test]}}\n' for name, at in sources.items())
    put(folder / "hosts.yaml", f"version: 1\nsecrets:\n{named}hosts:\n  a.example.test: {{allow: all}}\n")
    put(folder / "password", PLANTED["password"]).chmod(0o644)
    env = {
        "PLANTED": PLANTED["env"],
        "HTTPS_PROXY": f"http://any:{PLANTED['proxy']}@127.0.0.1:3128",
        "DOCKER_HOST": f"tcp://any:{PLANTED['engine']}@127.0.0.1:1",
        "SSL_CERT_FILE": str(put(folder / "kept/bundle.pem", PLANTED["bundle"])),
        "EGRESS_LISTENN": PLANTED["proxy"],
    }
    return ["--rules", "hosts.yaml", "--password-file", "password", "--listen", "127.0.0.1:0"], env


@pytest.mark.parametrize("more", [[], ["--json"], ["--container"], ["--state-dir", "/dev/null/x"]])
def test_no_secret_is_in_anything_that_is_said(more: list[str], tmp_path: Path) -> None:
    words, env = planted(tmp_path)
    outcome = egress("--debug", "doctor", *words, "--offline", *more, cwd=tmp_path, env=env)
    assert outcome.status == 1
    assert outcome.err == ""
    for where, value in PLANTED.items():
        for line in value.split("\n"):
            assert line not in outcome.said, where
    # The twin: each of them was really come by, and told about.
    for name in ("file", "command", "broken", "short", "unsendable", "password"):
        assert name in outcome.out


# Listeners ----------------------------------------------------------------------------------------


@contextmanager
def taken(*sockets: socket.socket) -> Iterator[int]:
    with ExitStack() as stack:
        for sock in sockets:
            stack.enter_context(sock)
        yield int(sockets[0].getsockname()[1])


def free_port() -> int:
    with listen("127.0.0.1", 0) as sock:
        return int(sock.getsockname()[1])


async def test_a_port_that_is_free_is_fine_and_stays_free(tmp_path: Path) -> None:
    port = free_port()
    found = patient(
        tmp_path,
        f"version: 1\nhosts: {{a.example.test: {{ports: [{port}]}}}}\n",
        listen=f"127.0.0.1:{port}",
        transparent="127.0.0.2",
        dns=f"127.0.0.2:{port}",
        network=True,
    )
    # The transparent entry and the names want one port here: each is tried alone.
    told = await listeners.check(found, RunningProxy())
    assert {item.fact for item in told} == {"free"}
    assert len(told) == 3
    listen("127.0.0.1", port).close()


async def test_a_port_that_is_taken_is_a_fault_that_names_who_has_it(tmp_path: Path) -> None:
    with taken(listen("127.0.0.1", 0)) as port:
        told = only(await listeners.check(patient(tmp_path, listen=f"127.0.0.1:{port}"), RunningProxy()))
    needs_care(told, Level.FAULT, "address already in use", f"(pid {os.getpid()})")


def test_a_variable_that_leads_to_another_program_in_the_place_of_the_proxy_is_doubtful(
    tmp_path: Path,
) -> None:
    with taken(listen("127.0.0.1", 0)) as port:
        at = ListenAddress("127.0.0.1", port)
        environ = {"HTTPS_PROXY": f"http://{at}", "https_proxy": f"http://{at}"}
        told = only(variables.check(patient(tmp_path, environ=environ), [at], []))
    needs_care(told, Level.WARNING, f"(pid {os.getpid()})", "will fail")
    assert told.fix == "check what uses the port, or `unset HTTPS_PROXY https_proxy`"


async def test_names_need_both_kinds_of_port(tmp_path: Path) -> None:
    with taken(listen_udp("127.0.0.2", 0)) as port:
        found = patient(
            tmp_path,
            listen="127.0.0.1:0",
            dns=f"127.0.0.2:{port}",
            dns_answer="127.0.0.2",
            network=True,
        )
        told = by_name(await listeners.check(found, RunningProxy()))[f"dns 127.0.0.2:{port}"]
    needs_care(told, Level.FAULT, f"(pid {os.getpid()})")


async def test_an_address_that_no_interface_has_is_a_fault(tmp_path: Path) -> None:
    found = patient(tmp_path, listen="192.0.2.1:3128", network=True)
    told = only(await listeners.check(found, RunningProxy()))
    needs_care(told, Level.FAULT, "192.0.2.1:3128")
    assert "no interface" in told.fix


# Upstreams ----------------------------------------------------------------------------------------


def before(
    folder: Path, port: int, *names: str, settings: Mapping[str, object] | None = None
) -> ProxyUnderCheck:
    """One whose rules name these hosts, on loopback."""
    hosts = "".join(
        f'  {name}: {{ports: [{port}], addresses: [127.0.0.1/32, "::1/128"]}}\n' for name in names or (NAME,)
    )
    at_home = {
        "upstream_ca": str(certs.write_ca(folder / "upstream-ca.pem")),
        "resolve": ",".join(f"{name}=127.0.0.1" for name in names or (NAME,)),
    }
    return patient(folder, f"version: 1\nhosts:\n{hosts}", settings={**at_home, **(settings or {})})


async def reached(found: ProxyUnderCheck) -> Sequence[ProbeResult]:
    return await probe(found, resolver_of(found))


async def looked(found: ProxyUnderCheck) -> Diagnosis:
    return only([one.diagnosis for one in await reached(found)])


@pytest.mark.parametrize(
    ("context", "said", "fix"),
    [
        (certs.expired(NAME), "certificate has expired", "clock"),
        (certs.not_yet_valid(NAME), "not yet valid", "clock"),
        (certs.wrong_name(), "ostname mismatch", "leads to the right server"),
        (certs.unknown_ca(NAME), "issuer certificate", "--upstream-ca"),
        (certs.self_signed(NAME), "self-signed certificate", "--upstream-ca"),
    ],
    ids=["expired", "not yet", "wrong name", "unknown", "self-signed"],
)
async def test_an_upstream_that_is_not_who_it_should_be_is_a_fault(
    context: ssl.SSLContext, said: str, fix: str, tmp_path: Path
) -> None:
    async with RawUpstream(context) as upstream:
        found = await looked(before(tmp_path, upstream.port))
    needs_care(found, Level.FAULT, said)
    assert fix in found.fix


async def test_an_upstream_that_speaks_no_tls_is_a_fault_and_is_not_quoted(tmp_path: Path) -> None:
    async with RawUpstream() as upstream:
        upstream.greet(Say(b"220 mail.example.test\r\n"), Stall())
        found = await looked(before(tmp_path, upstream.port))
    needs_care(found, Level.FAULT, "the TLS handshake failed")
    assert "mail" not in found.fact


async def test_an_upstream_that_is_who_it_should_be_is_fine(tmp_path: Path) -> None:
    async with RawUpstream(certs.good(NAME)) as upstream:
        (one,) = await reached(before(tmp_path, upstream.port))
    assert one.diagnosis.level is Level.OK
    assert one.begins is not None
    assert one.ends is not None
    assert one.begins < one.ends


@pytest.mark.parametrize(("pin", "level"), [(RIGHT, Level.OK), (WRONG, Level.FAULT)], ids=["right", "wrong"])
async def test_pins_hold_for_the_doctor_too(pin: str, level: Level, tmp_path: Path) -> None:
    async with RawUpstream(certs.good(NAME)) as upstream:
        found = await looked(before(tmp_path, upstream.port, settings={"pin": f"{NAME}={pin}"}))
    assert found.level is level
    assert "pinned" in found.fact


async def test_a_private_root_that_is_not_named_is_missed(tmp_path: Path) -> None:
    async with RawUpstream(certs.good(NAME)) as upstream:
        found = await looked(before(tmp_path, upstream.port, settings={"upstream_ca": ""}))
    needs_care(found, Level.FAULT, "issuer certificate")


async def test_a_port_where_nobody_listens_is_a_fault(tmp_path: Path) -> None:
    needs_care(await looked(before(tmp_path, free_port())), Level.FAULT, "no address of the host accepts")


async def test_an_upstream_that_stays_silent_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstreams, "PROBE_TIMEOUT", 0.5)
    with taken(listen("127.0.0.1", 0)) as port:
        needs_care(await looked(before(tmp_path, port)), Level.FAULT, "no TLS handshake within")


async def test_a_name_without_an_address_is_a_fault(tmp_path: Path) -> None:
    def nowhere(_: str) -> tuple[str, ...]:
        raise OSError

    found = before(tmp_path, 443)
    resolver = SystemResolver(found.clock.monotonic, look_up=nowhere)
    told = only([one.diagnosis for one in await probe(found, resolver)])
    needs_care(told, Level.FAULT, "cannot be resolved")


async def test_an_address_that_may_not_be_dialled_is_a_fault_and_is_not_dialled(tmp_path: Path) -> None:
    async with RawUpstream(certs.good(NAME)) as upstream:
        found = before(tmp_path, upstream.port, settings={"resolve": f"{NAME}=127.0.0.3"})
        told = await looked(found)
        assert upstream.links == []
    needs_care(told, Level.FAULT, "may not be dialled")
    assert "127.0.0.3/32" in told.fix


async def test_addresses_of_this_machine_that_only_the_settings_know_are_refused(tmp_path: Path) -> None:
    for settings in ({}, {"own_address": "1.1.1.1/32"}):
        found = before(tmp_path, 443, settings=settings)
        (target,) = upstreams.targets(found)
        check = upstreams.dialer_of(found, resolver_of(found)).check
        with pytest.raises(DialError) if settings else nullcontext():
            check(NAME, target.decision, ["1.1.1.1"])


async def test_many_hosts_are_asked_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is silent does not keep the others from being told, whatever their order."""
    monkeypatch.setattr(upstreams, "PROBE_TIMEOUT", 2.0)
    names = [f"h{number}.example.test" for number in range(5)]
    async with RawUpstream(certs.good(*names)) as upstream:
        found = before(tmp_path, upstream.port, *names)
        told = by_name(one.diagnosis for one in await reached(found))
    assert len(told) == 5
    assert is_content(told.values())


@pytest.mark.parametrize("context", [certs.expired, certs.not_yet_valid])
async def test_a_clock_that_no_upstream_agrees_with_is_a_fault(context: object, tmp_path: Path) -> None:
    assert callable(context)
    async with RawUpstream(context(NAME, SECOND)) as upstream:
        found = before(tmp_path, upstream.port, NAME, SECOND)
        told = by_name(clock.check(found, None, await reached(found)))["upstreams"]
    needs_care(told, Level.FAULT, "all 2 upstreams")


async def test_a_clock_that_upstreams_agree_with_is_fine(tmp_path: Path) -> None:
    async with RawUpstream(certs.good(NAME, SECOND)) as upstream:
        found = before(tmp_path, upstream.port, NAME, SECOND)
        assert is_content(clock.check(found, None, await reached(found)))


# IPv6 ---------------------------------------------------------------------------------------------

BOTH = {"resolve": f"{NAME}=127.0.0.1,{NAME}=::1"}


async def both(found: ProxyUnderCheck) -> Diagnosis:
    resolver = resolver_of(found)
    return only(await ipv6.check(found, resolver, await probe(found, resolver)))


async def test_ipv6_that_leads_nowhere_is_doubtful(tmp_path: Path) -> None:
    async with RawUpstream(certs.good(NAME)) as upstream:
        needs_care(
            await both(before(tmp_path, upstream.port, settings=BOTH)), Level.WARNING, NAME, "only over IPv4"
        )


async def test_ipv6_that_connects_is_fine(tmp_path: Path) -> None:
    async with RawUpstream(certs.good(NAME)) as upstream:
        with taken(listen("::1", upstream.port)):
            found = before(tmp_path, upstream.port, settings=BOTH)
            resolver = FixedResolver({NAME: ["127.0.0.1", "::1"]}, SystemResolver(found.clock.monotonic))
            answered = await reached(before(tmp_path, upstream.port))
            told = only(await ipv6.check(found, resolver, answered))
    assert told.level is Level.OK


# The container engine -----------------------------------------------------------------------------


@contextmanager
def docker(answer: bytes) -> Iterator[dict[str, str]]:
    """An engine that says this of its version; yields the environment that leads to it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/version"
            self.send_response(200)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        @override
        def address_string(self) -> str:
            return ""

        @override
        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with TemporaryDirectory(prefix="egress-") as folder:
        path = f"{folder}/docker.sock"
        with ThreadingUnixStreamServer(path, Handler) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
            thread.start()
            try:
                yield {"DOCKER_HOST": f"unix://{path}"}
            finally:
                server.shutdown()
                thread.join()


@pytest.mark.parametrize(
    ("answer", "level"),
    [
        (b'{"Version": "28.2.2", "Components": [{"Name": "Engine"}]}', Level.OK),
        (b'{"Version": "20.10.24"}', Level.WARNING),
        (b'{"Version": "5.2.0", "Components": [{"Name": "Podman Engine"}]}', Level.NOTE),
        (b"no JSON", Level.NOTE),
        (b"[]", Level.WARNING),
    ],
)
async def test_an_engine_is_asked_for_its_version(answer: bytes, level: Level, tmp_path: Path) -> None:
    with docker(answer) as environ:
        assert only(await container_engine.check(patient(tmp_path, environ=environ))).level is level


async def test_an_engine_that_never_answers_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_engine, "ANSWER_TIMEOUT", 0.2)
    with TemporaryDirectory(prefix="egress-") as folder, socket.socket(socket.AF_UNIX) as sock:
        sock.bind(f"{folder}/docker.sock")
        sock.listen()
        found = patient(tmp_path, environ={"DOCKER_HOST": f"unix://{folder}/docker.sock"})
        told = only(await container_engine.check(found))
    assert told.level is Level.NOTE
    assert "does not answer" in told.fact
