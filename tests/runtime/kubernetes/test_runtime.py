"""The runtime of pods, at a stand-in for a cluster: what it asks for, and what it makes of each answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.run_ticket import RunTicket, read_statement
from egress.runtime.errors import (
    EngineError,
    GatewayError,
    ImageMissingError,
    PortClosedError,
    SandboxDiedError,
    SandboxError,
    SandboxExistsError,
    SandboxStateError,
    SpecError,
    UnsupportedError,
)
from egress.runtime.kubernetes import runtime as module
from egress.runtime.kubernetes.runtime import KubernetesRuntime
from egress.runtime.kubernetes.settings import KubernetesSettings
from egress.runtime.protocol import Runtime
from egress.runtime.spec import Command, Event, EventKind, ExecResult, Spec, Terminal
from tests.runtime.kubernetes.fake_cluster import READY, FakeCluster, Json, served


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def runtime(cluster: FakeCluster, tmp_path: Path) -> Iterator[KubernetesRuntime]:
    with served(cluster) as api:
        made = KubernetesRuntime(api, tmp_path / "home", KubernetesSettings())
        yield made
        cluster.refused.clear()
        made.close()
    assert cluster.sandboxes == []


def spec(name: str = "one", **values: object) -> Spec:
    return Spec(**{"name": name, "image": "image:1", **values})  # type: ignore[arg-type]


def begun(runtime: KubernetesRuntime) -> None:
    runtime.create(spec())
    runtime.start("one")


def run(runtime: KubernetesRuntime, *words: str, **values: object) -> ExecResult:
    return runtime.exec("one", Command(argv=words, **values))  # type: ignore[arg-type]


def is_a_runtime(runtime: KubernetesRuntime) -> Runtime:
    return runtime


def test_a_sandbox_is_a_pod_from_its_creation_to_its_removal(
    runtime: KubernetesRuntime, cluster: FakeCluster
) -> None:
    assert is_a_runtime(runtime).create(spec(labels={"team": "a"})).state == "created"
    assert cluster.sandboxes == ["one"]
    with pytest.raises(SandboxStateError):
        run(runtime, "true")
    assert runtime.start("one").state == "running"
    assert [info.name for info in runtime.list({"team": "a"})] == ["one"]
    runtime.remove("one")
    assert cluster.sandboxes == []


def test_a_command_gets_its_words_its_variables_and_its_input(
    runtime: KubernetesRuntime, cluster: FakeCluster
) -> None:
    begun(runtime)
    assert run(runtime, "echo", "a  b", "$(c)\n'd'\n").stdout_bytes == b"a  b $(c)\n'd'\n\n"
    assert run(runtime, "cat", input=b"1\n2").stdout_bytes == b"1\n2"
    assert (
        run(runtime, "env", env={"A": "x\ny"}).stdout_bytes == b"A=x\ny\n"[:0] + b"A=x\ny\negress_report=1\n"
    )
    assert run(runtime, "false").exit_code == 1
    # Nothing of a command stands in the address of a request, which API servers log.
    assert not [target for target in cluster.requests if "echo" in target]


def test_a_terminal_has_its_size_and_its_words(runtime: KubernetesRuntime, cluster: FakeCluster) -> None:
    begun(runtime)
    command = Command(argv=("echo", "x y"), env={"A": "b c"}, terminal=Terminal(columns=100, rows=30))
    assert runtime.spawn("one", command).wait(30).stdout_bytes == b"x y\n"
    assert cluster.commands[-1].env == {"A": "b c"}


def test_a_stop_ends_the_processes_and_keeps_the_pod(
    runtime: KubernetesRuntime, cluster: FakeCluster
) -> None:
    with runtime.events() as events:
        begun(runtime)
        process = runtime.spawn("one", Command(argv=("sleep", "60")))
        runtime.stop("one")
        assert "kill -KILL -1" in cluster.commands[-1].words[2]
        assert runtime.info("one").state == "stopped"
        process._attached.abort()  # the stand-in kills nothing
        with pytest.raises(SandboxDiedError):
            process.wait(30)
        with pytest.raises(SandboxDiedError):
            run(runtime, "true")
        assert runtime.start("one").state == "running"
        assert cluster.sandboxes == ["one"]
        runtime.remove("one")
        kinds: tuple[EventKind, ...] = ("created", "started", "died", "started", "removed")
        assert [next(events) for _ in kinds] == [Event(kind, "one") for kind in kinds]


def test_a_container_that_began_anew_is_a_sandbox_that_ended(
    runtime: KubernetesRuntime, cluster: FakeCluster
) -> None:
    """Its memory ran out: its processes are gone, and its files are there."""
    begun(runtime)
    again: Json = {"name": "sandbox", "containerID": "containerd://2", "state": {"running": {}}}
    cluster.pods["one"]["status"]["containerStatuses"] = [again]
    assert (runtime.info("one").state, runtime.info("one").exit_code) == ("stopped", 137)
    with pytest.raises(SandboxDiedError):
        run(runtime, "true")
    assert runtime.start("one").state == "running"
    assert run(runtime, "true").exit_code == 0


def test_a_pod_that_somebody_removed_is_not_begun_again(
    runtime: KubernetesRuntime, cluster: FakeCluster
) -> None:
    begun(runtime)
    cluster.pods.pop("one")
    assert runtime.info("one").state == "stopped"
    with pytest.raises(SandboxDiedError, match="was removed"):
        runtime.start("one")


def test_a_pod_of_the_same_name_is_never_taken_for_the_own_one(
    runtime: KubernetesRuntime, cluster: FakeCluster
) -> None:
    begun(runtime)
    cluster.pods.pop("one")
    cluster.add_pod("one", {}, {})
    with pytest.raises(SandboxDiedError):
        run(runtime, "true")
    runtime.remove("one")
    assert cluster.sandboxes == ["one"]
    with pytest.raises(SandboxExistsError, match="has a pod one already"):
        runtime.create(spec())
    cluster.pods.pop("one")


def waits(name: str, reason: str) -> Json:
    return {"name": name, "state": {"waiting": {"reason": reason}}}


GATE = {"name": "egress-gate", "state": {"terminated": {"exitCode": 1, "message": "10.96.0.1:443 answers\n"}}}


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        ({"initContainerStatuses": [GATE]}, GatewayError, "lets nothing start: 10.96.0.1:443 answers"),
        (
            {"initContainerStatuses": [{"name": "egress-gate", "lastState": GATE["state"]}]},
            GatewayError,
            "10.96.0.1:443 answers",
        ),
        (
            {
                "initContainerStatuses": [
                    {"name": "egress-gate", "state": {"waiting": {"reason": "ErrImagePull"}}}
                ]
            },
            GatewayError,
            "no image of the gate",
        ),
        (
            {
                "containerStatuses": [
                    {"name": "sandbox", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
                ]
            },
            ImageMissingError,
            "no image image:1",
        ),
        (
            {
                "containerStatuses": [
                    {"name": "sandbox", "state": {"terminated": {"exitCode": 128, "message": "no /bin/sh"}}}
                ]
            },
            UnsupportedError,
            "has no /bin/sh",
        ),
        ({"phase": "Failed", "reason": "DeadlineExceeded"}, EngineError, "DeadlineExceeded"),
    ],
)
def test_a_pod_that_never_becomes_ready_is_removed_and_says_why(
    runtime: KubernetesRuntime, cluster: FakeCluster, status: Json, kind: type[SandboxError], message: str
) -> None:
    cluster.status = status
    with pytest.raises(kind, match=message):
        runtime.create(spec())
    assert cluster.sandboxes == []
    assert runtime.list() == ()
    cluster.status = dict(READY)
    assert runtime.create(spec()).state == "created"


def test_a_pod_that_waits_is_given_up_with_what_it_waits_for(
    runtime: KubernetesRuntime, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READY_SECONDS", 0.1)
    delay = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes: Insufficient cpu"}
    cluster.status = {"phase": "Pending", "conditions": [delay]}
    with pytest.raises(EngineError, match=r"not ready within 0.1s: 0/1 nodes: Insufficient cpu"):
        runtime.create(spec())
    assert cluster.sandboxes == []


def test_a_pod_that_the_api_server_refuses_takes_no_name(
    runtime: KubernetesRuntime, cluster: FakeCluster
) -> None:
    path = "POST /api/v1/namespaces/agents/pods"
    cluster.refused[path] = (403, {"message": "policy says no"})
    with pytest.raises(EngineError, match=r"403 .*policy says no"):
        runtime.create(spec())
    cluster.refused.clear()
    runtime.create(spec())


def test_what_no_pod_has_is_refused_before_anything_is_made(
    runtime: KubernetesRuntime, cluster: FakeCluster
) -> None:
    for refused in (spec("a_b"), spec("a..b"), spec(user=0)):
        with pytest.raises(SpecError):
            runtime.create(refused)
    with pytest.raises(UnsupportedError, match="8443"):
        runtime.create(spec(ports=(8443,)))
    begun(runtime)
    with pytest.raises(UnsupportedError, match="cannot be paused"):
        runtime.pause("one")
    runtime.resume("one")
    with pytest.raises(UnsupportedError, match="8443"):
        runtime.open_ports("one", (443, 8443))
    runtime.open_ports("one", (443,))
    runtime.prepare(spec("two"), 1)
    with pytest.raises(SpecError):
        runtime.prepare(spec("two"), 65)
    assert cluster.sandboxes == ["one"]


def test_a_port_is_reached_if_a_program_listens(runtime: KubernetesRuntime) -> None:
    begun(runtime)
    with pytest.raises(PortClosedError, match="9000"):
        runtime.dial("one", 9000)
    with runtime.dial("one", 8000) as sock:
        sock.settimeout(30)
        sock.sendall(b"hello")
        assert sock.recv(100) == b"hello"


def test_two_callers_of_one_name_make_one_pod(runtime: KubernetesRuntime, cluster: FakeCluster) -> None:
    failed: list[SandboxError] = []

    def create() -> None:
        try:
            runtime.create(spec())
        except SandboxExistsError as error:
            failed.append(error)

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (cluster.sandboxes, len(failed)) == (["one"], 3)


def test_a_namespace_without_a_gateway_is_named_at_once(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.services.clear()
    with served(cluster) as api, pytest.raises(GatewayError, match="namespace agents has no gateway"):
        KubernetesRuntime(api, tmp_path, KubernetesSettings())
    assert list(tmp_path.iterdir()) == []


def test_a_ticket_of_a_pod_of_its_own_stands_on_the_pod(
    runtime: KubernetesRuntime, cluster: FakeCluster
) -> None:
    begun(runtime)
    pod = cluster.pods["one"]
    before = dict(pod["metadata"].get("annotations", {}))
    ticket = RunTicket("5e884898da280471" + "0" * 48, 2_000_000_000)
    runtime.add_ticket("one", ticket, 60)
    statement = read_statement(pod["metadata"]["annotations"][f"egress/ticket.{ticket.id}"])
    assert statement is not None
    assert statement.pod == pod["metadata"]["uid"]
    runtime.end_ticket("one", ticket.id)
    assert pod["metadata"]["annotations"] == before
