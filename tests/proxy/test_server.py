"""A proxy starts whole or not at all, serves, drains and stops; as a process, with real signals."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from egress.audit.verify import verify
from tests.cli.command import egress, put
from tests.proxy.lab.client import RefusedError, at, connect
from tests.proxy.lab.raw import RawUpstream
from tests.proxy.served import Served, until
from tests.proxy.serving import NAME, SECRET, certs, made, stall, visit


@pytest.fixture
async def upstream() -> AsyncIterator[RawUpstream]:
    async with RawUpstream(certs.good(NAME)) as upstream:
        yield upstream


@pytest.fixture
def served(tmp_path: Path, upstream: RawUpstream) -> Iterator[Served]:
    with made(tmp_path, upstream) as served:
        yield served


async def test_a_request_goes_out_with_its_credential_and_is_recorded(
    served: Served, upstream: RawUpstream
) -> None:
    async with await visit(served, upstream) as peer:
        response = await peer.get("/echo?q=1", f"{NAME}:{upstream.port}")
    assert response.status == 200
    assert SECRET.encode() in upstream.links[0].heads[0]
    assert SECRET.encode() not in response.body
    (record,) = served.recorded("exchange")
    assert (record["host"], record["verdict"], record["status"]) == (NAME, "allow", 200)
    assert SECRET not in json.dumps(record)


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


async def test_a_host_without_a_rule_is_refused(served: Served, upstream: RawUpstream) -> None:
    with pytest.raises(RefusedError) as caught:
        await connect(at(upstream.port), "evil.example.test", None, proxy=at(served.port))
    assert caught.value.response.status == 403
    assert served.recorded("refusal")[0]["code"] == "host.unknown"


async def test_it_says_what_a_user_needs(served: Served) -> None:
    text = "\n".join(served.out)
    assert f"export HTTPS_PROXY=http://127.0.0.1:{served.port}" in text
    assert "egress ca export" in text
    assert "SSL_CERT_FILE" in text
    assert str(served.runtime) in text
    (started,) = served.logged("proxy.started")
    assert "--drain 1s (flag)" in str(started["settings"])


# The control socket -----------------------------------------------------------------------------


async def test_health_readiness_and_status_are_told(served: Served) -> None:
    assert served.ask("GET", "/healthz")[0] == 200
    assert served.ask("GET", "/readyz") == (200, {"ready": True, "problems": []})
    status, answer = served.ask("GET", "/status")
    assert status == 200
    assert answer["pid"] == served.process.pid
    assert [box["name"] for box in answer["sandboxes"]] == ["default"]  # type: ignore[attr-defined]
    assert SECRET not in json.dumps(answer)


async def test_it_is_stopped_by_its_socket(served: Served) -> None:
    assert served.ask("POST", "/stop")[0] == 200
    assert served.ended() == 0
    assert served.records()[-1]["reason"] == "the control socket"


async def test_a_second_one_is_told_of_the_first(served: Served) -> None:
    outcome = served.egress("serve", *served.arguments)
    assert outcome.status == 3
    assert "another egress is running" in outcome.err


# The end ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_cleanly(served: Served, number: signal.Signals) -> None:
    served.signal(number)
    assert served.ended() == 0
    last = served.records()[-1]
    assert (last["event"], last["reason"]) == ("stopped", number.name)
    key = (served.state / "audit.key").read_bytes()
    assert not verify(served.state / "audit", key).faults
    assert not (served.runtime / "control.sock").exists()


async def test_a_request_under_way_comes_to_its_end(tmp_path: Path, upstream: RawUpstream) -> None:
    with made(tmp_path, upstream, "60s") as served:
        async with await stall(served, upstream) as peer:
            served.signal(signal.SIGTERM)
            await asyncio.to_thread(until, lambda: served.logged("proxy.stopping"))
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
        (["--password-file", "missing"], 3, "missing cannot be used"),
        (["--upstream-ca", "missing"], 3, "the certificates in missing cannot be read"),
        (["--audit-dir", "/proc/egress"], 3, "the audit log in /proc/egress"),
        (["--audit-dir", "hosts.yaml"], 3, "or name another with --audit-dir"),
        (["--audit-key", "hosts.yaml/key"], 3, "with --audit-key"),
        (["--transparent", "127.0.0.2"], 2, "give --network"),
        (["--transparent", "192.0.2.1", "--network"], 3, "cannot listen on 192.0.2.1:443"),
        (["--dns", "127.0.0.2:53", "--network"], 2, "--dns-answer"),
        (["--runtime-dir", "/proc/egress"], 3, "control socket"),
        (["--rules", "missing.yaml"], 3, "there is no file missing.yaml"),
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


async def test_a_port_that_is_taken_is_named(served: Served, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    put(folder / "hosts.yaml", "version: 1\nhosts:\n  docs.example.com: {}\n")
    arguments = ["--listen", f"127.0.0.1:{served.port}", "--runtime-dir", str(tmp_path / "r")]
    outcome = egress("serve", "--rules", "hosts.yaml", *arguments, cwd=folder)
    assert outcome.status == 3
    assert "--listen" in outcome.err


async def test_after_a_kill_the_next_start_says_what_was_lost(served: Served, upstream: RawUpstream) -> None:
    async with await stall(served, upstream):
        served.kill()
    served.start()
    assert served.records("lost")[0]["host"] == NAME
