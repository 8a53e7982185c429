"""The runtime of containers: it keeps every promise, bounds what it should, and leaves nothing behind."""

from __future__ import annotations

import functools
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from egress.ca.bundle import public_roots
from egress.runtime.docker import labels
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.runtime import DockerRuntime
from egress.runtime.errors import (
    GatewayError,
    ImageMissingError,
    PortClosedError,
    SandboxDiedError,
    SandboxStateError,
    UnsupportedError,
)
from egress.runtime.protocol import Runtime, provision_minimal
from egress.runtime.provisioning import trust_kit_provisioner
from egress.runtime.proxy_client import ControlProxyClient, LivenessConnection
from egress.runtime.spec import Command, Mount, Spec, Terminal
from tests.proxy.serve_process import until
from tests.runtime.contract import Walled
from tests.runtime.docker_lab import DockerLab, DockerLabSandbox
from tests.tiers import every_third
from tests.unit.runtime.contract import CASES, Case, RuntimeBench

_NO_VSOCK = {
    "defaultAction": "SCMP_ACT_ALLOW",
    "syscalls": [
        {
            "names": ["socket"],
            "action": "SCMP_ACT_ERRNO",
            "args": [{"index": 0, "value": 40, "op": "SCMP_CMP_EQ"}],
        }
    ],
}


class Contained:
    def __init__(self, house: DockerLab) -> None:
        self._house = house
        self.runtime: Runtime = house.runtime

    def spec(self, name: str, **values: object) -> Spec:
        return self._house.spec(name, **values)


def left(engine: DockerEngine, house: DockerLab) -> list[str]:
    """What is at the engine for a house."""
    home = str(house.home.resolve())
    return [
        *(
            each.name
            for each in engine.containers(labels.LEASE_LABEL)
            if home in each.labels[labels.LEASE_LABEL]
        ),
        *(str(each["Name"]) for each in engine.networks() if home in json.dumps(each)),
        *(str(each["Name"]) for each in engine.volumes(labels.LEASE_LABEL) if home in json.dumps(each)),
    ]


@pytest.fixture
def bench(house: DockerLab, engine: DockerEngine) -> Iterator[RuntimeBench]:
    yield Contained(house)
    for info in house.runtime.list():
        house.runtime.remove(info.name)
    assert left(engine, house) == []
    assert [each.name for each in house.home.iterdir()] == [house.runtime._lease.path.name]
    _, status = house.served.ask("GET", "/status")
    assert [each["name"] for each in status["sandboxes"]] == ["default"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("promise", CASES, ids=lambda case: case.__name__)
def test_a_promise_is_kept_and_nothing_is_left(promise: Case, bench: RuntimeBench) -> None:
    promise(bench)


class TestWalled(Walled):
    """What it has in common with the other kind."""


# Bounds ---------------------------------------------------------------------------------------------


def test_a_mount_is_seen_and_written_as_it_was_named(
    house: DockerLab, bench: RuntimeBench, tmp_path: Path
) -> None:
    shown, given = tmp_path / "shown", tmp_path / "given"
    for folder in (shown, given):
        folder.mkdir()
        folder.chmod(0o777)
    (shown / "a").write_text("from the host")
    mounts = (Mount(source=shown, target="/shown"), Mount(source=given, target="/given", writable=True))
    box = house.box("one", mounts=mounts)
    assert box.run("cat", "/shown/a").stdout_bytes == b"from the host"
    assert box.sh("echo x > /shown/b").exit_code
    assert box.sh("echo x > /given/b").exit_code == 0
    assert (given / "b").read_text() == "x\n"


# Commands -------------------------------------------------------------------------------------------


def test_interrupts_reach_a_command(house: DockerLab, bench: RuntimeBench) -> None:
    """Shells let those in the background ignore them, which a command would inherit."""
    box = house.box("one")
    assert b"SigIgn:\t0000000000000000" in box.run("cat", "/proc/self/status").stdout_bytes


def test_a_program_that_a_terminal_cannot_run_is_named(house: DockerLab, bench: RuntimeBench) -> None:
    house.box("one")
    process = house.runtime.spawn("one", Command(argv=("no-such-program",), terminal=Terminal()))
    result = process.wait(30)
    assert (result.exit_code, result.stdout) == (127, "command not found: no-such-program\r\n")


def test_a_command_in_a_terminal_has_one(house: DockerLab, bench: RuntimeBench) -> None:
    house.box("one")
    command = Command(
        argv=("sh", "-c", "tty; touch ready; read x; stty size; echo $x"),
        terminal=Terminal(columns=111, rows=33),
    )
    process = house.runtime.spawn("one", command)
    # Before a command begins, its terminal is given the first size, which a resize must not come before.
    while house.runtime.exec("one", Command(argv=("test", "-e", "ready"))).exit_code:
        time.sleep(0.05)
    process.resize(Terminal(columns=99, rows=22))
    process.write(b"typed\n")
    result = process.wait(30)
    assert b"/dev/pts/" in result.stdout_bytes
    assert b"22 99" in result.stdout_bytes
    assert result.stdout_bytes.endswith(b"typed\r\n")
    shell = house.runtime.spawn("one", Command(argv=("sh",), terminal=Terminal()))
    shell.kill(0)
    assert shell.wait(30).exit_code


def test_a_sandbox_whose_container_is_removed_says_so(
    house: DockerLab, bench: RuntimeBench, engine: DockerEngine
) -> None:
    house.box("one")
    process = house.runtime.spawn("one", Command(argv=("sleep", "300")))
    engine.remove_container(house.runtime._register.get("one").container)
    with pytest.raises(SandboxDiedError):
        process.wait(30)
    with pytest.raises(SandboxDiedError):
        house.runtime.start("one")
    assert house.runtime.info("one").state == "stopped"


# Beginning and end ----------------------------------------------------------------------------------


def test_an_image_without_a_shell_is_named(
    house: DockerLab, bench: RuntimeBench, engine: DockerEngine
) -> None:
    from egress.runtime.docker import image_tree

    with image_tree.spool_archive(image_tree.small_system_tree(["cat"], python=False)) as (archive, _):
        engine.import_image(archive, "egress-test", "shell-less")
    try:
        house.runtime.create(Spec(name="one", image="egress-test:shell-less"))
        house.runtime.start("one")
        with pytest.raises(UnsupportedError, match="/bin/sh"):
            house.runtime.exec("one", Command(argv=("cat", "/etc/passwd")))
        house.runtime.remove("one")
    finally:
        engine.remove_image("egress-test:shell-less")


def test_no_runtime_begins_without_a_proxy(engine: DockerEngine, tmp_path: Path) -> None:
    with pytest.raises(GatewayError, match="no proxy is running") as caught:
        DockerRuntime(ControlProxyClient(tmp_path / "nobody"), tmp_path / "home")
    assert "egress serve --handover" in caught.value.hint


def test_what_is_ready_is_taken_and_made_anew(image: str, engine: DockerEngine, tmp_path: Path) -> None:
    with DockerLab(tmp_path, image, ready=1) as house:
        assert house.runtime._cells.prewarmer.until_ready()
        ready = house.runtime._cells.prewarmer._things[0].id
        box = house.box("one")
        assert house.runtime._register.get("one").cell.id == ready
        assert box.get("/x").exit_code == 0
        assert house.runtime._cells.prewarmer.until_ready()
        assert house.runtime._cells.prewarmer._things[0].id != ready
    assert left(engine, house) == []


@pytest.fixture
def ready(bench: RuntimeBench) -> Iterator[RuntimeBench]:
    """What every promise is kept with, too: the first one of it was made ahead."""
    pool = bench.runtime._pool  # type: ignore[attr-defined]
    bench.runtime.prepare(bench.spec("any"), 1)
    assert pool.until_ready()
    yield bench
    pool.close()


@pytest.mark.parametrize("promise", every_third(CASES), ids=lambda case: case.__name__)
def test_a_promise_is_kept_by_one_that_was_ready(promise: Case, ready: RuntimeBench) -> None:
    promise(ready)


def test_one_that_was_ready_is_taken_once_and_is_like_any_other(
    house: DockerLab, ready: RuntimeBench
) -> None:
    """S-40: nothing of a sandbox was in it before, and it has a proxy and a credential as the others do."""
    pool = house.runtime._pool
    [(_, _, shelf)] = pool._kinds
    [blank] = shelf._things
    bundle = blank.cell.folder / "files" / "provisions" / "bundle.pem"
    assert bundle.read_bytes() == b""
    box = house.box("one", env={"ONE": "1"})
    assert house.runtime._register.get("one").unassigned is blank
    assert b"CERTIFICATE" in bundle.read_bytes()
    assert box.get("/x").check().stdout_bytes == b"hello from outside\n"
    assert "ONE=1\n" in box.run("env").text
    assert pool.until_ready()
    other = house.box("two")
    assert house.runtime._register.get("two").unassigned is not blank
    assert other.get("/x").exit_code == 0
    third = house.box("three", read_only=True)
    assert third.run("true").exit_code == 0


@pytest.mark.parametrize("part", ["container", "door"])
def test_what_has_ended_on_the_shelf_is_not_given(
    house: DockerLab, ready: RuntimeBench, engine: DockerEngine, part: str
) -> None:
    [(_, _, shelf)] = house.runtime._pool._kinds
    blank = shelf._things[0]
    engine.remove_container(blank.container if part == "container" else f"egress-door-{blank.cell.id}")
    until(lambda: part == "container" or not blank.cell.door_controller.is_connected, "the door to be gone")
    box = house.box("one")
    assert house.runtime._register.get("one").unassigned is not blank
    assert box.get("/x").exit_code == 0


def test_the_container_of_the_one_sandbox_is_made_before_the_proxy_is_asked(
    house: DockerLab, engine: DockerEngine
) -> None:
    """And nothing is made ahead for others: neither a container nor a network."""
    asked = list[str]()

    def expected(_: DockerEngine) -> Spec:
        asked.append("the spec")
        return house.spec("any")

    class Watched(ControlProxyClient):
        def open_liveness(self) -> LivenessConnection:
            asked.append("the proxy")
            return super().open_liveness()

    runtime = DockerRuntime(
        Watched(house.served.runtime),
        house.served.runtime / "one",
        trust_kit_provisioner(public_roots()),
        expected=expected,
    )
    try:
        assert asked[:2] == ["the spec", "the proxy"]
        assert runtime._pool.until_ready()
        [(_, _, shelf)] = runtime._pool._kinds
        ahead = shelf._things[0]
        runtime.create(house.spec("single", env={"ONE": "1"}))
        runtime.start("single")
        assert runtime._register.get("single").unassigned is ahead
        assert runtime.spawn("single", Command(argv=("true",))).wait().exit_code == 0
        assert not shelf._wanted
        assert not runtime._cells.prewarmer._wanted
        runtime.remove("single")
    finally:
        runtime.close()
    assert [each for each in engine.containers() if ahead.cell.id in each.name] == []


def _known(spec: Spec | None, _: DockerEngine) -> Spec | None:
    return spec


def test_an_expected_sandbox_that_cannot_be_made_ahead_is_made_when_it_is_asked_for(house: DockerLab) -> None:
    """One that turns out otherwise, too. An image that is missing is told to the caller."""
    for spec in (house.spec("any", read_only=True), replace(house.spec("any"), image="no-such-image"), None):
        runtime = DockerRuntime(
            ControlProxyClient(house.served.runtime),
            house.served.runtime / "one",
            trust_kit_provisioner(public_roots()),
            expected=functools.partial(_known, spec),
        )
        try:
            with pytest.raises(ImageMissingError):
                runtime.create(replace(house.spec("single"), image="no-such-image"))
            runtime.create(house.spec("single"))
            runtime.start("single")
            assert runtime.spawn("single", Command(argv=("true",))).wait().exit_code == 0
            runtime.remove("single")
        finally:
            runtime.close()


def test_an_image_that_was_made_anew_is_not_the_one_that_was_ready(
    house: DockerLab, ready: RuntimeBench, engine: DockerEngine
) -> None:
    spec = house.spec("one")
    assert house.runtime._pool.take(spec, "sha256:other") is None


def test_an_outfit_that_does_not_fit_is_not_put_on(house: DockerLab, ready: RuntimeBench) -> None:
    [(_, _, shelf)] = house.runtime._pool._kinds
    blank = shelf._things[0]
    dress = house.runtime._provisioner
    house.runtime._provisioner = provision_minimal
    try:
        box = house.box("one")
    finally:
        house.runtime._provisioner = dress
    assert house.runtime._register.get("one").unassigned is not blank
    assert box.run("ls", "/etc/egress").exit_code


def test_one_with_mounts_is_not_made_ahead(house: DockerLab, bench: RuntimeBench, tmp_path: Path) -> None:
    mount = Mount(source=tmp_path, target="/shown")
    with pytest.raises(UnsupportedError, match="mounts"):
        house.runtime.prepare(house.spec("one", mounts=(mount,)), 1)


# Ports ----------------------------------------------------------------------------------------------


def answers(box: DockerLabSandbox, url: str) -> bool:
    return not box.run("curl", "-s", "--noproxy", "*", url).exit_code


def test_a_port_of_a_sandbox_is_dialled_by_its_door(house: DockerLab, bench: RuntimeBench) -> None:
    """What listens for itself alone is not found: there is no way to it but by a command."""
    box = house.box("one")
    for port, address in ((8000, "0.0.0.0"), (8001, "127.0.0.1")):
        server = Command(argv=("python3", "-m", "http.server", str(port), "--bind", address))
        house.runtime.spawn("one", server)
        url = f"http://127.0.0.1:{port}/"
        until(functools.partial(answers, box, url), "it to listen")
    with house.runtime.dial("one", 8000) as sock:
        assert sock.gettimeout() is None
        sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert sock.recv(15, socket.MSG_WAITALL) == b"HTTP/1.0 200 OK"
    with pytest.raises(PortClosedError):
        house.runtime.dial("one", 8001)
    house.runtime.pause("one")
    with pytest.raises(SandboxStateError):
        house.runtime.dial("one", 8000)
    house.runtime.resume("one")


# What it is run with --------------------------------------------------------------------------------


def test_a_profile_of_its_operator_keeps_a_sandbox_from_more(
    house: DockerLab, engine: DockerEngine, tmp_path: Path
) -> None:
    """The one here denies nothing but AF_VSOCK: it is for this test, and for nothing else."""
    profile = tmp_path / "profile.json"
    profile.write_text(json.dumps(_NO_VSOCK))
    probe = "import socket; socket.socket(socket.AF_INET).close(); socket.socket(socket.AF_VSOCK)"
    gateway = ControlProxyClient(house.served.runtime)
    runtime = DockerRuntime(gateway, house.served.runtime / "x", ready=0, seccomp=profile)
    try:
        assert runtime.cautions == ()
        runtime.create(Spec(name="one", image=house.image))
        runtime.start("one")
        result = runtime.exec("one", Command(argv=("python3", "-c", probe)))
        assert b"PermissionError" in result.stderr_bytes
    finally:
        runtime.close()


def test_a_runtime_that_the_engine_has_not_is_named(house: DockerLab, engine: DockerEngine) -> None:
    gateway = ControlProxyClient(house.served.runtime)
    with pytest.raises(UnsupportedError, match="no runtime no-such-thing"):
        DockerRuntime(gateway, house.served.runtime / "x", runtime="no-such-thing")
    runtime = DockerRuntime(gateway, house.served.runtime / "x", ready=0, runtime="runc")
    try:
        runtime.create(Spec(name="one", image=house.image))
        found = engine._api.inspect_container(runtime._register.get("one").container)
        assert found["HostConfig"]["Runtime"] == "runc"
    finally:
        runtime.close()
