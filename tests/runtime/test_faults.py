"""Sandboxes that misbehave, machines without room, an engine that dies: what is told, and what is left."""

from __future__ import annotations

import gc
import io
import resource
import shutil
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker.errors import APIError

from egress.ca import public_roots
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.runtime import DockerRuntime
from egress.runtime.errors import (
    EngineUnavailableError,
    SandboxDiedError,
    SandboxError,
    SandboxStateError,
)
from egress.runtime.protocol import Output
from egress.runtime.provisioning import trust_kit_provisioner
from egress.runtime.proxy_client import ControlProxyClient
from egress.runtime.spec import Command, SandboxLimits, Spec
from tests.proxy.serve_process import until
from tests.runtime import docker_lab as houses
from tests.runtime.docker_lab import DockerLab, DockerLabSandbox
from tests.runtime.private_engine import PrivateEngine

GIB = 1024 * 1024 * 1024


@pytest.fixture
def box(house: DockerLab) -> Iterator[DockerLabSandbox]:
    yield house.box("box")
    house.runtime.remove("box")


def running(box: DockerLabSandbox, word: bytes) -> int:
    """How many processes in the sandbox have this among their arguments."""
    return box.sh("cat /proc/[0-9]*/cmdline 2>/dev/null").stdout_bytes.count(word)


# Commands -------------------------------------------------------------------------------------------


def test_a_gibibyte_of_output_is_read_and_not_kept(box: DockerLabSandbox) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    counted = 0

    def count(data: bytes) -> None:
        nonlocal counted
        counted += len(data)

    command = Command(argv=("head", "-c", str(GIB), "/dev/zero"), most_output=1000)
    result = box.house.runtime.exec("box", command, Output(stdout=count))
    assert (counted, len(result.stdout_bytes), result.truncated) == (GIB, 1000, True)
    # In KiB. All of it would be a million of them.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_a_thousand_children_are_ended_with_their_parent(box: DockerLabSandbox) -> None:
    """Also where they leave no room for whoever is to end them."""
    house = box.house
    house.runtime.remove("box")
    house.box("box", limits=SandboxLimits(processes=1100))
    came = threading.Event()
    forks = "i=0; while [ $i -lt 1000 ]; do sleep 7777 & i=$((i+1)); done; echo all; wait"
    process = house.runtime.spawn(
        "box", Command(argv=("/bin/sh", "-c", forks)), Output(stdout=lambda _: came.set())
    )
    assert came.wait(60)
    assert running(box, b"7777") >= 1000
    process.kill(0)
    assert process.wait(60).exit_code in (137, 143)
    until(lambda: running(box, b"sleep\x007777") == 0, "all of them to be gone")


def test_a_command_is_killed_where_no_other_can_begin(house: DockerLab) -> None:
    house.box("full", limits=SandboxLimits(processes=40))
    try:
        came = threading.Event()
        bomb = (
            "import os, signal\ntry:\n while os.fork(): pass\nexcept OSError: print('full', flush=True)\n"
            "signal.pause()"
        )
        process = house.runtime.spawn(
            "full", Command(argv=("python3", "-c", bomb)), Output(stdout=lambda _: came.set())
        )
        assert came.wait(60)
        process.kill(0)
        assert process.wait(60).exit_code in (137, 143)
        assert house.runtime.exec("full", Command(argv=("true",))).exit_code == 0
    finally:
        house.runtime.remove("full")


@pytest.mark.parametrize("end", ["stop", "remove"])
def test_a_sandbox_that_ends_while_it_is_read_settles_what_is_read(house: DockerLab, end: str) -> None:
    house.box("read")
    began = threading.Event()
    process = house.runtime.spawn(
        "read", Command(argv=("cat", "/dev/zero"), most_output=10), Output(stdout=lambda _: began.set())
    )
    assert began.wait(30)
    getattr(house.runtime, end)("read")
    with pytest.raises(SandboxDiedError):
        process.wait(30)
    house.runtime.remove("read")


# Room and archives ----------------------------------------------------------------------------------


def archive(*entries: tuple[tarfile.TarInfo, bytes]) -> io.BytesIO:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for entry, data in entries:
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    out.seek(0)
    return out


def test_a_disk_that_is_full_is_told(house: DockerLab) -> None:
    box = house.box("small", read_only=True, limits=SandboxLimits(temporary_mib=1))
    try:
        large = archive((tarfile.TarInfo("large"), bytes(3_000_000)))
        with pytest.raises(SandboxStateError, match="was not completely unpacked"):
            house.runtime.put("small", "/tmp", large)
        result = box.sh("head -c 3000000 /dev/zero >/tmp/more")
        assert result.exit_code
        assert b"No space left" in result.stderr_bytes
        assert box.sh("rm -f /tmp/*; echo x >/tmp/a && cat /tmp/a").stdout_bytes == b"x\n"
    finally:
        house.runtime.remove("small")


def test_devices_and_owners_do_not_come_in(box: DockerLabSandbox) -> None:
    device, plain = tarfile.TarInfo("device"), tarfile.TarInfo("plain")
    device.type, device.devmajor, device.devminor = tarfile.CHRTYPE, 1, 5
    plain.uid, plain.mode = 0, 0o6755
    box.house.runtime.put("box", "/workspace", archive((device, b""), (plain, b"x")))
    assert box.sh("ls").text == "plain\n"
    assert box.sh('[ "$(stat -c "%u %a" plain)" = "$(id -u) 755" ] && id -u').text != "0\n"


def test_a_bomb_is_read_as_far_as_its_bounds(box: DockerLabSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file with a hole as large as the world, as the sandbox's own tar would write it."""
    script = (
        "truncate -s 200G bomb 2>/dev/null || head -c 1 /dev/zero | dd of=bomb bs=1 seek=200G 2>/dev/null"
    )
    assert box.sh(script).exit_code == 0
    from egress.runtime import transfer

    monkeypatch.setattr(transfer, "_MAX_RAW_BYTES", 10_000_000)
    process = threading.Timer(20, lambda: box.house.runtime.stop("box"))
    process.start()
    with pytest.raises(SandboxError), box.house.runtime.get("box", "/workspace"):
        pass
    process.cancel()


# The engine -----------------------------------------------------------------------------------------


@pytest.fixture
def private(engine: DockerEngine) -> Iterator[PrivateEngine]:
    if not PrivateEngine.can_be_started():
        pytest.skip("needs root, to start an engine")
    # Not below a test's own folder: paths of sockets may not be long.
    folder = Path(tempfile.mkdtemp(prefix="engine-"))
    try:
        with PrivateEngine(folder) as private:
            yield private
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_an_engine_that_dies_settles_what_runs_and_leaves_nothing(
    house: DockerLab, private: PrivateEngine, engine: DockerEngine
) -> None:
    """And the one that others use notices nothing."""
    own = DockerEngine(private.socket)
    image = houses.image(own)
    own.close()
    gateway, home = ControlProxyClient(house.served.runtime), house.served.runtime / "p"
    runtime = DockerRuntime(gateway, home, trust_kit_provisioner(public_roots()), engine=private.socket)
    runtime.create(Spec(name="dying", image=image))
    runtime.start("dying")
    process = runtime.spawn("dying", Command(argv=("sleep", "300")))
    assert runtime.exec("dying", Command(argv=("true",))).exit_code == 0
    private.kill()
    began = time.monotonic()
    with pytest.raises(SandboxError):
        process.wait(60)
    with pytest.raises(EngineUnavailableError):
        runtime.exec("dying", Command(argv=("true",)))
    with pytest.raises(EngineUnavailableError):
        runtime.create(Spec(name="more", image=image))
    with pytest.raises(EngineUnavailableError):
        runtime.close()
    assert time.monotonic() - began < 60
    private.start()
    # Whoever comes next finds what could not be taken away, and takes it away.
    runtime = DockerRuntime(
        gateway, home, trust_kit_provisioner(public_roots()), engine=private.socket, ready=0
    )
    try:
        assert runtime.list() == ()
        assert runtime._engine.containers() == []
        runtime.create(Spec(name="dying", image=image))
        runtime.start("dying")
        assert runtime.exec("dying", Command(argv=("true",))).exit_code == 0
    finally:
        runtime.close()
    assert list(home.iterdir()) == []
    assert engine.container_state("nobody") is None
    # What would be left to the collector is blamed on this test, not on whichever runs then.
    gc.collect()


def test_an_engine_that_fails_to_remove_once_leaves_nothing(
    house: DockerLab, engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.box("stubborn")
    container = house.container("stubborn")
    api = house.runtime._engine._api
    remove, failures = api.remove_container, [APIError("it is busy")]

    def once(each: str, **options: bool) -> None:
        if each == container and failures:
            raise failures.pop()
        remove(each, **options)

    monkeypatch.setattr(api, "remove_container", once)
    house.runtime.remove("stubborn")
    assert not failures
    assert engine.container_state(container) is None
