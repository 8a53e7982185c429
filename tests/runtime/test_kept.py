"""Sandboxes that outlive their runtime: guarded meanwhile, taken over as they were, and never doubled."""

from __future__ import annotations

import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from docker import APIClient

from egress.ca import public_roots
from egress.runtime import owner_lock
from egress.runtime.docker import labels, names
from egress.runtime.docker.engine import Container, DockerEngine
from egress.runtime.docker.reaper import reap
from egress.runtime.docker.runtime import DockerRuntime
from egress.runtime.errors import EngineUnavailableError, SandboxExistsError, UnsupportedError
from egress.runtime.protocol import KeptTerms, TakenOver
from egress.runtime.provisioning import trust_kit_provisioner
from egress.runtime.proxy_client import Admission, ControlProxyClient
from egress.runtime.spec import Command, Mount
from tests.cli.command import ROOT
from tests.proxy.serve_process import until
from tests.runtime.docker_lab import NAME, SECRET, DockerLab
from tests.runtime.test_reaper import things

KEPT = KeptTerms('{"of": "ours"}', deadline=2000.0)
_OWNER = """
import sys
from pathlib import Path
from egress.ca import public_roots
from egress.runtime.docker.runtime import DockerRuntime
from egress.runtime.protocol import KeptTerms
from egress.runtime.provisioning import trust_kit_provisioner
from egress.runtime.proxy_client import ControlProxyClient
from egress.runtime.spec import Command, Spec
proxy = ControlProxyClient(Path(sys.argv[1]))
runtime = DockerRuntime(proxy, Path(sys.argv[2]), trust_kit_provisioner(public_roots()), ready=1, keeps=True)
for name in ("one", "unkept", "unstarted"):
    runtime.create(Spec(name=name, image=sys.argv[3], env={"MINE": "x"}, ports=(int(sys.argv[4]),)))
runtime.start("one")
runtime.start("unkept")
for name in ("one", "unstarted"):
    runtime.keep(name, KeptTerms('{"of": "ours"}', deadline=2000.0))
runtime.exec("one", Command(argv=("sh", "-c", "echo kept > file")))
runtime.spawn("one", Command(argv=("sh", "-c", "while :; do date >> ticks; sleep 0.2; done")))
runtime._cells.prewarmer.until_ready()
print("ready", flush=True)
sys.stdin.read()
"""
_FETCH = f"https://{NAME}:%d/x"


class KeptLab:
    """A folder for kept sandboxes beside a lab, and the runtimes that come and go there."""

    def __init__(self, house: DockerLab, engine: DockerEngine) -> None:
        self.house = house
        self.engine = engine
        self.home = (house.served.runtime / "kept").resolve()
        self.client = ControlProxyClient(house.served.runtime)

    def killed(self) -> None:
        """A runtime with a sandbox that works, and more, ends without a word."""
        words = (str(self.house.served.runtime), str(self.home), self.house.image)
        command = [sys.executable, "-c", _OWNER, *words, str(self.house.upstream.port)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            process.send_signal(signal.SIGKILL)
            process.wait()

    def open(
        self, *, keeps: bool = True, now: float = 1000.0, guarded: tuple[Path, ...] = ()
    ) -> DockerRuntime:
        return DockerRuntime(
            self.client,
            self.home,
            trust_kit_provisioner(public_roots()),
            ready=0,
            keeps=keeps,
            clock=lambda: now,
            guarded=guarded,
        )

    def box(self, runtime: DockerRuntime, name: str, **values: object) -> None:
        """A sandbox that runs, and is kept."""
        runtime.create(self.house.spec(name, **values))
        runtime.start(name)
        runtime.keep(name, KEPT)

    def _containers(self) -> list[Container]:
        return self.engine.containers(f"{labels.LEASE_LABEL}={self.home / 'kept.lease'}")

    def sandboxes(self) -> list[str]:
        """Whose containers are there; empty for one that belongs to none, and no door."""
        roles = ((names.sandbox_of(each.name), each.labels[labels.ROLE_LABEL]) for each in self._containers())
        return sorted(name for name, role in roles if role == labels.ROLE_SANDBOX)

    def inside(self, name: str, script: str) -> list[str]:
        """What a script prints in a sandbox that nobody owns."""
        (found,) = (each for each in self._containers() if names.sandbox_of(each.name) == name)
        with APIClient(version="auto") as api:
            command = api.exec_create(found.id, ["/bin/sh", "-c", script], user="1000")["Id"]
            out = api.exec_start(command)
        assert isinstance(out, bytes)
        return out.decode().split()

    def fetched(self, runtime: DockerRuntime, name: str) -> str:
        argv = ("curl", "-sS", "--max-time", "20", _FETCH % self.house.upstream.port)
        return runtime.exec(name, Command(argv=argv)).stdout


@pytest.fixture
def lab(own_house: DockerLab, engine: DockerEngine) -> Iterator[KeptLab]:
    found = KeptLab(own_house, engine)
    yield found
    with suppress(EngineUnavailableError):
        found.open().close()


# One that is killed ---------------------------------------------------------------------------------

# By the address of the door and by one outside, as a proxy, plainly, and by name: all at once.
_WAYS = """
door=$(head -1 /etc/resolv.conf | cut -d' ' -f2)
way() { curl -s --max-time 4 -o /dev/null "$@" && echo way || echo none; }
for url in http://$door:3128/ http://$door/ http://192.0.2.1/ http://api.example.test/; do
    way --noproxy '*' $url &
done
way --proxy http://$door:3128 http://api.example.test/ &
wait
"""


def test_a_sandbox_whose_runtime_was_killed_has_no_network_and_comes_back_working(lab: KeptLab) -> None:
    lab.killed()
    until(lambda: not any("door" in name for name in things(lab.engine, lab.home)), "the doors to end")
    assert lab.inside("one", _WAYS) == ["none"] * 5
    before = len(lab.inside("one", "cat ticks"))
    until(lambda: len(lab.inside("one", "cat ticks")) > before, "its command to go on")

    runtime = lab.open()
    # What was neither kept nor assigned is gone before anything comes back.
    assert lab.sandboxes() == ["one", "unstarted"]
    found = runtime.take_over()
    assert sorted(found, key=lambda each: each.name) == [TakenOver("one", KEPT), TakenOver("unstarted", KEPT)]
    states = {info.name: info.state for info in runtime.list()}
    assert states == {"one": "running", "unstarted": "created"}
    assert lab.fetched(runtime, "one") == "hello from outside\n"
    assert lab.house.upstream.seen[-1].authorization == f"Bearer {SECRET}"
    assert runtime.exec("one", Command(argv=("cat", "file"))).stdout == "kept\n"
    ticks = runtime.exec("one", Command(argv=("sh", "-c", "wc -l < ticks"))).stdout
    until(lambda: runtime.exec("one", Command(argv=("sh", "-c", "wc -l < ticks"))).stdout != ticks)
    runtime.start("unstarted")
    assert lab.fetched(runtime, "unstarted") == "hello from outside\n"
    with pytest.raises(SandboxExistsError):
        runtime.create(lab.house.spec("one"))
    runtime.close()
    assert things(lab.engine, lab.home) == []
    assert list(lab.home.iterdir()) == []


def test_other_runtimes_leave_kept_sandboxes_alone_until_their_time_has_passed(
    lab: KeptLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner_lock, "_KEPT_TIMEOUT", 0.1)
    runtime = lab.open()
    lab.box(runtime, "one")
    with pytest.raises(EngineUnavailableError, match="another process keeps sandboxes"):
        lab.open()
    runtime.leave()
    kept = things(lab.engine, lab.home)
    lab.open(keeps=False).close()
    assert reap(lab.engine, lab.home) == ()
    assert things(lab.engine, lab.home) == kept
    other = lab.open(keeps=False, now=2000.0)
    assert things(lab.engine, lab.home) == []
    other.close()
    assert list(lab.home.iterdir()) == []


# One that leaves ------------------------------------------------------------------------------------


def test_a_runtime_that_leaves_takes_the_network_along_and_nothing_else(lab: KeptLab, tmp_path: Path) -> None:
    (tmp_path / "given").mkdir(mode=0o777)
    mounts = (Mount(source=tmp_path / "given", target="/given", writable=True),)
    runtime = lab.open()
    lab.box(runtime, "one", read_only=True, mounts=mounts)
    runtime.create(lab.house.spec("unkept"))
    runtime.open_ports("one", (8443,))
    runtime.exec("one", Command(argv=("sh", "-c", "echo here > /workspace/file")))
    for state in ("running", "paused", "stopped"):
        if state == "paused":
            runtime.pause("one")
        if state == "stopped":
            runtime.resume("one")
            runtime.stop("one")
        runtime.leave()
        assert lab.sandboxes() == ["one"]
        assert not any("door" in name for name in things(lab.engine, lab.home))
        runtime = lab.open()
        assert [(each.name, each.terms, each.bar) for each in runtime.take_over()] == [("one", KEPT, "")]
        assert runtime.info("one").state == state
    runtime.start("one")
    assert runtime.exec("one", Command(argv=("cat", "/workspace/file"))).stdout == "here\n"
    assert lab.fetched(runtime, "one") == "hello from outside\n"
    assert 8443 in {each.port for each in runtime._register.get("one").door_controller.listeners}
    box = runtime._register.get("one")
    runtime.remove("one")
    assert things(lab.engine, lab.home) == []
    # A change that was under way when it was removed writes no record.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime._register, "get", lambda _: box)
        runtime.bar("one", "killed")
    assert list(lab.home.iterdir()) == [lab.home / "kept.lease"]
    runtime.close()


# Access ---------------------------------------------------------------------------------------------


def test_access_that_was_revoked_is_not_given_back(lab: KeptLab) -> None:
    runtime = lab.open()
    for name in ("killed", "offender"):
        lab.box(runtime, name)
    runtime.bar("killed", "killed")
    runtime.bar("offender", "canary")
    # Other terms give no access back.
    runtime.keep("killed", KeptTerms("other", deadline=3000.0))
    runtime.leave()
    # As with another proxy: this one does not know of them any more.
    assert lab.client.bars() == {"default": ""}
    runtime = lab.open()
    returned = {each.name: each.terms for each in runtime.take_over()}
    assert returned == {"killed": KeptTerms("other", deadline=3000.0), "offender": KEPT}
    assert {info.name: info.state for info in runtime.list()} == {"killed": "running", "offender": "stopped"}
    assert lab.client.canary_offenders() == {"offender"}
    assert lab.client.bars() == {"default": "", "killed": "killed", "offender": "canary"}
    assert lab.fetched(runtime, "killed") == ""
    # Its operator gives it back.
    lab.house.served.ask("POST", "/kill", name="killed", undo=True)
    assert lab.fetched(runtime, "killed") == "hello from outside\n"
    runtime.close()


def test_a_returned_proxy_cannot_clear_a_record_before_it_was_told(
    lab: KeptLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = lab.open()
    lab.box(runtime, "killed")
    runtime.bar("killed", "killed")
    # A proxy that has returned knows no sandbox, and gives access to the one that it admits.
    lab.client.dismiss("killed")
    admit = runtime._proxy.admit

    def admit_and_record(name: str, *more: str, parameters: Mapping[str, str]) -> Admission:
        admission = admit(name, *more, parameters=parameters)
        for there, bar in lab.client.bars().items():
            if there == name:
                runtime.bar(name, bar)
        return admission

    with monkeypatch.context() as patch:
        patch.setattr(runtime._proxy, "admit", admit_and_record)
        runtime._register.readmit_all()
    assert lab.client.bars()["killed"] == "killed"
    runtime.bar("killed", "")
    kept = runtime._register.get("killed").kept
    assert kept is not None
    assert kept.bar == ""
    runtime.close()


def test_a_record_that_could_not_be_written_is_written_later(
    lab: KeptLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = lab.open()
    lab.box(runtime, "killed")
    record = runtime._register.get("killed").cell.folder / "kept.json"

    def full(*_: object) -> None:
        raise EngineUnavailableError("cannot record a sandbox", "free space there")

    with monkeypatch.context() as patch:
        patch.setattr(runtime._keeping, "write", full)
        with pytest.raises(EngineUnavailableError):
            runtime.bar("killed", "killed")
    assert b'"bar":""' in record.read_bytes()
    runtime.bar("killed", "killed")
    assert b'"bar":"killed"' in record.read_bytes()
    runtime.close()


# What is not as it was left -------------------------------------------------------------------------


def test_a_container_that_was_changed_is_stopped_and_not_taken_over(lab: KeptLab, tmp_path: Path) -> None:
    runtime = lab.open()
    for name in ("joined", "spoilt", "same"):
        lab.box(runtime, name)
    lab.box(runtime, "shown", mounts=(Mount(source=tmp_path, target="/shown"),))
    cells = {name: runtime._register.get(name).cell for name in ("joined", "spoilt", "same", "shown")}
    containers = {name: runtime._register.get(name).container for name in cells}
    runtime.leave()
    with APIClient(version="auto") as api:
        api.connect_container_to_network(containers["joined"], "bridge")
    with (cells["spoilt"].folder / "kept.json").open("a") as file:
        file.write("x")

    # A token was put there since, which no new sandbox could see.
    runtime = lab.open(guarded=(tmp_path / "token",))
    assert [each.name for each in runtime.take_over()] == ["same"]
    told = "\n".join(runtime.cautions)
    assert "joined was stopped and not taken over: its container was connected to another network" in told
    assert "a sandbox was stopped and not taken over: " in told
    assert f"shown was stopped and not taken over: {tmp_path} contains or lies in" in told
    assert SECRET not in told
    for name in ("joined", "spoilt", "shown"):
        state = lab.engine.container_state(containers[name])
        assert state is not None
        assert not state.is_alive
    assert [info.name for info in runtime.list()] == ["same"]
    runtime.close()
    assert things(lab.engine, lab.home) == []


def test_only_the_container_of_the_record_counts_and_not_one_that_looks_like_it(lab: KeptLab) -> None:
    """Labels and names are no secret: anybody at the engine can give them to a container."""
    runtime = lab.open()
    lab.box(runtime, "one")
    box = runtime._register.get("one")
    marks = labels.owner_labels(labels.ROLE_SANDBOX, str(runtime._lease.path))
    name = lab.engine.inspect_container(box.container)["Name"]
    runtime.leave()
    lab.engine.remove_container(box.container)
    config = {"Image": lab.house.image, "Entrypoint": ["sleep", "100"], "Labels": marks}
    lab.engine.create_container(str(name).removeprefix("/"), config)
    other = names.started("two", secrets.token_hex(4))
    lab.engine.create_container(other, config)

    runtime = lab.open()
    assert runtime.take_over() == ()
    assert runtime.list() == ()
    assert "the sandbox one is gone: its container was removed" in runtime.cautions
    # They say that they are of this folder, whose owner knows nothing of them.
    assert things(lab.engine, lab.home) == []
    runtime.close()


def test_a_sandbox_whose_files_are_gone_is_not_taken_over(lab: KeptLab) -> None:
    runtime = lab.open()
    lab.box(runtime, "one")
    folder = runtime._register.get("one").cell.folder
    runtime.leave()
    shutil.rmtree(folder)
    runtime = lab.open()
    assert runtime.take_over() == ()
    assert things(lab.engine, lab.home) == []
    runtime.close()


def test_a_runtime_that_does_not_keep_says_so(own_house: DockerLab) -> None:
    own_house.box("one")
    with pytest.raises(UnsupportedError, match="keeps no sandboxes"):
        own_house.runtime.keep("one", KEPT)
    with pytest.raises(UnsupportedError):
        own_house.runtime.take_over()
