"""Sandboxes that are pods of a real cluster: the promises of every runtime, behind a real fence."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from egress import environment
from egress.cluster.api_server import ClusterApi
from egress.cluster.kubeconfig import read_kubeconfig
from egress.fleet.folders import SOCKET_NAME
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.kubernetes.runtime import KubernetesRuntime
from egress.runtime.kubernetes.settings import KubernetesSettings
from egress.runtime.protocol import Runtime
from egress.runtime.spec import Command, ExecResult, Spec
from egress.unix.peer import peer_of
from egress.unix.stream_socket import connect
from scripts.cluster import images
from tests.cluster.agent_sandbox.controller import EXTENSIONS, AgentSandbox
from tests.cluster.running_cluster import RunningCluster, wait
from tests.cluster.shipped_fence import BESIDE_THE_PROXY, PROBE, WAYS_TO_THE_PROXY, Fence, workload
from tests.cluster.stand_ins import Internet, policy_engine
from tests.runtime import docker_lab
from tests.runtime.test_guide import PRINTED, program
from tests.unit.runtime.contract import CASES, Case, archive

pytestmark = [pytest.mark.timeout(600), pytest.mark.nightly]

NOT_PROMISED = {
    "only_what_runs_takes_commands": "it pauses, which no pod can",
    "what_happens_is_told": "it pauses, which no pod can",
    "what_is_kept_ready_is_bounded_and_ends": "no image is looked at before a pod needs it",
}
PROMISED = [each for each in CASES if each.__name__ not in NOT_PROMISED]
SETTINGS = KubernetesSettings(blocked=("10.96.0.10:53",))


@pytest.fixture(scope="session")
def image(running: RunningCluster | None) -> str:
    """An image with a shell, tar and Python, as tests of containers use it."""
    if running is None:
        return ""
    name = docker_lab.image(DockerEngine())
    images.load_from_engine(running.folders, [name])
    return name


@pytest.fixture(scope="module", autouse=True)
def enforced(running: RunningCluster | None) -> Iterator[None]:
    if running is None:
        yield
        return
    with policy_engine(running):
        yield


def api_of(fence: Fence) -> ClusterApi:
    return read_kubeconfig([fence.cluster.folders.kubeconfig], namespace=fence.namespace)


class Podded:
    """A runtime of pods, as the shared promises use it."""

    def __init__(self, runtime: KubernetesRuntime, image: str) -> None:
        self._image = image
        self.runtime: Runtime = runtime

    def spec(self, name: str, **values: object) -> Spec:
        return Spec(**{"name": name, "image": self._image, **values})  # type: ignore[arg-type]

    def run(self, *words: str, **values: object) -> ExecResult:
        return self.runtime.exec("one", Command(argv=words, **values))  # type: ignore[arg-type]


@pytest.fixture
def bench(fence: Fence, image: str, tmp_path: Path) -> Iterator[Podded]:
    runtime = KubernetesRuntime(api_of(fence), tmp_path / "home", SETTINGS)
    yield Podded(runtime, image)
    runtime.close()
    assert fence.cluster.pods(fence.namespace, "egress/owner") == []


def test_what_is_not_promised_is_in_the_list_of_promises() -> None:
    assert NOT_PROMISED.keys() < {each.__name__ for each in CASES}


@pytest.mark.parametrize("promise", PROMISED, ids=lambda case: case.__name__)
def test_a_promise_is_kept_and_nothing_is_left(promise: Case, bench: Podded) -> None:
    promise(bench)


def test_a_command_that_leaves_something_running_settles(bench: Podded) -> None:
    """The engine of the cluster waits until each process has closed its output."""
    bench.runtime.create(bench.spec("one"))
    bench.runtime.start("one")
    found = bench.run("sh", "-c", "sleep 300 & echo started", timeout=60)
    assert (found.exit_code, found.stdout_bytes) == (0, b"started\n")
    found = bench.run("sh", "-c", "yes & echo started; sleep 0.2", timeout=60, most_output=100)
    assert found.exit_code == 0
    assert bench.run("sh", "-c", "exec >&- 2>&- <&-; sleep 0.3; exit 9").exit_code == 9


def test_a_stop_ends_every_process_and_no_file(bench: Podded) -> None:
    bench.runtime.create(bench.spec("one"))
    bench.runtime.start("one")
    bench.run("sh", "-c", "echo kept >a; trap '' TERM HUP; (trap '' TERM HUP; sleep 300) & sleep 0.1")
    bench.runtime.stop("one")
    bench.runtime.start("one")
    left = bench.run("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; cat a").text
    assert "sleep 300" not in left
    assert left.endswith("kept\n")


def test_a_sandbox_reaches_the_gateway_with_a_credential_that_it_does_not_hold(
    bench: Podded, fence: Fence, canary: Internet
) -> None:
    bench.runtime.create(bench.spec("one"))
    bench.runtime.start("one")
    before = canary.mark()
    asked = bench.run(
        "curl", "-sS", "-m", "20", "-o", "/tmp/b", "-w", "%{http_code}", "https://api.github.com/zen"
    )
    assert asked.text == "200", asked.stderr
    # The names of other hosts lead to the page of the gateway, and nobody else is told of them.
    denied = bench.run("curl", "-sS", "-m", "20", "https://elsewhere.example.com/")
    assert json.loads(denied.text)["error"]["code"] == "host.unknown"
    (head,) = canary.heads(before)
    assert f"authorization: bearer {fence.token}" in head.lower()
    assert fence.token not in bench.run("env").text
    words = (*BESIDE_THE_PROXY, *WAYS_TO_THE_PROXY)
    reached = bench.run("python3", "-I", "-c", PROBE, *words).text
    assert {word for word in words if f'"{word}"' in reached} == set(WAYS_TO_THE_PROXY)


LEFT_BEHIND = """
import sys
from pathlib import Path
from egress.cluster.kubeconfig import read_kubeconfig
from egress.runtime.kubernetes.runtime import KubernetesRuntime
from egress.runtime.kubernetes.settings import KubernetesSettings
from egress.runtime.spec import Spec

file, namespace, home, image = sys.argv[1:]
api = read_kubeconfig([Path(file)], namespace=namespace)
KubernetesRuntime(api, Path(home), KubernetesSettings()).create(Spec(name="left", image=image))
print("made", flush=True)
sys.stdin.read()
"""


def test_a_program_that_is_killed_leaves_nothing_for_long(fence: Fence, image: str, tmp_path: Path) -> None:
    """The next runtime of its folder removes what is left, and the cluster does in any case."""
    file, home = fence.cluster.folders.kubeconfig, tmp_path / "home"
    command = [sys.executable, "-c", LEFT_BEHIND, str(file), fence.namespace, str(home), image]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == b"made\n"
        killed.send_signal(signal.SIGKILL)
    (left,) = fence.cluster.pods(fence.namespace, "egress/owner")
    assert left["spec"]["activeDeadlineSeconds"] == 86400
    KubernetesRuntime(api_of(fence), home, SETTINGS).close()
    pods = fence.cluster.pods(fence.namespace, "egress/owner")
    assert [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]] == []


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="egress-") as name:
        yield Path(name)


def _environ(fence: Fence, folder: Path) -> dict[str, str]:
    return {
        **environment.read_environment(),
        "KUBECONFIG": str(fence.cluster.folders.kubeconfig),
        "EGRESS_KUBERNETES_NAMESPACE": fence.namespace,
        "EGRESS_STATE_DIR": str(folder / "state"),
        "EGRESS_RUNTIME_DIR": str(folder / "run"),
    }


def test_sandboxes_of_egress_up_survive_it_with_their_files_their_processes_and_their_fence(
    fence: Fence, image: str, short_path: Path, canary: Internet
) -> None:
    """Killed as by a lack of memory, then left for an upgrade, then ended."""

    def egress(*words: str, status: int = 0) -> str:
        command = [sys.executable, "-m", "egress", *words]
        env = _environ(fence, short_path)
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == status, (words, done.stdout, done.stderr)
        return done.stdout

    def pid() -> int:
        with connect(short_path / "run" / SOCKET_NAME, 10) as sock:
            return peer_of(sock).pid

    def fetched() -> str:
        words = (
            "curl",
            "-sS",
            "-m",
            "20",
            "-o",
            "/tmp/b",
            "-w",
            "%{http_code}",
            "https://api.github.com/zen",
        )
        return egress("exec", "one", "--", *words)

    def await_more_ticks() -> None:
        count = ("exec", "one", "--", "wc", "-l", "ticks")
        before = egress(*count)
        wait(lambda: egress(*count) != before, lambda: "its process does not go on")

    egress("up", "--runtime", "kubernetes")
    try:
        ticks = "echo kept >file; while :; do date >>ticks; sleep 0.5; done"
        egress("run", "-q", "--keep", "--name", "one", "--image", image, "--", "true")
        egress("exec", "--detach", "one", "--", "sh", "-c", ticks)
        wait(lambda: "kept" in egress("exec", "one", "--", "sh", "-c", "cat file || :"), lambda: "no file")
        assert fetched() == "200"
        (before,) = fence.cluster.pods(fence.namespace, "egress/owner")
        for end in ("kill", "leave"):
            if end == "kill":
                os.kill(number := pid(), signal.SIGKILL)
                wait(lambda: not Path(f"/proc/{number}").exists(), lambda: "it lives")
            else:
                egress("down", "--keep")
            (pod,) = fence.cluster.pods(fence.namespace, "egress/owner")
            assert pod["metadata"]["uid"] == before["metadata"]["uid"]
            assert "back: one" in egress("up", "--runtime", "kubernetes")
            assert egress("exec", "one", "--", "cat", "file") == "kept\n"
            await_more_ticks()
            mark = canary.mark()
            assert fetched() == "200"
            (head,) = canary.heads(mark)
            assert f"authorization: bearer {fence.token}" in head.lower()
            words = (*BESIDE_THE_PROXY, *WAYS_TO_THE_PROXY)
            reached = egress("exec", "one", "--", "python3", "-I", "-c", PROBE, *words)
            assert {word for word in words if f'"{word}"' in reached} == set(WAYS_TO_THE_PROXY)
    finally:
        egress("down")
    pods = fence.cluster.pods(fence.namespace, "egress/owner")
    assert [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]] == []


def test_the_program_of_the_guide_runs_here_too(fence: Fence, image: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program(), "kubernetes", image],
        env=_environ(fence, tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == PRINTED, done.stderr


def test_a_sandbox_comes_from_a_warm_pool(
    bench: Podded, fence: Fence, agent_sandbox: AgentSandbox, image: str
) -> None:
    """The controller's steps are taken here, in their order, as soon as the claim is there."""
    blueprint = workload("member")
    (container,) = blueprint["spec"]["containers"]
    container["image"] = image
    template = agent_sandbox.template("python", blueprint)
    pool = agent_sandbox.pool("python", template)
    member = agent_sandbox.member(pool, template)
    fence.cluster.until_ready(fence.namespace, member["metadata"]["name"])
    claims = f"/apis/{EXTENSIONS}/namespaces/{fence.namespace}/sandboxclaims"

    def adopt() -> None:
        wait(lambda: fence.cluster.api.get(claims)["items"], lambda: "no claim came")
        (claim,) = fence.cluster.api.get(claims)["items"]
        agent_sandbox.adopt(claim, member)

    controller = threading.Thread(target=adopt)
    controller.start()
    bench.runtime.create(Spec(name="one", image="pool:python", env={"A": "1"}))
    controller.join(30)
    bench.runtime.start("one")
    found = bench.run("sh", "-c", "echo $A; pwd; sleep 300 & exit 7", timeout=30)
    assert (found.exit_code, found.text) == (7, "1\n/workspace\n")
    assert bench.run("sleep", "60", timeout=0.5).timed_out
    bench.runtime.put("one", "/workspace", archive(a=b"x"))
    assert bench.run("cat", "a").text == "x"
    # What the claim owns goes with it: here the cluster's own garbage collector sees to that.
    bench.runtime.remove("one")
    assert fence.cluster.api.get(claims)["items"] == []
