"""C25, C26: two replicas under load, of which one is killed, and all are replaced."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.container_processes import container_id
from tests.cluster.installed_chart import InstalledChart, installed, trusting_upstreams
from tests.cluster.load import Asked, Load
from tests.cluster.running_cluster import RunningCluster, is_ready, wait
from tests.cluster.stand_ins import Internet, policy_engine

pytestmark = [pytest.mark.timeout(1800), pytest.mark.nightly]

STREAM_SECONDS = 60
RATE = 100


@pytest.fixture(scope="module")
def standing_replicas(
    running: RunningCluster | None, outside: Internet | None, images_of_the_product: None
) -> Iterator[InstalledChart | None]:
    if running is None or outside is None:
        yield None
        return
    # A drain that is longer than the stream.
    values = trusting_upstreams(drainSeconds=STREAM_SECONDS + 30)
    with (
        policy_engine(running),
        installed(InstalledChart(running, values=values), outside.authority) as found,
    ):
        yield found


@pytest.fixture
def replicas(cluster: RunningCluster, standing_replicas: InstalledChart | None) -> Iterator[InstalledChart]:
    assert standing_replicas is not None
    with standing_replicas.kept_as_it_is():
        yield standing_replicas


def egress_log(chart: InstalledChart, folder: Path, *words: str) -> str:
    """Run `egress log` on the collected logs of the replicas."""
    env = {"KUBECONFIG": str(chart.cluster.folders.kubeconfig), "HOME": str(folder), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-m", "egress", "log", *words],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def until_two_serve(chart: InstalledChart) -> None:
    def serve() -> bool:
        pods = chart.proxies()
        return len(pods) == 2 and all(is_ready(pod) for pod in pods)

    wait(serve, lambda: chart.cluster.kubectl("-n", chart.namespace, "describe", "pods"), 120)


def test_an_upgrade_of_all_replicas_fails_no_request_and_no_stream(
    replicas: InstalledChart, tmp_path: Path
) -> None:
    """C26."""
    before = {pod["metadata"]["uid"] for pod in replicas.proxies()}
    load = Load.start(replicas, 4, rate=RATE, stream=STREAM_SECONDS)
    resources = {"requests": {"cpu": "110m", "memory": "256Mi"}}
    gateway = {**replicas.values["gateway"], "resources": resources}
    replicas.upgrade(values={"gateway": gateway})

    def all_are_new() -> bool:
        pods = replicas.proxies()
        return len(pods) == 2 and not before & {pod["metadata"]["uid"] for pod in pods}

    wait(all_are_new, lambda: "an old replica stays", 400)
    until_two_serve(replicas)
    asked = load.stop()
    assert [each for each in asked if each.error] == []
    assert [each.path for each in asked].count("stream") == 1
    assert_each_is_logged_once(replicas, asked, tmp_path)


def test_a_replica_that_is_killed_leaves_its_sandboxes_to_the_other(
    replicas: InstalledChart, tmp_path: Path
) -> None:
    """C25: a client that tries again is served by the other replica; the killed one says what it lost."""
    load = Load.start(replicas, 4, rate=RATE, tries=50)
    served = Counter(line["replica"] for line in replicas.lines() if line.get("event") == "exchange")
    killed = max(served, key=lambda each: served[each])
    pod = replicas.cluster.pod(replicas.namespace, killed)
    kill(replicas.cluster, container_id(pod, "proxy"))

    def is_back() -> bool:
        (status,) = replicas.cluster.pod(replicas.namespace, killed)["status"]["containerStatuses"]
        return bool(status["restartCount"] and status["ready"])

    wait(is_back, lambda: f"{killed} does not come back", 120)
    asked = load.stop()
    assert [each for each in asked if each.error] == []
    again = [each for each in asked if each.tries > 1]
    assert again, "the killed replica served nobody"
    assert_each_is_logged_once(replicas, asked, tmp_path)
    longest = max(each.seconds for each in again)
    sys.stdout.write(f"{len(again)} requests were tried again, for {longest} s at the longest\n")


def kill(cluster: RunningCluster, container: str) -> None:
    """Kill the process of a container as a lack of memory would."""
    words = ("ctr", "--address", str(cluster.folders.containerd_socket), "--namespace", "k8s.io")
    subprocess.run([*words, "tasks", "kill", "--signal", "SIGKILL", container], check=True)


def assert_each_is_logged_once(chart: InstalledChart, asked: list[Asked], folder: Path) -> None:
    """Both chains verify, and their lines together have each request that was answered."""
    key = ("--key", "key")
    egress_log(chart, folder, "collect", "all", "--kubernetes", "-n", chart.namespace, *key)
    egress_log(chart, folder, "verify", "--dir", "all", *key)
    lines = egress_log(chart, folder, "query", "--dir", "all", "--json", "--limit", "100000").splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{")]
    served = Counter(line["path"] for line in found if line.get("status") == 200)
    lost = [line for line in found if line["event"] == "lost"]
    paths = {each.path for each in asked if each.path != "stream"}
    missing = paths - served.keys()
    # An answer whose line was not written yet when its replica was killed is said to be lost.
    assert len(missing) <= len(lost), missing
    twice = {path for path in paths if served[path] > 1}
    assert twice <= {each.path for each in asked if each.tries > 1}, "only what was tried again"
    slowest = max(each.seconds for each in asked if each.path != "stream")
    sys.stdout.write(
        f"{len(paths)} requests, the slowest took {slowest} s; {len(lost)} are said to be lost\n"
    )
