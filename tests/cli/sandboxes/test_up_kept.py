"""`egress up` is killed, or left for an upgrade: its containers stay guarded, and come back as they were."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from egress.fleet.folders import SOCKET_NAME
from egress.runtime.docker import labels, names
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.images.demo import demo_image
from egress.unix.peer import peer_of
from egress.unix.stream_socket import connect
from tests.cli.command import Outcome, egress, put
from tests.proxy.lab.certificates import Certificates
from tests.proxy.serve_process import until
from tests.runtime.conftest import answering, engine
from tests.runtime.namespace.conftest import namespaces, refusal
from tests.runtime.recording_api import RecordingApi

__all__ = ["answering", "engine", "namespaces", "refusal"]

NAME = "api.example.test"
SECRET = "sesame-open-sesame-42"
RULES = """\
version: 1
secrets:
  tracker: {{from: "file:{secret}", hosts: ["{name}:{port}"]}}
hosts:
  {name}:
    ports: [{port}]
    addresses: [127.0.0.1/32]
    allow: all
    inject: [{{bearer: tracker}}]
"""
TIMEOUT = 300
pytestmark = pytest.mark.timeout(2 * TIMEOUT)
certs = Certificates()


@dataclass(frozen=True)
class KeptPlace:
    """A folder in which `egress up` comes and goes, and an API that wants a credential."""

    folder: Path
    api: RecordingApi
    kind: str = "docker"

    def egress(self, *words: str) -> Outcome:
        env = {name: str(self.folder / end) for name, end in FOLDERS.items()}
        return egress(*words, cwd=self.folder, env=env, timeout=TIMEOUT)

    def up(self, *options: str) -> Outcome:
        trusted = ("--upstream-ca", "ca.pem", "--resolve", f"{NAME}=127.0.0.1")
        words = ("--rules", "hosts.yaml", "--runtime", self.kind, "--ready", "0", *trusted, *options)
        done = self.egress("up", *words)
        assert done.status == 0, done
        return done

    def kill(self) -> None:
        """`kill -9` of the process that listens."""
        with connect(self.folder / "run" / SOCKET_NAME, 10) as sock:
            pid = peer_of(sock).pid
        os.kill(pid, signal.SIGKILL)
        until(lambda: not Path(f"/proc/{pid}").exists(), "the process to be gone")

    def fetch(self, sandbox: str) -> str:
        """What the sandbox gets from the API, without a credential of its own."""
        words = ("curl", "-sS", "--max-time", "20", f"https://{NAME}:{self.api.port}/x")
        return self.egress("exec", sandbox, "--", *words).out

    def grows(self, sandbox: str, file: str) -> bool:
        """Wait until a file has grown."""
        size = ("exec", sandbox, "--", "wc", "-c", file)
        before = self.egress(*size).out
        return bool(until(lambda: self.egress(*size).out != before, f"{file} to grow"))

    def listed(self) -> list[str]:
        lines = self.egress("ps").out.splitlines()[1:]
        return sorted(line.split()[0] for line in lines)


FOLDERS = {"EGRESS_RUNTIME_DIR": "run", "EGRESS_STATE_DIR": "state"}


@contextmanager
def place(kind: str) -> Iterator[KeptPlace]:
    # A short path, since sockets are in it.
    with (
        tempfile.TemporaryDirectory(prefix="egress-") as folder,
        RecordingApi(certs.good(NAME)) as api,
    ):
        found = KeptPlace(Path(folder), api, kind)
        secret = put(found.folder / "secret", SECRET)
        put(found.folder / "hosts.yaml", RULES.format(secret=secret, name=NAME, port=api.port))
        certs.write_ca(found.folder / "ca.pem")
        yield found
        found.egress("down")


@pytest.fixture
def kept(engine: DockerEngine) -> Iterator[KeptPlace]:
    demo_image(engine)
    with place("docker") as found:
        yield found


def things(engine: DockerEngine, kept: KeptPlace) -> list[str]:
    """Everything at the engine for this folder."""
    home = str(kept.folder.resolve())
    listed = (*engine.networks(), *engine.volumes(labels.LEASE_LABEL))
    marks = [(str(each["Name"]), each.get("Labels") or {}) for each in listed]
    marks += [(each.name, each.labels) for each in engine.containers(labels.LEASE_LABEL)]
    return [
        name
        for name, found in marks
        if isinstance(found, dict) and str(found.get(labels.LEASE_LABEL, "")).startswith(home)
    ]


def containers(engine: DockerEngine, kept: KeptPlace) -> list[str]:
    """The sandboxes that have a container; one of two containers would stand there twice."""
    home = str(kept.folder.resolve())
    return sorted(
        name
        for each in engine.containers(f"{labels.ROLE_LABEL}={labels.ROLE_SANDBOX}")
        if each.labels[labels.LEASE_LABEL].startswith(home) and (name := names.sandbox_of(each.name))
    )


def test_sandboxes_outlive_a_kill_and_an_upgrade_and_end_with_down(
    kept: KeptPlace, engine: DockerEngine
) -> None:
    kept.up()
    made = kept.egress("run", "-q", "--keep", "--name", "one", "--", "sh", "-c", "echo kept > file")
    assert made.status == 0, made
    long = "setsid sh -c 'while :; do date >> ticks; sleep 0.2; done' >/dev/null 2>&1 &"
    assert kept.egress("run", "-q", "--keep", "--name", "two", "--", "sh", "-c", long).status == 0
    assert kept.fetch("one") == "hello from outside\n"

    for end in (kept.kill, lambda: kept.egress("down", "--keep")):
        end()
        assert kept.egress("ps").status == 3
        assert containers(engine, kept) == ["one", "two"]
        again = kept.up()
        assert "  back: one, two\n" in again.out
        assert kept.listed() == containers(engine, kept) == ["one", "two"]
        assert kept.egress("exec", "one", "--", "cat", "file").out == "kept\n"
        before = len(kept.api.seen)
        assert [kept.fetch(name) for name in ("one", "two")] == ["hello from outside\n"] * 2
        assert {each.authorization for each in kept.api.seen[before:]} == {f"Bearer {SECRET}"}
        assert kept.grows("two", "ticks")
    # The same request finds the same sandbox.
    assert kept.egress("run", "-q", "--keep", "--name", "one", "--", "cat", "file").out == "kept\n"
    assert containers(engine, kept) == ["one", "two"]
    assert kept.egress("rm", "two").status == 0
    down = kept.egress("down")
    assert (down.status, down.out) == (0, "stopped; 1 sandbox removed\n")
    # When it returns, not some time after that.
    assert things(engine, kept) == []


def test_one_that_fails_to_come_up_loses_no_sandbox(kept: KeptPlace, engine: DockerEngine) -> None:
    kept.up()
    assert kept.egress("run", "-q", "--keep", "--name", "one", "--", "true").status == 0
    assert kept.egress("down", "--keep").out == "stopped; 1 sandbox kept for the next `egress up`\n"
    rules = (kept.folder / "hosts.yaml").read_text()
    put(kept.folder / "hosts.yaml", "version: 1\nhosts: {x: {alow: all}}\n")
    assert kept.egress("up", "--rules", "hosts.yaml", "--runtime", "docker").status == 1
    assert containers(engine, kept) == ["one"]
    put(kept.folder / "hosts.yaml", rules)
    # As after a start of the machine: the container has ended, and its files are there.
    for each in engine.containers(
        f"{labels.LEASE_LABEL}={kept.folder.resolve()}/run/sandboxes/docker/kept.lease"
    ):
        engine.stop_container(each.id, grace=0)
    kept.up()
    assert kept.egress("ps").out.splitlines()[1].split()[:2] == ["one", "asleep"]
    assert kept.fetch("one") == "hello from outside\n"
    assert kept.egress("ps").out.splitlines()[1].split()[:2] == ["one", "running"]


def test_a_kill_under_load_leaves_no_half_sandbox_and_none_twice(
    kept: KeptPlace, engine: DockerEngine
) -> None:
    kept.up()
    wanted = [f"box{number}" for number in range(6)]

    def make(name: str) -> Outcome:
        return kept.egress("run", "-q", "--keep", "--name", name, "--", "sh", "-c", "echo $$ > file")

    with ThreadPoolExecutor(3) as pool:
        making = [pool.submit(make, name) for name in wanted]
        until(lambda: len(containers(engine, kept)) >= 2, "some to be made")
        kept.kill()
        answers = [each.result() for each in making]
    # Nobody is told that all went well who was cut off.
    sure = [name for name, answer in zip(wanted, answers, strict=True) if answer.status == 0]
    kept.up()
    there = kept.listed()
    assert there == containers(engine, kept)
    assert set(sure) <= set(there) <= set(wanted)
    for name in there:
        assert kept.egress("exec", name, "--", "true").status == 0
    for name in set(wanted) - set(there):
        assert make(name).status == 0
    assert kept.listed() == containers(engine, kept) == wanted
    assert kept.egress("down").status == 0
    assert things(engine, kept) == []


def test_namespaces_end_with_it_and_that_is_said(namespaces: None) -> None:
    with place("namespace") as found:
        assert "its sandboxes end with it" in found.up().out
        assert found.egress("run", "-q", "--keep", "--name", "one", "--", "true").status == 0
        refused = found.egress("down", "--keep")
        assert (refused.status, found.listed()) == (2, ["one"])
        assert "neither containers nor pods" in refused.err
        assert "`egress up --runtime docker`" in refused.err
        found.kill()
        found.up()
        assert found.listed() == []


def test_one_that_could_write_the_rules_of_today_does_not_come_back(kept: KeptPlace) -> None:
    project = kept.folder / "project"
    project.mkdir()
    kept.up()
    mount = ("--mount", f"{project}:/work:rw")
    assert kept.egress("run", "-q", "--keep", "--name", "agent", *mount, "--", "true").status == 0
    assert kept.egress("down", "--keep").status == 0
    put(project / "rules.yaml", "version: 1\nhosts: {other.example.com: {methods: [GET]}}\n")
    again = kept.up("--rules", "project/rules.yaml")
    assert "the sandbox agent was stopped" in again.out
    assert "holds the rules of the sandbox" in again.out
    refused = kept.egress("exec", "agent", "--", "true")
    assert refused.status != 0
