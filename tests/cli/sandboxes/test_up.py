"""`egress up`, `egress run` and what works with them, for real: a proxy, sandboxes, and several processes.

The essential part on containers too; everything else on namespaces alone.
"""

from __future__ import annotations

import fcntl
import os
import pty
import secrets
import struct
import subprocess
import tempfile
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from egress.cli import progress
from egress.cli.main import main
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.images.demo import demo_image
from egress.runtime.docker.labels import LEASE_LABEL
from tests.cli.command import Outcome, command, egress, environment, put
from tests.proxy.serve_process import until
from tests.runtime.conftest import answering, engine
from tests.runtime.namespace.conftest import namespaces, refusal

__all__ = ["answering", "engine", "namespaces", "refusal"]

RULES = "version: 1\nhosts: {api.example.com: {allow: all}}\n"
WRONG_RULES = "version: 1\nhosts: {api.example.com: {alow: all}}\n"
WRONG_RULES_FOUND = [
    "wrong.yaml:2:27: error: unknown key `alow`",
    "  hint: did you mean `allow`?",
    "error: these rules cannot be used; nothing was started",
    "hint: fix the errors above",
]
PATIENCE = 300


@dataclass(frozen=True)
class Place:
    """Where it runs."""

    folder: Path
    kind: str = "namespace"

    def egress(self, *words: str) -> Outcome:
        return egress(*words, cwd=self.folder, env=self.env, timeout=PATIENCE)

    @property
    def env(self) -> dict[str, str]:
        return {
            "EGRESS_RUNTIME_DIR": str(self.folder / "run"),
            "EGRESS_STATE_DIR": str(self.folder / "state"),
        }


@contextmanager
def made(kind: str) -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="egress-") as name:
        found = Place(Path(name), kind)
        put(found.folder / "hosts.yaml", RULES)
        yield found
        found.egress("down")


@pytest.fixture
def place(namespaces: None) -> Iterator[Place]:
    with made("namespace") as found:
        yield found


@pytest.fixture(params=["namespace", "docker"])
def either(request: pytest.FixtureRequest) -> Iterator[Place]:
    """One of each kind; the image that containers are made of is there."""
    if request.param == "docker":
        found = request.getfixturevalue("engine")
        assert isinstance(found, DockerEngine)
        demo_image(found)
    else:
        request.getfixturevalue("namespaces")
    with made(request.param) as place:
        yield place


@pytest.mark.timeout(2 * PATIENCE)
def test_sandboxes_stay_until_they_are_taken_away(either: Place) -> None:
    place = either
    up = place.egress("up", "--rules", "hosts.yaml", "--runtime", place.kind)
    assert up.status == 0, up
    assert f"egress is up: runtime: {place.kind}" in up.out
    assert "rules: hosts.yaml\n" in up.out

    again = place.egress("up", "--rules", "hosts.yaml")
    assert again.status == 3
    assert "already" in again.err

    made = place.egress("run", "-q", "--keep", "--name", "mine", "--", "sh", "-c", "echo kept > file")
    assert (made.status, made.said) == (0, "")
    assert place.egress("exec", "mine", "--", "cat", "file").out == "kept\n"

    put(place.folder / "in.txt", "from outside\n")
    assert place.egress("cp", "in.txt", "mine:sub/in.txt").status == 0
    assert place.egress("exec", "mine", "cat", "sub/in.txt").out == "from outside\n"
    assert place.egress("cp", "mine:file", "out.txt").status == 0
    assert (place.folder / "out.txt").read_text() == "kept\n"

    denied = "curl -s -o /dev/null http://pastebin.example.org/"
    place.egress("exec", "mine", "--", "sh", "-c", denied)
    # The log is written every fifth of a second.
    until(lambda: "pastebin.example.org" in place.egress("logs", "mine").out, "the request to be recorded")
    assert place.egress("ps").out.splitlines()[1].split()[:2] == ["mine", "running"]

    assert place.egress("rm", "mine").out == "removed mine\n"
    assert place.egress("ps").out == "no sandboxes\n"
    assert place.egress("down").status == 0
    assert place.egress("ps").status == 3


def test_what_keeps_it_from_coming_up_is_said_as_if_it_were_here(place: Place) -> None:
    put(place.folder / "wrong.yaml", WRONG_RULES)
    up = place.egress("up", "--rules", "wrong.yaml", "--runtime", "namespace")
    assert up.status == 1
    # A start that takes long on a busy machine has lines about its progress, too.
    assert [line for line in up.err.splitlines() if not line.startswith("egress: ")] == WRONG_RULES_FOUND
    assert place.egress("ps").status == 3


def test_what_keeps_it_from_coming_up_stands_below_a_long_start(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Findings and error belong together: no line about the progress comes between them."""
    put(place.folder / "wrong.yaml", WRONG_RULES)
    for name, value in place.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(place.folder)
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.0)
    assert main(["up", "--rules", "wrong.yaml", "--runtime", "namespace"]) == 1
    begun, ended, *found = capsys.readouterr().err.splitlines()
    assert begun == "egress: starting the proxy and its sandboxes ..."
    assert ended.startswith("egress: starting the proxy and its sandboxes failed after ")
    assert found == WRONG_RULES_FOUND


def test_an_image_that_is_not_there_keeps_it_from_coming_up(place: Place) -> None:
    failed = place.egress("up", "--runtime", "namespace", "--rules", "hosts.yaml", "--image", "/nonesuch")
    assert failed.status == 3
    assert "error: --image: " in failed.err
    assert "/nonesuch" in failed.err


def test_mistakes_in_rules_are_told_line_by_line_by_a_command_too(place: Place) -> None:
    put(place.folder / "wrong.yaml", WRONG_RULES)
    ran = place.egress("run", "--rules", "wrong.yaml", "--runtime", "namespace", "--", "true")
    assert (ran.status, ran.out) == (1, "")
    assert [line for line in ran.err.splitlines() if not line.startswith("egress: ")] == WRONG_RULES_FOUND


def test_rules_that_were_only_found_here_hold_when_they_are_trusted(place: Place) -> None:
    """S-51: what works here may have written them."""
    run = ("run", "--runtime", "namespace", "--", "true")
    refused = place.egress(*run)
    assert refused.status == 1
    assert "hosts.yaml was found here but is not trusted" in refused.err
    assert place.egress("trust", "hosts.yaml").status == 0
    trusted = place.egress(*run)
    assert trusted.status == 0
    assert "egress: rules: hosts.yaml\n" in trusted.err
    put(place.folder / "hosts.yaml", RULES + "# changed\n")
    changed = place.egress(*run)
    assert changed.status == 1
    assert "has changed since it was trusted" in changed.err


@pytest.mark.timeout(2 * PATIENCE)
def test_a_command_of_its_own_proxy_leaves_nothing(either: Place) -> None:
    name = f"left-{secrets.token_hex(4)}"
    script = "curl -s -o /dev/null -w '%{http_code}' http://pastebin.example.org/; exit 7"
    words = ("run", "--rules", "hosts.yaml", "--runtime", either.kind, "--name", name)
    ran = either.egress(*words, "--", "sh", "-c", script)
    assert (ran.status, ran.out) == (7, "403")
    assert "1 request: 0 allowed, 1 denied" in ran.err
    assert "denied pastebin.example.org  host.unknown  1x" in ran.err
    assert not list((either.folder / "run" / "embedded").glob("*"))
    if either.kind == "docker":
        engine = DockerEngine()
        assert not [each.name for each in engine.containers(LEASE_LABEL) if name in each.name]
        engine.close()


@pytest.mark.timeout(2 * PATIENCE)
def test_what_is_run_at_a_terminal_has_one(either: Place) -> None:
    """Of the same size, and as its way in and out."""
    script = "test -t 0 && test -t 1 && test -t 2 && stty size; exit 5"
    words = ["run", "-q", "--rules", "hosts.yaml", "--runtime", either.kind, "--", "sh", "-c", script]
    status, said = at_a_terminal(either, words)
    assert (status, said) == (5, b"33 111\r\n")


def at_a_terminal(place: Place, words: list[str]) -> tuple[int, bytes]:
    """The status of `egress`, and what is seen, at a terminal of 33 lines with 111 columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 111, 0, 0))
    seen: list[bytes] = []

    def read() -> None:
        try:
            while data := os.read(ours, 4096):
                seen.append(data)
        except OSError:
            """The other end is gone."""

    process = subprocess.Popen(
        command(words),
        cwd=place.folder,
        env=environment(place.folder, place.env),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    reader = threading.Thread(target=read)
    reader.start()
    try:
        status = process.wait(PATIENCE)
    finally:
        process.kill()
        reader.join()
        os.close(ours)
    return status, b"".join(seen)
