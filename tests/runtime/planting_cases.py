"""What planting is, as cases that run against every runtime: with an engine, in namespaces, and in memory.

A case is a function of a `Ground`, whose rules say what is planted. Those in `CASES` use no program but the
few that the runtime in memory has. Those in `SYSTEMS` need a shell, and a kernel that says who may write.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from egress.runtime.errors import SandboxNotFoundError, SandboxStateError, SpecError
from egress.runtime.protocol import Runtime
from egress.runtime.spec import Command, ExecResult, Mount, SandboxLimits, Spec
from tests.proxy.serve_process import ServeProcess, until
from tests.runtime.recording_api import RecordingApi

HOME = "/home/sandbox"


class PlantingGround(Protocol):
    """A runtime, and rules that plant."""

    @property
    def runtime(self) -> Runtime: ...

    def spec(self, name: str, **values: object) -> Spec: ...

    def plant(self, *items: str) -> None:
        """Have these under `canaries:` from now on."""

    def value(self, name: str, canary: str) -> str:
        """What the proxy looks for in what this sandbox sends."""


Case = Callable[[PlantingGround], None]
CASES: list[Case] = []
SYSTEMS: list[Case] = []


def case(function: Case) -> Case:
    CASES.append(function)
    return function


def system(function: Case) -> Case:
    SYSTEMS.append(function)
    return function


def running(ground: PlantingGround, name: str = "one", **values: object) -> None:
    ground.runtime.create(ground.spec(name, **values))
    ground.runtime.start(name)


def run(ground: PlantingGround, *words: str, name: str = "one") -> ExecResult:
    return ground.runtime.exec(name, Command(argv=words))


def sh(ground: PlantingGround, script: str) -> ExecResult:
    return run(ground, "/bin/sh", "-c", script)


def read(ground: PlantingGround, path: str, name: str = "one") -> str:
    return run(ground, "cat", path, name=name).check().text


def archive(name: str, data: bytes) -> io.BytesIO:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(data), 0o666
        tar.addfile(entry, io.BytesIO(data))
    out.seek(0)
    return out


def refused(
    ground: PlantingGround, match: str, kind: type[Exception] = SandboxStateError, **values: object
) -> None:
    """That no sandbox comes of it, and that the next one is not in its way."""
    with pytest.raises(kind, match=match):
        running(ground, "one", **values)
    if "one" in {each.name for each in ground.runtime.list()}:
        # Where nothing runs before a start, it is there, and runs nothing.
        assert ground.runtime.info("one").state != "running"
        with pytest.raises(SandboxStateError):
            run(ground, "true")
        ground.runtime.remove("one")
    with pytest.raises(SandboxNotFoundError):
        ground.runtime.info("one")


# What is planted ------------------------------------------------------------------------------------


@case
def it_is_in_a_variable_and_in_a_file_under_its_own_text(ground: PlantingGround) -> None:
    text = r'"[default]\nkey = {value}\n\n  $HOME `id` %s \\ ü\n"'
    ground.plant(
        f"key: {{ like: aws, env: AWS_ACCESS_KEY_ID, file: ~/.aws/credentials, text: {text} }}",
        'token: { like: github, file: "/tmp/deploy token/-n" }',
        "unplanted: { like: hex32 }",
    )
    running(ground)
    key, token = ground.value("one", "key"), ground.value("one", "token")
    assert f"AWS_ACCESS_KEY_ID={key}" in run(ground, "env").text.splitlines()
    expected = f"[default]\nkey = {key}\n\n  $HOME `id` %s \\ ü\n"
    assert read(ground, f"{HOME}/.aws/credentials") == expected
    assert read(ground, "/tmp/deploy token/-n") == f"{token}\n"
    assert ground.value("one", "unplanted") not in run(ground, "env").text


@case
def it_is_there_for_whoever_is_started_again(ground: PlantingGround) -> None:
    """And what the sandbox has made of it stays: it is nobody's but its own."""
    ground.plant(
        "changed: { like: aws, file: /workspace/changed }", "kept: { like: aws, env: KEPT, file: ~/a/kept }"
    )
    running(ground)
    ground.runtime.put("one", "/workspace", archive("changed", b"other"))
    ground.runtime.stop("one")
    ground.runtime.start("one")
    assert read(ground, "/workspace/changed") == "other"
    assert read(ground, f"{HOME}/a/kept") == ground.value("one", "kept") + "\n"
    assert f"KEPT={ground.value('one', 'kept')}" in run(ground, "env").text.splitlines()


@case
def it_is_there_again_where_the_disk_is_emptied(ground: PlantingGround) -> None:
    ground.plant("key: { like: aws, file: /workspace/.env, text: 'KEY={value}' }")
    running(ground, limits=SandboxLimits(disk_mib=2))
    for _ in range(2):
        assert read(ground, "/workspace/.env") == f"KEY={ground.value('one', 'key')}\n"
        ground.runtime.stop("one")
        ground.runtime.start("one")


# What cannot be planted -----------------------------------------------------------------------------


@case
def a_variable_that_the_caller_sets_is_not_taken(ground: PlantingGround) -> None:
    ground.plant("key: { like: aws, env: AWS_ACCESS_KEY_ID }")
    refused(ground, "env sets AWS_ACCESS_KEY_ID", SpecError, env={"AWS_ACCESS_KEY_ID": "mine"})
    running(ground, env={"AWS_SECRET_ACCESS_KEY": "mine"})


@case
def a_place_that_is_taken_is_told(ground: PlantingGround) -> None:
    ground.plant("first: { like: aws, file: /tmp/a }", "second: { like: aws, file: /workspace }")
    refused(ground, "canary second cannot be planted at /workspace .*: a file is there already")
    ground.plant("first: { like: aws, file: /tmp/a }", "second: { like: aws, file: /workspace/b }")
    running(ground)


# Where there is a system ----------------------------------------------------------------------------


@system
def each_sandbox_has_its_own(ground: PlantingGround) -> None:
    ground.plant("key: { like: uuid, env: KEY, file: /tmp/key }")
    running(ground)
    running(ground, "two")
    found = {read(ground, "/tmp/key", name) for name in ("one", "two")}
    assert found == {f"{ground.value(name, 'key')}\n" for name in ("one", "two")}
    assert len(found) == 2


@system
def it_belongs_to_the_user_alone(ground: PlantingGround) -> None:
    ground.plant("key: { like: aws, file: ~/.secrets/deep/key }")
    running(ground)
    where = "~/.secrets ~/.secrets/deep ~/.secrets/deep/key"
    found = sh(ground, f"stat -c %a {where} && id -u && stat -c %u {where}").check().text.split()
    assert found[:3] == ["700", "700", "600"]
    assert found[4:] == found[3:4] * 3


@system
def nothing_of_this_machine_is_written(ground: PlantingGround) -> None:
    """Neither below what is mounted, nor where a link leads into it."""
    with tempfile.TemporaryDirectory() as name:
        given = Path(name)
        given.chmod(0o777)
        mounts = (Mount(source=given, target="/workspace/given", writable=True),)
        for path in ("/workspace/given/key", "/workspace/given/deep/key"):
            ground.plant(f"key: {{ like: aws, file: {path} }}")
            refused(ground, "a folder of this machine is mounted there", mounts=mounts)
            assert list(given.iterdir()) == []
        ground.plant("key: { like: aws, file: /workspace/given-not/key }")
        running(ground, mounts=mounts)
        assert list(given.iterdir()) == []


@system
def only_where_its_user_may_write(ground: PlantingGround) -> None:
    for path in ("/etc/key", "/usr/new/key", "/key"):
        ground.plant(f"key: {{ like: aws, file: {path} }}")
        refused(ground, f"canary key cannot be planted at {path} in the sandbox one: its user may not")
    ground.plant("key: { like: aws, file: /etc/hostname }")
    refused(ground, "a file is there already")
    ground.plant("key: { like: aws, file: /etc/hostname/key }")
    refused(ground, "a file is there already")


@system
def a_home_that_is_closed_is_told(ground: PlantingGround) -> None:
    ground.plant("key: { like: aws, file: ~/key }")
    refused(ground, "its user may not write there", read_only=True)
    ground.plant("key: { like: aws, file: /tmp/key }", "other: { like: aws, file: /workspace/key }")
    running(ground, read_only=True)


class PlantingSandbox(Protocol):
    def run(self, *words: str) -> ExecResult: ...

    def get(self, path: str, *options: str) -> ExecResult: ...


class PlantingLab[Found: PlantingSandbox](Protocol):
    """A proxy, a runtime, and an upstream that the rules allow."""

    @property
    def served(self) -> ServeProcess: ...

    @property
    def upstream(self) -> RecordingApi: ...

    @property
    def home(self) -> Path: ...

    @property
    def runtime(self) -> Runtime: ...

    def spec(self, name: str, **values: object) -> Spec: ...

    def box(self, name: str) -> Found: ...


class CanaryRules:
    """The rules of a proxy, and what it says of them."""

    def __init__(self, served: ServeProcess) -> None:
        self._served = served
        self._bare = served.rules.read_text()

    def plant(self, *items: str) -> None:
        """Have these under `canaries:` from now on; nothing where there are none."""
        lines = "".join(f"  {item}\n" for item in items)
        self._served.write(self._bare + ("canaries:\n" + lines if items else ""))
        status, said = self._served.ask("POST", "/reload")
        assert status == 200, said

    def value(self, name: str, canary: str) -> str:
        _, told = self._served.ask("GET", "/placeholders")
        items = told[name]
        assert isinstance(items, list)
        return next(str(each["value"]) for each in items if each.get("canary") == canary)


class LabCanaryRules[Found: PlantingSandbox](CanaryRules):
    """A house whose rules plant."""

    def __init__(self, house: PlantingLab[Found]) -> None:
        super().__init__(house.served)
        self.house = house
        self.runtime = house.runtime
        self.spec = house.spec


@contextmanager
def lab_canary_rules[Found: PlantingSandbox](house: PlantingLab[Found]) -> Iterator[LabCanaryRules[Found]]:
    """For one test: nothing of it is left, neither here nor at the proxy."""
    bed = LabCanaryRules(house)
    yield bed
    for each in house.runtime.list():
        house.runtime.remove(each.name)
    bed.plant()
    _, status = house.served.ask("GET", "/status")
    assert [each["name"] for each in status["sandboxes"]] == ["default"]  # type: ignore[attr-defined]
    [_] = house.home.iterdir()


# A sandbox that sends what it has found ---------------------------------------------------------------


_STATUS = ("-o", "/dev/null", "-w", "%{http_code}")


def ways(value: str) -> list[tuple[str, tuple[str, ...]]]:
    """Paths and options of curl that carry a value out."""
    coded = b64encode(f"user:{value}".encode()).decode()
    percent = "".join(f"%{ord(letter):02x}" for letter in value)
    return [
        (f"/x/{value}", ()),
        (f"/x/{percent}", ()),
        (f"/x?q={value.lower()}", ()),
        ("/x", ("-H", f"x-note: token {value}")),
        ("/x", ("-u", f"user:{value}")),
        ("/x", ("-b", f"session={value}")),
        ("/x", ("-d", f"text={value}")),
        ("/x", ("-d", f"text={coded}")),
    ]


def whoever_sends_one_is_told_from_whoever_does_not[Found: PlantingSandbox](
    house: PlantingLab[Found],
) -> None:
    """S-40: read from where it was planted. The same requests with another value pass."""
    garden = CanaryRules(house.served)
    garden.plant("decoy: { like: github, env: GH_TOKEN, file: ~/.config/token }")
    box, other = house.box("one"), "ghp_" + "x" * 36
    value = box.run("cat", f"{HOME}/.config/token").check().text.strip()
    assert f"GH_TOKEN={value}" in box.run("env").text.splitlines()
    before = len(house.served.records("exchange"))
    for path, options in ways(value):
        assert box.get(path, *options, *_STATUS).stdout_bytes == b"403", (path, options)
    count = len(ways(value))
    lines = house.served.recorded("exchange", before + count)[before:]
    assert {(each["sandbox"], each["code"], each["rule"]) for each in lines} == {
        ("one", "canary.seen", "canaries#decoy")
    }
    assert not any(value in f"{each}" for each in house.upstream.seen)
    for path, options in ways(other):
        assert box.get(path, *options, *_STATUS).stdout_bytes == b"200", (path, options)
    assert sum(other in f"{each}" for each in house.upstream.seen) >= count // 2
    _is_nowhere(house.served, value)


def one_that_stops_takes_all_access[Found: PlantingSandbox](house: PlantingLab[Found]) -> None:
    garden = CanaryRules(house.served)
    garden.plant("trap: { like: aws, file: ~/.aws/key, stop: true }")
    box, other = house.box("one"), house.box("two")
    value = box.run("cat", f"{HOME}/.aws/key").check().text.strip()
    assert box.get("/before").check().stdout_bytes
    box.get(f"/x/{value}")
    # The log is written every fifth of a second, and the client has its answer before.
    [line] = until(lambda: _stopped(house.served), "the request to be recorded")
    assert (line["sandbox"], line["rule"]) == ("one", "canaries#trap")
    [killed] = house.served.recorded("killed")
    assert (killed["kind"], killed["name"]) == ("sandbox", "one")
    assert box.get("/after", "--max-time", "3").exit_code
    assert other.get("/other").check().stdout_bytes
    # Of another one it is worth nothing: that one has its own.
    assert other.get(f"/x/{value}", *_STATUS).stdout_bytes == b"200"
    _is_nowhere(house.served, value)


def _stopped(served: ServeProcess) -> list[dict[str, object]]:
    return [each for each in served.records("exchange") if each["code"] == "canary.stopped"]


def a_proxy_that_returns_knows_what_is_planted[Found: PlantingSandbox](house: PlantingLab[Found]) -> None:
    garden = CanaryRules(house.served)
    garden.plant("decoy: { like: uuid, env: DEPLOY_TOKEN, file: /tmp/token }")
    box = house.box("one")
    value = box.run("cat", "/tmp/token").check().text.strip()
    house.served.kill()
    house.served.start()
    until(lambda: box.get("/again", "--max-time", "3").exit_code == 0, "the sandbox to be served again")
    assert garden.value("one", "decoy") == value
    assert f"DEPLOY_TOKEN={value}" in box.run("env").text.splitlines()
    assert box.get(f"/x/{value}", *_STATUS).stdout_bytes == b"403"
    assert box.get("/x/another", *_STATUS).stdout_bytes == b"200"


def _is_nowhere(served: ServeProcess, value: str) -> None:
    """In nothing that is written: the log, what the proxy says, and its state."""
    kept = [path for path in served.state.rglob("*") if path.is_file()]
    assert any(path.suffix == ".jsonl" for path in kept)
    for path in kept:
        assert value.encode() not in path.read_bytes(), path
    assert value not in "\n".join([*served.out, *served.err])
