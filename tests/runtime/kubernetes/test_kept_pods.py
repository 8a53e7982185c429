"""Pods that outlive their runtime: taken over as they were left, never doubled, and never those of others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from egress.cluster.api_server import ClusterApi
from egress.run_ticket import RunTicket, write_statement
from egress.runtime import owner_lock
from egress.runtime.errors import (
    EngineUnavailableError,
    SandboxDiedError,
    SandboxExistsError,
    SandboxNotFoundError,
    UnsupportedError,
)
from egress.runtime.kubernetes import kept_pods
from egress.runtime.kubernetes.runtime import KubernetesRuntime
from egress.runtime.kubernetes.settings import KubernetesSettings
from egress.runtime.protocol import KeepingRuntime, KeptTerms, TakenOver
from egress.runtime.spec import Command, Spec
from tests.runtime.kubernetes.fake_cluster import FakeCluster, Json, served

TERMS = KeptTerms('{"of": "ours"}', deadline=2000.0)
TICKET = RunTicket("5e884898da280471" + "0" * 48, 900)


class KeptLab:
    """A folder for kept pods, and the runtimes that come and go there."""

    def __init__(self, cluster: FakeCluster, api: ClusterApi, home: Path) -> None:
        self.cluster = cluster
        self.api = api
        self.home = home

    def open(self, *, keeps: bool = True, now: float = 1000.0) -> KubernetesRuntime:
        return KubernetesRuntime(self.api, self.home, KubernetesSettings(), lambda: now, keeps=keeps)

    def box(self, runtime: KubernetesRuntime, name: str, *, is_kept: bool = True, **values: object) -> None:
        runtime.create(Spec(**{"name": name, "image": "image:1", **values}))  # type: ignore[arg-type]
        runtime.start(name)
        if is_kept:
            runtime.keep(name, TERMS)

    def records(self) -> list[Path]:
        return sorted((self.home / "kept").glob("*.json"))


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[KeptLab]:
    cluster = FakeCluster()
    with served(cluster) as api:
        yield KeptLab(cluster, api, tmp_path / "home")


def kill(runtime: KubernetesRuntime) -> None:
    """End a runtime as a signal does: the kernel releases its lock, and nothing else happens."""
    runtime._lease.leave()


def losses(runtime: KubernetesRuntime) -> str:
    return "\n".join(runtime.cautions)


def test_a_kept_pod_comes_back_working_after_its_runtime_was_killed(lab: KeptLab) -> None:
    before: KeepingRuntime = lab.open()
    assert isinstance(before, KubernetesRuntime)
    lab.box(before, "one", profile="coding", parameters={"repo": "acme/site"}, labels={"team": "a"})
    lab.box(before, "stopped")
    before.stop("stopped")
    lab.box(before, "unkept", is_kept=False)
    kill(before)

    runtime = lab.open()
    # What has no record is gone before anything comes back.
    assert lab.cluster.sandboxes == ["one", "stopped"]
    assert runtime.list() == ()
    back = sorted(runtime.take_over(), key=lambda each: each.name)
    assert back == [TakenOver("one", TERMS), TakenOver("stopped", TERMS)]
    assert {info.name: info.state for info in runtime.list()} == {"one": "running", "stopped": "stopped"}
    assert runtime.list({"team": "a"})[0].profile == "coding"
    assert runtime.exec("one", Command(argv=("echo", "hello"))).text == "hello\n"
    with pytest.raises(SandboxDiedError):
        runtime.exec("stopped", Command(argv=("true",)))
    assert runtime.start("stopped").state == "running"
    with pytest.raises(SandboxExistsError):
        runtime.create(Spec(name="one", image="image:1"))
    runtime.close()
    assert lab.cluster.sandboxes == []
    assert lab.records() == []


def test_a_runtime_that_leaves_takes_only_what_is_not_kept(lab: KeptLab) -> None:
    runtime = lab.open()
    lab.box(runtime, "one")
    lab.box(runtime, "unkept", is_kept=False)
    runtime.leave()
    assert lab.cluster.sandboxes == ["one"]
    with pytest.raises(SandboxNotFoundError):
        runtime.info("one")
    again = lab.open()
    assert [each.name for each in again.take_over()] == ["one"]
    # Changed terms are those of the next one.
    again.keep("one", KeptTerms("other"))
    again.leave()
    last = lab.open(now=10**9)
    assert last.take_over() == (TakenOver("one", KeptTerms("other")),)
    last.remove("one")
    assert lab.records() == []
    last.close()


def test_kept_pods_wait_for_a_runtime_that_keeps_until_their_time_is_over(
    lab: KeptLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner_lock, "_KEPT_TIMEOUT", 0.1)
    runtime = lab.open()
    lab.box(runtime, "one")
    with pytest.raises(EngineUnavailableError, match="another process keeps sandboxes"):
        lab.open()
    kill(runtime)
    other = lab.open(keeps=False)
    assert other.take_over() == ()
    with pytest.raises(UnsupportedError):
        other.keep("one", TERMS)
    other.close()
    assert lab.cluster.sandboxes == ["one"]
    late = lab.open(now=2000.0)
    assert (lab.cluster.sandboxes, late.take_over(), lab.records()) == ([], (), [])
    late.close()


def test_pods_of_another_machine_in_the_same_namespace_are_left_alone(lab: KeptLab, tmp_path: Path) -> None:
    ours = lab.open()
    lab.box(ours, "one")
    theirs = KeptLab(lab.cluster, lab.api, tmp_path / "other")
    beside = theirs.open()
    theirs.box(beside, "two")
    kill(beside)
    ours.close()
    assert lab.cluster.sandboxes == ["two"]
    again = theirs.open()
    assert [each.name for each in again.take_over()] == ["two"]
    again.close()


def _another_pod(pod: Json) -> None:
    pod["metadata"]["uid"] = "uid-other"


def _ended_pod(pod: Json) -> None:
    pod["status"] = {"phase": "Failed", "reason": "DeadlineExceeded"}


@pytest.mark.parametrize("change", [_another_pod, _ended_pod, None])
def test_a_pod_that_is_gone_is_told_and_its_name_is_free(
    lab: KeptLab, change: Callable[[Json], None] | None
) -> None:
    runtime = lab.open()
    lab.box(runtime, "one")
    kill(runtime)
    if change is None:
        lab.cluster.pods.pop("one")
    else:
        change(lab.cluster.pods["one"])
    found = lab.open()
    assert found.take_over() == ()
    assert "the sandbox one is gone: its pod was removed" in losses(found)
    assert lab.records() == []
    lab.cluster.pods.pop("one", None)
    lab.box(found, "one")
    found.close()


def _relabelled(pod: Json) -> None:
    pod["metadata"]["labels"]["egress/owner"] = "fedcba9876543210"


def _without_gate(pod: Json) -> None:
    pod["metadata"]["labels"].pop("egress")


def _with_profile(pod: Json) -> None:
    pod["metadata"]["annotations"]["egress/profile"] = "wide"


def _with_parameter(pod: Json) -> None:
    pod["metadata"]["annotations"]["egress/param.repo"] = "evil/site"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_relabelled, "its label egress/owner was changed"),
        (_without_gate, "its gate or its label of sandboxes is gone"),
        (_with_profile, "its profile or its parameters were changed"),
        (_with_parameter, "its profile or its parameters were changed"),
    ],
)
def test_a_pod_that_was_changed_is_stopped_and_stays_for_its_operator(
    lab: KeptLab, change: Callable[[Json], None], told: str
) -> None:
    runtime = lab.open()
    lab.box(runtime, "one")
    kill(runtime)
    change(lab.cluster.pods["one"])
    found = lab.open()
    if change is _relabelled:
        assert lab.cluster.sandboxes == ["one"]
    assert found.take_over() == ()
    assert f"the sandbox one was stopped and not taken over: {told}" in losses(found)
    assert "kill -KILL -1" in lab.cluster.commands[-1].words[2]
    assert lab.cluster.sandboxes == ["one"]
    assert len(lab.records()) == 1
    # `egress down` knows it by its uid, whatever its labels say.
    found.close()
    assert lab.cluster.sandboxes == []
    assert lab.records() == []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.write_text("{"),
        lambda file: file.write_text(json.dumps({**json.loads(file.read_text()), "more": 1})),
        lambda file: file.write_text(file.read_text().replace('"version":1', '"version":2')),
        lambda file: file.write_bytes(b" " * (kept_pods.MAX_RECORD_BYTES + 1)),
        lambda file: file.chmod(0o644),
    ],
    ids=["cut", "more", "version", "long", "open"],
)
def test_a_record_that_cannot_be_read_keeps_its_pod_for_its_operator(
    lab: KeptLab, spoil: Callable[[Path], object]
) -> None:
    runtime = lab.open()
    lab.box(runtime, "one")
    kill(runtime)
    (file,) = lab.records()
    assert file.stat().st_mode & 0o777 == 0o600
    spoil(file)
    found = lab.open()
    assert found.take_over() == ()
    assert lab.cluster.sandboxes == ["one"]
    assert f"a sandbox was not taken over: {file}" in losses(found)
    found.close()
    assert lab.cluster.sandboxes == []
    assert lab.records() == []


def test_a_record_under_another_name_is_the_record_of_nobody(lab: KeptLab) -> None:
    runtime = lab.open()
    lab.box(runtime, "one")
    kill(runtime)
    (file,) = lab.records()
    file.rename(file.with_name("0" * 32 + ".json"))
    found = lab.open()
    assert found.take_over() == ()
    assert "is the record of another sandbox" in losses(found)
    found.close()


def test_sandboxes_of_another_cluster_wait_for_a_runtime_there(lab: KeptLab) -> None:
    runtime = lab.open()
    lab.box(runtime, "one")
    kill(runtime)
    there = FakeCluster()
    with served(there) as api:
        other = KeptLab(there, api, lab.home).open()
        assert other.take_over() == ()
        assert f"the namespace agents of {lab.api.host_header} wait for an `egress up` there: 1" in losses(
            other
        )
        other.close()
    assert len(lab.records()) == 1
    back = lab.open()
    assert [each.name for each in back.take_over()] == ["one"]
    back.close()


def test_a_container_that_began_anew_meanwhile_is_a_sandbox_that_ended(lab: KeptLab) -> None:
    runtime = lab.open()
    lab.box(runtime, "one")
    kill(runtime)
    again: Json = {"name": "sandbox", "containerID": "containerd://2", "state": {"running": {}}}
    lab.cluster.pods["one"]["status"]["containerStatuses"] = [again]
    found = lab.open()
    assert len(found.take_over()) == 1
    assert found.info("one").state == "stopped"
    assert found.start("one").state == "running"
    found.close()


def test_a_claim_is_kept_with_its_pod(lab: KeptLab) -> None:
    gate = {"name": "egress-gate", "command": ["egress", "gate"]}
    spec = {"containers": [{"name": "work"}], "initContainers": [gate]}
    lab.cluster.pool = {"metadata": {"labels": {"egress": "workload"}}, "spec": spec}
    status = lab.cluster.status["containerStatuses"][0]
    lab.cluster.status = {**lab.cluster.status, "containerStatuses": [{**status, "name": "work"}]}
    runtime = lab.open()
    lab.box(runtime, "one", image="pool:python", profile="coding", parameters={"repo": "acme/site"})
    lab.box(runtime, "unkept", is_kept=False, image="pool:python")
    kill(runtime)
    found = lab.open()
    assert list(lab.cluster.sandboxclaims) == ["one"]
    assert len(found.take_over()) == 1
    assert found.exec("one", Command(argv=("echo", "hello"))).text == "hello\n"
    kill(found)
    claim = lab.cluster.sandboxclaims["one"]
    changes: tuple[tuple[Json, str, str, str], ...] = (
        (claim["status"]["sandbox"], "name", "pool-other", "its claim has another pod"),
        (claim["spec"]["additionalPodMetadata"]["annotations"], "egress/profile", "wide", "its profile or"),
        (claim["metadata"]["labels"], "egress/owner", "fedcba9876543210", "its label egress/owner"),
    )
    for place, key, value, told in changes:
        before, place[key] = place[key], value
        changed = lab.open()
        assert changed.take_over() == ()
        assert told in losses(changed)
        kill(changed)
        place[key] = before
    back = lab.open()
    assert len(back.take_over()) == 1
    back.close()
    assert not lab.cluster.sandboxclaims


def test_a_record_that_cannot_be_written_is_an_error_and_tried_again(
    lab: KeptLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = lab.open()
    lab.box(runtime, "one", is_kept=False)

    def full(*_: object, **__: object) -> bool:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(kept_pods, "write_atomically", full)
        with pytest.raises(EngineUnavailableError, match="no space left"):
            runtime.keep("one", TERMS)
    assert lab.records() == []
    runtime.start("one")
    assert len(lab.records()) == 1
    runtime.close()


def test_an_api_server_that_fails_meanwhile_costs_no_kept_pod(lab: KeptLab) -> None:
    runtime = lab.open()
    lab.box(runtime, "one")
    kill(runtime)
    found = lab.open()
    lab.cluster.refused["GET /api/v1/namespaces/agents/pods/one"] = (500, {"message": "etcd"})
    with pytest.raises(Exception, match="etcd"):
        found.take_over()
    found.leave()
    lab.cluster.refused.clear()
    assert lab.cluster.sandboxes == ["one"]
    again = lab.open()
    assert len(again.take_over()) == 1
    again.close()


def test_access_is_revoked_at_the_gateway_and_not_here(lab: KeptLab) -> None:
    runtime = lab.open()
    lab.box(runtime, "one")
    with pytest.raises(UnsupportedError, match="egress kill"):
        runtime.bar("one", "killed")
    runtime.close()


def test_tickets_of_runs_that_were_killed_are_removed_when_their_time_is_over(lab: KeptLab) -> None:
    runtime = lab.open(now=1000.0)
    lab.box(runtime, "one")
    notes = lab.cluster.pods["one"]["metadata"]["annotations"]
    uid = lab.cluster.pods["one"]["metadata"]["uid"]
    live = RunTicket("a" * 64, 5000)
    near = RunTicket("b" * 64, 970)
    for ticket in (TICKET, live, near):
        notes[f"egress/ticket.{ticket.id}"] = write_statement(ticket, uid)
    notes["egress/ticket.t-other"] = "somebody's own text"
    kill(runtime)

    def there() -> set[str]:
        found = lab.cluster.pods["one"]["metadata"]["annotations"]
        return {name.removeprefix("egress/ticket.") for name in found if "ticket" in name}

    found = lab.open()
    found.take_over()
    # One that is over for less than clocks may differ stays, and so does what is no ticket.
    assert there() == {live.id, near.id, "t-other"}
    made = RunTicket("c" * 64, 6000)
    kill(found)
    later = lab.open(now=1500.0)
    later.take_over()
    lab.cluster.pods["one"]["metadata"]["annotations"][f"egress/ticket.{TICKET.id}"] = write_statement(
        TICKET, uid
    )
    assert later.add_ticket("one", made, 60) == 6000
    assert there() == {live.id, made.id, "t-other"}
    with suppress(SandboxNotFoundError):
        later.end_ticket("one", made.id)
    assert there() == {live.id, "t-other"}
    later.close()


def test_a_ticket_that_has_to_be_delegated_is_refused(lab: KeptLab) -> None:
    """The rules of the gateway cannot be asked, so nothing says that they delegate it."""
    runtime = lab.open()
    lab.box(runtime, "one")
    with pytest.raises(UnsupportedError, match="delegate no tickets"):
        runtime.add_ticket("one", TICKET, 60, is_delegated=True)
    with pytest.raises(UnsupportedError):
        runtime.end_ticket("one", TICKET.id, "the API at the port")
    runtime.close()
