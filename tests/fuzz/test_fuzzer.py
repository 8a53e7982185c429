"""The fuzzer itself: it comes out the same each time, and it finds what is broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from egress.http1 import Framing
from egress.relay.upstreams import Http1Upstream
from egress.scrub import Needles
from egress.tls import client_hello
from egress.types import Head
from tests.attack.lab.harm import Finding, Harm, must_be_none
from tests.cli.command import ROOT
from tests.fuzz import cases, in_process
from tests.fuzz.audit_check import AuditCheck
from tests.unit.relay import wires

UNDER_CI = bool(os.environ.get("CI"))  # noqa: TID251 - as tests/conftest.py asks
NO_LAB = 3


def fuzz(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it as a process of its own, which may open sockets."""
    command = [sys.executable, "-m", "tests.fuzz", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == NO_LAB:
        if UNDER_CI:
            pytest.fail(done.stdout, pytrace=False)
        pytest.skip(done.stdout)
    return done


def found_among(targets: str, most: int = 1500) -> bool:
    """Whether one of the first cases of these targets is found to be wrong."""
    for case in range(1, most):
        sample = in_process.sample_of(1, case)
        if sample.target.startswith(targets):
            try:
                in_process.check(sample)
            except Exception:  # noqa: BLE001 - whatever it is
                return True
    return False


def test_a_case_follows_from_its_two_numbers() -> None:
    for sample_of in (in_process.sample_of, cases.sample_of):
        assert [sample_of(7, case) for case in range(40)] == [sample_of(7, case) for case in range(40)]
        assert sample_of(7, 1) != sample_of(8, 1)


def test_every_target_has_its_turn() -> None:
    assert {in_process.sample_of(1, case).target for case in range(500)} == set(in_process.TARGETS)
    families = {cases.sample_of(1, case).words[0] for case in range(500)}
    assert families == {"raw", "tls", "tunnel", "h2", "door", "sni", "clear", "ws", "udp", "tcp"}


def test_lines_without_a_code_are_counted_under_none(tmp_path: Path) -> None:
    lines = [{"event": "started"}, {"event": "refusal", "code": "host.unknown", "connection": "a"}]
    (tmp_path / "1.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    ledger = AuditCheck(tmp_path)
    assert ledger.turn() == []
    assert ledger.events == {"started": 1, "refusal": 1}
    assert ledger.codes == {"host.unknown": 1}
    assert "" not in ledger.codes


# What is broken is found --------------------------------------------------------------------------


def test_a_relay_that_does_not_look_for_secrets_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wires.Desk, "needles", lambda self, policy: Needles({}))
    assert found_among("relay.http1")
    assert found_among("relay.http2")
    assert found_among("relay.websocket")


def test_a_relay_that_loses_the_credential_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def bare(self: Http1Upstream, head: Head, framing: Framing, *, expects: bool) -> None:
        kept = tuple(field for field in head.headers if field[0] != "authorization")
        send(self, replace(head, headers=kept), framing, expects=expects)

    send = Http1Upstream.send
    monkeypatch.setattr(Http1Upstream, "send", bare)
    assert found_among("relay.http1")


# The ssl module prints an exception for a name that is not ASCII: its callback cannot raise one.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_another_reading_of_a_server_name_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_hello, "_server_name", lambda data: "other.test")
    assert found_among("tls")


@pytest.mark.system("ip", "iproute2")
def test_a_naive_proxy_is_found_out() -> None:
    """Several of the things that must not happen happen there, and each is told by what brings it back."""
    done = fuzz("--level", "proxy", "--naive", "--seed", "3", "--exchanges", "250")
    assert done.returncode == 1, done.stderr
    kinds = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("FOUND ")}
    assert {"reached:", "asked:", "leaked:", "logged:"} <= kinds, done.stdout
    assert "python -m tests.fuzz --level proxy --seed 3 --case " in done.stdout


# And what is not, is not --------------------------------------------------------------------------


@pytest.mark.system("ip", "iproute2")
def test_egress_holds_against_the_corpus_and_a_moment_of_chance() -> None:
    done = fuzz("--level", "proxy", "--corpus", "--seed", "1", "--exchanges", "500")
    must_be_none(harms_of(done.stdout), "the fuzzer")
    assert done.returncode == 0, done.stdout + done.stderr


def harms_of(said: str) -> list[Finding]:
    """What it found that is harm, and not a matter of time or memory."""
    kinds = {str(harm): harm for harm in Harm} | {"record": Harm.FORGED}
    told = (line.removeprefix("FOUND ") for line in said.splitlines() if line.startswith("FOUND "))
    found = (line.partition(": ") for line in told)
    return [Finding(kinds[kind], what) for kind, _, what in found if kind in kinds]


def test_harm_that_was_found_is_told_from_what_hangs_on_the_machine() -> None:
    said = "seed 1\nFOUND control: the control failed\nFOUND stolen: stolen: 16 bytes of api at evil.test\n"
    (found,) = harms_of(said)
    assert found.harm is Harm.STOLEN
    assert found.unforgivable
    assert harms_of("seed 1\nFOUND memory: 90 MB\nfound 1\n") == []
