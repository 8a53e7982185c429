"""The stand-ins around the cluster: an internet that answers, and a policy engine with the faults of many."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import trustme

from scripts.cluster.addresses import NODE
from tests.cluster.policy_engine import FLUSH
from tests.cluster.policy_ruleset import TABLE
from tests.cluster.running_cluster import RunningCluster, wait
from tests.conftest import KUBE_ROUTER

ROOT: Final = Path(__file__).parents[2]
HOSTS: Final = ("api.github.com", "github.com", "*.example.com")
_SILENT: Final = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


@dataclass(frozen=True, slots=True)
class Internet:
    """Every address of the internet, on the ports 80, 443 and 8443, and who came there."""

    record: Path
    authority: str
    """The certificate that signed those of its hosts."""
    repositories: Path
    """The folder of the repositories of github.com: OWNER/NAME."""

    def mark(self) -> int:
        """Remember this moment."""
        return self.record.stat().st_size

    def peers(self, since: int, address: str) -> set[str]:
        """Who got through to an address since a moment."""
        return {line["peer"] for line in self._lines(since) if line.get("address") == address}

    def heads(self, since: int) -> list[str]:
        """The requests that came since a moment."""
        return [line["head"] for line in self._lines(since) if "head" in line]

    def _lines(self, since: int) -> list[dict[str, Any]]:
        with self.record.open("rb") as file:
            file.seek(since)
            return [json.loads(line) for line in file]


@contextmanager
def internet(cluster: RunningCluster, folder: Path) -> Iterator[Internet]:
    """Let the addresses outside of the cluster answer."""
    authority, certificate = trustme.CA(), folder / "outside.pem"
    authority.issue_cert(*HOSTS).private_key_and_cert_chain_pem.write_to_path(str(certificate))
    record = folder / "outside.jsonl"
    record.touch()
    repositories = folder / "repositories"
    repositories.mkdir()
    program = (sys.executable, "-P", "-m", "tests.cluster.outside_program")
    process = cluster.outside(
        *program, str(record), str(certificate), str(repositories), cwd=ROOT, env=_environment()
    )
    found = Internet(record, authority.cert_pem.bytes().decode("ascii"), repositories)
    try:
        _until_it_answers(cluster, found)
        yield found
    finally:
        process.terminate()
        process.wait(10)


def _until_it_answers(cluster: RunningCluster, found: Internet) -> None:
    dial = "import socket; socket.create_connection(('1.1.1.1', 443), 1).close()"

    def answers() -> bool:
        process = cluster.in_node(sys.executable, "-I", "-c", dial, stderr=subprocess.DEVNULL)
        return process.wait(10) == 0

    wait(answers, lambda: "the stand-in for the internet does not answer")
    assert found.peers(0, "1.1.1.1"), "and it says who came"


class StandInPolicyEngine:
    """The stand-in for a policy engine, running: `late` by so many milliseconds, or at once."""

    def __init__(self, cluster: RunningCluster, late: int | None) -> None:
        self._cluster = cluster
        program = (sys.executable, "-P", "-m", "tests.cluster.policy_engine")
        words = (str(cluster.folders.kubeconfig), "at-once" if late is None else str(late))
        self._process = cluster.in_node(*program, *words, cwd=ROOT, env=_environment())

    def die(self, *, is_failing_open: bool = False) -> None:
        """End without a word. The rules stay in the kernel, unless its absence opens everything."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(10)
        if is_failing_open:
            self.flush()

    def flush(self) -> None:
        """Remove all rules."""
        flushing = self._cluster.in_node("nft", "-f", "-", stdin=subprocess.PIPE)
        flushing.communicate(FLUSH, 10)

    def until_it_enforces(self) -> None:
        def has_table() -> bool:
            assert self._process.poll() is None, "the stand-in for the policy engine has ended"
            asked = self._cluster.in_node("nft", "list", "table", *TABLE.split(), **_SILENT)
            return asked.wait(10) == 0

        wait(has_table, lambda: "the stand-in for the policy engine writes no rules")


def _environment() -> dict[str, str]:
    return {"PYTHONPATH": str(ROOT), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}


class KubeRouter:
    """The policy engine of kube-router, in the place of the stand-in: a program that somebody has built."""

    def __init__(self, cluster: RunningCluster, program: str) -> None:
        self._cluster = cluster
        self._words = (program, f"--kubeconfig={cluster.folders.kubeconfig}", f"--hostname-override={NODE}")
        parts = ("--run-firewall=true", "--run-router=false", "--run-service-proxy=false")
        self._process = cluster.in_node(*self._words, *parts, env=_environment(), **_SILENT)

    def die(self, *, is_failing_open: bool = False) -> None:
        """End without a word; with `is_failing_open` its rules go, too."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(10)
        if is_failing_open:
            self.flush()

    def flush(self) -> None:
        """Remove all rules."""
        self._cluster.in_node(*self._words, "--cleanup-config", env=_environment(), **_SILENT).wait(60)

    def until_it_enforces(self) -> None:
        def has_chain() -> bool:
            assert self._process.poll() is None, "kube-router has ended"
            words = ("iptables", "-w", "-S", "KUBE-ROUTER-FORWARD")
            return self._cluster.in_node(*words, env=_environment(), **_SILENT).wait(10) == 0

        wait(has_chain, lambda: "kube-router writes no rules", 120)


@contextmanager
def policy_engine(
    cluster: RunningCluster, late: int | None = None
) -> Iterator[StandInPolicyEngine | KubeRouter]:
    """Enforce policies `late` milliseconds after a pod has its address, or at once; without it, never.

    With EGRESS_TEST_KUBE_ROUTER, the path of that program, it enforces them as fast as it can.
    """
    engine = KubeRouter(cluster, KUBE_ROUTER) if KUBE_ROUTER else StandInPolicyEngine(cluster, late)
    try:
        engine.until_it_enforces()
        yield engine
    finally:
        engine.die(is_failing_open=True)
