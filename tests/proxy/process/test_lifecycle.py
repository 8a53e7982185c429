"""A proxy starts whole or not at all, serves, drains and stops; as a process, with real signals."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from egress.audit.verify import verify
from egress.proxy.dns.name_servers import NameServers
from egress.proxy.process import lifecycle
from egress.proxy.process.lifecycle import tick
from egress.proxy.process.wiring import ProxyParts
from tests.cli.command import command, egress, environment, put
from tests.fleet.memory_fleet import short_folder
from tests.proxy.injecting_proxy import NAME, SECRET, certs, denied, made, stall, visit
from tests.proxy.lab.certificates import trusting
from tests.proxy.lab.client import at, connect
from tests.proxy.lab.proxy_stack import ProxyStack
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.serve_process import ServeProcess, until


@pytest.fixture
async def upstream() -> AsyncIterator[RawUpstream]:
    async with RawUpstream(certs.good(NAME)) as upstream:
        yield upstream


@pytest.fixture
def served(tmp_path: Path, upstream: RawUpstream) -> Iterator[ServeProcess]:
    with made(tmp_path, upstream) as served:
        yield served


async def test_a_request_goes_out_with_its_credential_and_is_recorded(
    served: ServeProcess, upstream: RawUpstream
) -> None:
    async with await visit(served, upstream) as peer:
        response = await peer.get("/echo?q=1", f"{NAME}:{upstream.port}")
    assert response.status == 200
    assert SECRET.encode() in upstream.links[0].heads[0]
    assert SECRET.encode() not in response.body
    (record,) = served.recorded("exchange")
    assert (record["host"], record["verdict"], record["status"]) == (NAME, "allow", 200)
    assert SECRET not in json.dumps(record)


@pytest.mark.real_process
async def test_a_secret_from_the_environment_is_used_and_stands_there_no_longer(
    tmp_path: Path, upstream: RawUpstream
) -> None:
    with made(tmp_path, upstream, source="env:TRACKER") as served:
        async with await visit(served, upstream) as peer:
            assert (await peer.get("/echo", f"{NAME}:{upstream.port}")).status == 200
        assert SECRET.encode() in upstream.links[0].heads[0]
        held = Path(f"/proc/{served.process.pid}/environ").read_bytes()  # noqa: ASYNC240 - no file
    assert b"PATH=" in held
    assert b"TRACKER" not in held
    assert SECRET.encode() not in held


async def test_a_host_without_a_rule_is_refused(served: ServeProcess, upstream: RawUpstream) -> None:
    assert (await denied(served, upstream, "evil.example.test")).status == 403
    assert served.recorded("exchange")[0]["code"] == "host.unknown"
    assert not upstream.links


async def test_it_says_what_a_user_needs(served: ServeProcess) -> None:
    text = "\n".join(served.out)
    assert f"export HTTPS_PROXY=http://127.0.0.1:{served.port}" in text
    assert "egress ca export" in text
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO"):
        assert f'export {name}="$PWD/egress-ca.pem"' in text
    assert str(served.runtime) in text
    (started,) = served.logged("proxy.started")
    assert "--drain 1s (flag)" in str(started["settings"])


def test_elsewhere_than_on_a_terminal_there_is_the_log_and_no_banner(tmp_path: Path) -> None:
    """In a container both streams are one, and each line of it has to be an event."""
    put(tmp_path / "hosts.yaml", "version: 1\nhosts: {api.example.test: {allow: all}}\n")
    words = command(["serve", "--rules", "hosts.yaml", "--listen", "127.0.0.1:0", "--state-dir", "state"])
    with subprocess.Popen(
        words, cwd=tmp_path, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        events = []
        for line in process.stdout:
            events.append(json.loads(line))
            if events[-1]["event"] == "proxy.ready":
                process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    names = [each["event"] for each in events]
    assert "proxy.started" in names
    assert names[-1] == "proxy.stopped"
    (ready,) = [each for each in events if each["event"] == "proxy.ready"]
    assert re.fullmatch(r"127\.0\.0\.1:\d+", ready["proxy"])


async def test_secrets_that_are_missing_are_told_at_the_start(tmp_path: Path, upstream: RawUpstream) -> None:
    with made(tmp_path, upstream, source="env:NOWHERE_SET") as served:
        text = "\n".join(served.out)
        assert "missing: the secret tracker (from `env:`): the variable NOWHERE_SET was not set" in text
        assert "    set it and start again" in text
        outcome = served.egress("status", "--runtime-dir", str(served.runtime))
        assert "variables: NOWHERE_SET not set" in outcome.out
        assert served.logged("secret.unavailable")


# The control socket -----------------------------------------------------------------------------


async def test_health_readiness_and_status_are_told(served: ServeProcess) -> None:
    assert served.ask("GET", "/healthz")[0] == 200
    assert served.ask("GET", "/readyz") == (200, {"ready": True, "problems": []})
    status, answer = served.ask("GET", "/status")
    assert status == 200
    assert answer["pid"] == served.process.pid
    assert [box["name"] for box in answer["sandboxes"]] == ["default"]  # type: ignore[attr-defined]
    assert SECRET not in json.dumps(answer)


async def test_its_status_can_be_asked_with_the_command_that_it_shows(served: ServeProcess) -> None:
    command = next(line.strip() for line in served.out if "egress status" in line)
    outcome = served.egress(*shlex.split(command)[1:])
    assert outcome.status == 0
    assert f"127.0.0.1:{served.port}" in outcome.out


async def test_it_is_stopped_by_its_socket(served: ServeProcess) -> None:
    assert served.ask("POST", "/stop")[0] == 200
    assert served.ended() == 0
    assert served.records()[-1]["reason"] == "the control socket"


async def test_a_second_one_is_told_of_the_first(served: ServeProcess) -> None:
    outcome = served.egress("serve", *served.arguments)
    assert outcome.status == 3
    assert f"another egress is running (pid {served.process.pid}, 127.0.0.1:{served.port})" in outcome.err


async def test_freed_memory_is_given_back_once_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []
    async with ProxyStack(tmp_path, certs, "version: 1\nhosts: {docs.example.com: {}}\n") as stack:
        parts = ProxyParts(stack.engine, stack.full, stack.door, NameServers(stack.engine))
        for number in range(1, 121):
            monkeypatch.setattr(lifecycle, "trim_heap", lambda number=number: given.append(number))
            tick(parts, number)
    assert given == [60, 120]


# The end ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_cleanly(served: ServeProcess, number: signal.Signals) -> None:
    served.signal(number)
    assert served.ended() == 0
    last = served.records()[-1]
    assert (last["event"], last["reason"]) == ("stopped", number.name)
    lines = [json.loads(line) for line in served.err]
    assert (lines[-1]["event"], lines[-1]["reason"]) == ("proxy.stopped", number.name)
    assert not served.logged("proxy.waiting"), "there is nothing to wait for"
    key = (served.state / "audit.key").read_bytes()
    assert not verify(served.state / "audit", key).faults
    assert not (served.runtime / "control.sock").exists()


async def test_a_request_under_way_comes_to_its_end(tmp_path: Path, upstream: RawUpstream) -> None:
    with made(tmp_path, upstream, "60s") as served:
        async with await stall(served, upstream) as peer:
            served.signal(signal.SIGTERM)
            (waiting,) = await asyncio.to_thread(until, lambda: served.logged("proxy.waiting"))
            assert (waiting["connections"], waiting["seconds"]) == (1, 60)
            await asyncio.to_thread(until, lambda: "a second signal stops at once" in served.out[-1])
            assert served.out[-1].startswith("waiting up to 60s for 1 connection; ")
            with pytest.raises(OSError, match="Connect call failed"):
                await connect(at(upstream.port), NAME, None, proxy=at(served.port))
            upstream.released.set()
            assert (await peer.response()).complete
            assert await asyncio.to_thread(served.ended) == 0
        assert served.records("exchange")[0]["status"] == 200


@pytest.mark.parametrize("signals", [1, 2])
async def test_what_does_not_end_is_cut(tmp_path: Path, upstream: RawUpstream, signals: int) -> None:
    """After the time to drain; or at once with a second signal, however long that is."""
    with made(tmp_path, upstream, "1s" if signals == 1 else "1h") as served:
        async with await stall(served, upstream):
            for _ in range(signals):
                served.signal(signal.SIGTERM)
                await asyncio.to_thread(until, lambda: served.logged("proxy.stopping"))
            assert await asyncio.to_thread(served.ended) == 0
        (record,) = served.records("exchange")
        assert record["code"] == "proxy.stopping"


# A start that fails ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--listen", "192.0.2.1:3128"], 2, "--network"),
        (["--listen", "192.0.2.1:3128", "--network"], 3, "cannot listen on 192.0.2.1:3128"),
        (["--password-file", "missing"], 3, "missing cannot be read"),
        (["--upstream-ca", "missing"], 3, "the certificates in missing cannot be read"),
        (["--audit-dir", "/proc/egress"], 3, "the audit log in /proc/egress"),
        (["--audit-dir", "hosts.yaml"], 3, "or name another with --audit-dir"),
        (["--audit-key", "hosts.yaml/key"], 3, "with --audit-key"),
        (["--transparent", "127.0.0.2"], 2, "give --network"),
        (["--transparent", "192.0.2.1", "--network"], 3, "cannot listen on 192.0.2.1:443"),
        (["--dns", "127.0.0.2:53", "--network"], 2, "--dns-answer"),
        (["--runtime-dir", "/proc/egress"], 3, "control socket"),
        (["--state-dir", "/proc/egress"], 3, "the state folder /proc/egress cannot be created"),
        (["--profile", "small"], 2, "these rules have no profiles"),
        (["--rules", "missing.yaml"], 3, "file not found: missing.yaml"),
    ],
)
def test_what_it_needs_and_has_not_is_said(
    arguments: list[str], status: int, said: str, tmp_path: Path
) -> None:
    put(tmp_path / "hosts.yaml", "version: 1\nhosts:\n  docs.example.com: {}\n")
    given = arguments if "--rules" in arguments else ["--rules", "hosts.yaml", *arguments]
    listen = [] if "--listen" in arguments else ["--listen", "127.0.0.1:0"]
    runtime = {"EGRESS_RUNTIME_DIR": str(tmp_path / "r")}
    outcome = egress("serve", *given, *listen, cwd=tmp_path, env=runtime)
    assert outcome.status == status, outcome
    assert said in outcome.err
    assert "Traceback" not in outcome.err
    assert "hint: " in outcome.err


async def test_a_port_that_is_taken_is_named(served: ServeProcess, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    put(folder / "hosts.yaml", "version: 1\nhosts:\n  docs.example.com: {}\n")
    arguments = ["--listen", f"127.0.0.1:{served.port}", "--runtime-dir", str(tmp_path / "r")]
    outcome = egress("serve", "--rules", "hosts.yaml", *arguments, cwd=folder)
    assert outcome.status == 3
    assert "--listen" in outcome.err
    assert re.search(rf"address already in use, by \S+ \(pid {served.process.pid}\)", outcome.err)


async def test_after_a_kill_the_next_start_says_what_was_lost(
    served: ServeProcess, upstream: RawUpstream
) -> None:
    async with await stall(served, upstream):
        served.kill()
    served.start()
    assert served.records("lost")[0]["host"] == NAME


async def test_the_first_line_on_standard_error_is_json_already(tmp_path: Path) -> None:
    """Warnings about rules and variables too: a program reads every line."""
    rules = 'version: 1\nhosts:\n  "*.github.io": {}\n'
    with ServeProcess(tmp_path, rules, env={"EGRESS_LISTNE": "x"}) as served:
        await asyncio.to_thread(until, lambda: served.logged("setting.unknown"))
        assert all(line.startswith("{") for line in served.err)
        (warning,) = served.logged("rules.warning")
        assert (warning["place"], warning["level"]) == ("hosts.yaml:3:3", "warning")
        assert "EGRESS_LISTEN" in str(served.logged("setting.unknown")[0]["hint"])


PROFILES = "version: 1\nhosts:\n  a.example.com: {}\n"


async def test_rules_that_lose_a_profile_deny_it_and_rules_without_any_are_refused(tmp_path: Path) -> None:
    small, other = (
        "profiles: {small: {hosts: [a.example.com]}}\n",
        "profiles: {other: {hosts: [a.example.com]}}\n",
    )
    with ServeProcess(tmp_path, PROFILES + small, ["--profile", "small"]) as served:
        assert not served.logged("profile.unknown")
        served.write(PROFILES + other)
        (told,) = await asyncio.to_thread(until, lambda: served.logged("profile.unknown"))
        assert (told["profile"], told["cure"]) == ("small", "the profiles are: other")
        served.write(PROFILES)
        (refused,) = await asyncio.to_thread(until, lambda: served.logged("rules.refused"))
        assert "they would get all rules" in str(refused["problem"])
        pem = (await asyncio.to_thread(served.egress, "ca", "export")).out.encode()
        trust = trusting(pem, ("http/1.1",))
        async with await connect(at(443), "a.example.com", trust, proxy=at(served.port)) as peer:
            assert (await peer.get("/", "a.example.com")).status == 403
        (refusal,) = await asyncio.to_thread(served.recorded, "exchange")
        assert refusal["code"] == "profile.unknown"


async def test_a_state_folder_that_cannot_be_used_is_named_with_its_own_option(tmp_path: Path) -> None:
    """The control socket lies in it where there is no folder for the run alone."""
    put(tmp_path / "hosts.yaml", PROFILES)
    put(tmp_path / "state/run", "a file")
    (tmp_path / "state").chmod(0o700)
    words = ["--rules", "hosts.yaml", "--listen", "127.0.0.1:0", "--state-dir", "state"]
    outcome = egress("serve", *words, cwd=tmp_path)
    assert outcome.status == 3
    assert "state/run" in outcome.err
    assert "--state-dir" in outcome.err
    assert "--runtime-dir" not in outcome.err


async def test_an_authority_that_must_be_replaced_is_named_with_the_whole_command(tmp_path: Path) -> None:
    put(tmp_path / "hosts.yaml", PROFILES)
    assert egress("ca", "export", "--state-dir", "st ate", "--sandbox", "box", cwd=tmp_path).status == 0
    words = ["--rules", "hosts.yaml", "--state-dir", "st ate", "--sandbox", "box", "--ca-constrain"]
    outcome = egress("serve", *words, "--listen", "127.0.0.1:0", cwd=tmp_path)
    assert outcome.status == 1
    command = outcome.err.partition("`")[2].partition("`")[0]
    away = tmp_path / "away"
    away.mkdir()
    done = egress(*shlex.split(command)[1:], cwd=away)
    assert done.status == 0, done
    assert "signs for  a.example.com" in done.out
    assert str(tmp_path / "st ate/ca/box.pem") in done.out


async def test_a_kept_revocation_holds_after_a_restart_and_is_undone_for_good(
    served: ServeProcess, upstream: RawUpstream
) -> None:
    async def status() -> int:
        async with await visit(served, upstream) as peer:
            return (await peer.get("/echo", f"{NAME}:{upstream.port}")).status

    assert await status() == 200, "the good twin"
    assert served.egress("kill", "--secret", "tracker", "--keep").status == 0
    for _ in range(2):
        assert await status() in (403, 502)
        told = served.egress("status").out
        assert "the secret tracker, kept after a restart" in told
        served.kill()
        served.start()
    assert [line["kept"] for line in served.records("killed")] == [True] * 3
    assert served.egress("kill", "--secret", "tracker", "--undo").status == 0
    assert await status() == 200
    served.kill()
    served.start()
    assert await status() == 200
    assert len(upstream.links) == 3
    assert "killed" not in served.egress("status").out


async def test_kept_revocations_that_cannot_be_read_stop_the_start(tmp_path: Path) -> None:
    """Without them the proxy would give back what was revoked."""
    put(tmp_path / "hosts.yaml", PROFILES)
    words = ["--rules", "hosts.yaml", "--listen", "127.0.0.1:0", "--state-dir", "state"]
    put(tmp_path / "state/revocations.json", '{"version": 1, "secret": ["tracker"]')
    for path, mode in ((tmp_path / "state", 0o700), (tmp_path / "state/revocations.json", 0o600)):
        path.chmod(mode)
    outcome = egress("serve", *words, cwd=tmp_path)
    assert outcome.status == 3
    assert "revocations.json is not a list of revocations" in outcome.err
    assert "--keep" in outcome.err
    assert "egress is ready" not in outcome.out


def scrape(port: int, token: str = "") -> bytes:
    field = f"authorization: Bearer {token}\r\n" if token else ""
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.settimeout(20)
        try:
            sock.sendall(f"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n{field}\r\n".encode())
            return b"".join(iter(lambda: sock.recv(1 << 16), b""))
        except ConnectionError:
            return b""


async def test_metrics_are_served_over_tcp_to_who_has_the_token(tmp_path: Path) -> None:
    """This user is the sandbox of the default listener: without a token it would get nothing."""
    put(tmp_path / "token", "a-token-of-the-operator").chmod(0o600)
    words = ["--metrics", "0", "--metrics-token-file", "token"]
    with ServeProcess(tmp_path, PROFILES, words) as served:
        (ready,) = served.logged("proxy.ready")
        port = int(str(ready["metrics"]).rpartition(":")[2])
        assert (await asyncio.to_thread(scrape, port)).startswith(b"HTTP/1.1 401")
        answer = await asyncio.to_thread(scrape, port, "a-token-of-the-operator")
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"egress_ready 1" in answer
        assert "metrics.refused" in {str(json.loads(line)["event"]) for line in served.err if line[:1] == "{"}
        # The sandbox is revoked: it has no listener now, and is known all the same.
        assert served.egress("kill", "--sandbox", "default").status == 0
        assert (await asyncio.to_thread(scrape, port)).startswith(b"HTTP/1.1 401")


async def test_the_sandbox_of_this_machine_gets_no_metrics_without_a_token(tmp_path: Path) -> None:
    with ServeProcess(tmp_path, PROFILES, ["--metrics", "0"]) as served:
        (ready,) = served.logged("proxy.ready")
        port = int(str(ready["metrics"]).rpartition(":")[2])
        assert await asyncio.to_thread(scrape, port) == b""
        assert served.egress("kill", "--sandbox", "default").status == 0
        assert await asyncio.to_thread(scrape, port) == b"", "also while it is revoked"


async def test_a_token_that_others_can_read_stops_the_start(tmp_path: Path) -> None:
    put(tmp_path / "hosts.yaml", PROFILES)
    put(tmp_path / "token", "a-token-of-the-operator").chmod(0o644)
    words = ["--rules", "hosts.yaml", "--listen", "127.0.0.1:0", "--metrics", "0"]
    # The path of a control socket is short: no folder of a test run leaves room for it.
    with short_folder() as runtime:
        words += ["--runtime-dir", str(runtime)]
        outcome = egress("serve", *words, "--metrics-token-file", "token", cwd=tmp_path)
    assert outcome.status == 3
    assert "open to other users" in outcome.err
    assert "--metrics-token-file" in outcome.err
