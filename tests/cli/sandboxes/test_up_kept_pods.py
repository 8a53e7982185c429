"""`egress up` whose sandboxes are pods is killed, or left: they stay, and come back as they were."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from egress.fleet.folders import SOCKET_NAME
from egress.unix.peer import peer_of
from egress.unix.stream_socket import connect
from tests.cli.command import Outcome, egress
from tests.fleet.test_cluster_fleet import kubeconfig
from tests.proxy.serve_process import until
from tests.runtime.kubernetes.fake_cluster import FakeCluster, served

TIMEOUT = 100


@dataclass(slots=True)
class PodPlace:
    """A folder in which `egress up` comes and goes, and the cluster that it uses."""

    folder: Path
    cluster: FakeCluster

    def egress(self, *words: str) -> Outcome:
        env = {
            "EGRESS_RUNTIME_DIR": str(self.folder / "run"),
            "EGRESS_STATE_DIR": str(self.folder / "state"),
            "KUBECONFIG": str(self.folder / "kubeconfig"),
        }
        return egress(*words, cwd=self.folder, env=env, timeout=TIMEOUT)

    def up(self) -> str:
        done = self.egress("up", "--runtime", "kubernetes")
        assert done.status == 0, done
        return done.out

    def kill(self) -> None:
        """`kill -9` of the process that listens."""
        with connect(self.folder / "run" / SOCKET_NAME, 10) as sock:
            pid = peer_of(sock).pid
        os.kill(pid, signal.SIGKILL)
        until(lambda: not Path(f"/proc/{pid}").exists(), "the process to be gone")

    def run(self, name: str, *words: str) -> str:
        made = self.egress("run", "-q", "--keep", "--name", name, "--image", "image:1", "--", *words)
        assert made.status == 0, made
        return made.out


@pytest.fixture
def place() -> Iterator[PodPlace]:
    cluster = FakeCluster()
    # A short path, since sockets are in it.
    with tempfile.TemporaryDirectory(prefix="egress-") as name, served(cluster) as api:
        found = PodPlace(Path(name), cluster)
        kubeconfig(found.folder, api.port)
        yield found
        found.egress("down")


def test_pods_come_back_after_a_kill_and_after_a_leave(place: PodPlace) -> None:
    assert "containers and pods are kept" not in place.up()
    assert place.run("one", "echo", "first") == "first\n"
    uid = place.cluster.pods["one"]["metadata"]["uid"]
    place.kill()
    assert place.cluster.sandboxes == ["one"]
    assert "back: one" in place.up()
    # The same request finds it again.
    assert place.run("one", "echo", "second") == "second\n"
    left = place.egress("down", "--keep")
    assert left.out == "stopped; 1 sandbox kept for the next `egress up`\n", left
    assert place.cluster.sandboxes == ["one"]
    assert "back: one" in place.up()
    assert place.egress("exec", "one", "--", "echo", "third").out == "third\n"
    assert place.cluster.pods["one"]["metadata"]["uid"] == uid
    assert place.egress("down").status == 0
    assert place.cluster.sandboxes == []


def test_a_pod_that_went_meanwhile_is_named(place: PodPlace) -> None:
    place.up()
    place.run("one", "true")
    place.kill()
    place.cluster.pods.pop("one")
    said = place.up()
    assert "the sandbox one is gone: its pod was removed" in said
    assert "back:" not in said
