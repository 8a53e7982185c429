"""A proxy as a child: it serves, it comes back, it says why it cannot, and it ends with its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from egress.fleet.embedded_proxy import EmbeddedProxy
from egress.fleet.errors import ProxyFailedError
from egress.runtime.errors import SandboxError
from egress.runtime.proxy_client import ControlProxyClient
from tests.cli.command import environment, put
from tests.fleet.memory_fleet import short_folder
from tests.fleet.test_die_with_parent import is_alive
from tests.proxy.serve_process import until

RULES = """\
version: 1
secrets:
  tracker: {from: "env:TRACKER_TOKEN", hosts: [api.example.test]}
hosts:
  api.example.test:
    allow: all
    inject: [{bearer: tracker}]
"""
SECRET = "sesame-open-sesame-42"

_PARENT = """
import os, sys
from pathlib import Path
from egress.fleet.embedded_proxy import EmbeddedProxy
proxy = EmbeddedProxy(Path(sys.argv[1]), dict(os.environ), rules=[Path(sys.argv[2])])
print(proxy.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as folder:
        yield folder


@pytest.fixture
def environ(tmp_path: Path) -> Mapping[str, str]:
    return environment(tmp_path, {"TRACKER_TOKEN": SECRET})


def test_it_takes_sandboxes_and_opens_no_port(
    folder: Path, environ: Mapping[str, str], tmp_path: Path
) -> None:
    proxy = EmbeddedProxy(folder, environ, rules=[put(tmp_path / "hosts.yaml", RULES)])
    try:
        admission = ControlProxyClient(folder).admit("one")
        assert "BEGIN CERTIFICATE" in admission.authority
        # What an undumpable process has open is shown to root alone.
        assert os.geteuid() != 0 or _listening(proxy.pid) == []
        assert (tmp_path / ".local/state/egress/audit/audit-000001.jsonl").is_file()
    finally:
        proxy.close()
    assert not is_alive(proxy.pid or 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="the environment of an undumpable process is root's to see")
def test_its_secrets_come_from_the_environment_of_its_caller_and_are_in_nobodys(
    folder: Path, environ: Mapping[str, str], tmp_path: Path
) -> None:
    proxy = EmbeddedProxy(folder, environ, rules=[put(tmp_path / "hosts.yaml", RULES)])
    try:
        assert SECRET.encode() not in Path(f"/proc/{proxy.pid}/environ").read_bytes()
        assert "secret.unavailable" not in proxy.log.read_text(encoding="utf-8")
    finally:
        proxy.close()


def test_settings_of_a_proxy_that_listens_do_not_hold_for_it(
    folder: Path, environ: Mapping[str, str], tmp_path: Path
) -> None:
    wrong = {"EGRESS_LISTEN": "0.0.0.0:1", "EGRESS_TRANSPARENT": "1.1.1.1", "EGRESS_RUNTIME": "docker"}
    rules = put(tmp_path / "hosts.yaml", RULES)
    proxy = EmbeddedProxy(folder, {**environ, **wrong, "EGRESS_RULES": str(rules)})
    try:
        assert "setting.unknown" not in proxy.log.read_text(encoding="utf-8")
    finally:
        proxy.close()


def test_one_that_is_held_opens_nothing_until_it_is_released(
    folder: Path, environ: Mapping[str, str], tmp_path: Path
) -> None:
    rules = put(tmp_path / "hosts.yaml", RULES)
    proxy = EmbeddedProxy(folder, environ, rules=[rules], held=True)
    try:
        until(lambda: proxy.pid and _waits_for_its_parent(proxy.pid), "the proxy to wait")
        assert [each.name for each in folder.iterdir()] == [proxy.log.name]
        assert not (tmp_path / ".local").exists()
        proxy.release()
        assert (tmp_path / ".local/state/egress/audit/audit-000001.jsonl").is_file()
        assert "BEGIN CERTIFICATE" in ControlProxyClient(folder).admit("one").authority
    finally:
        proxy.close()


def test_one_that_is_closed_while_it_is_held_leaves_no_trace(
    folder: Path, environ: Mapping[str, str], tmp_path: Path
) -> None:
    proxy = EmbeddedProxy(folder, environ, rules=[put(tmp_path / "hosts.yaml", RULES)], held=True)
    until(lambda: proxy.pid, "the proxy to begin")
    proxy.close()
    assert not is_alive(proxy.pid or 0)
    assert [each.name for each in folder.iterdir()] == [proxy.log.name]
    assert not (tmp_path / ".local").exists()


def test_mistakes_are_told_when_one_that_is_held_is_released(
    folder: Path, environ: Mapping[str, str], tmp_path: Path
) -> None:
    proxy = EmbeddedProxy(folder, environ, rules=[tmp_path / "missing.yaml"], held=True)
    with pytest.raises(ProxyFailedError, match=r"missing\.yaml"):
        proxy.release()
    proxy.close()


def test_it_is_started_again_when_it_ends(folder: Path, environ: Mapping[str, str], tmp_path: Path) -> None:
    proxy = EmbeddedProxy(folder, environ, rules=[put(tmp_path / "hosts.yaml", RULES)])
    try:
        first = proxy.pid
        assert first is not None
        gateway = ControlProxyClient(folder)
        meeting = gateway.open_liveness()
        os.kill(first, signal.SIGKILL)
        meeting.wait()
        meeting.close()
        until(lambda: _has_admitted(gateway), "another proxy")
        assert proxy.pid != first
        proxy.check()
    finally:
        proxy.close()


def test_what_keeps_it_from_starting_is_told_as_it_tells_it(
    folder: Path, environ: Mapping[str, str], tmp_path: Path
) -> None:
    rules = put(tmp_path / "hosts.yaml", "version: 1\nhosts:\n  api.example.test: {allow: sometimes}\n")
    with pytest.raises(ProxyFailedError) as caught:
        EmbeddedProxy(folder, environ, rules=[rules])
    assert caught.value.message.startswith("these rules cannot be used; nothing was started\n")
    assert "hosts.yaml:3" in caught.value.message
    assert caught.value.hint == "fix the errors above"
    assert caught.value.exit_status == 1


def test_one_that_is_killed_while_it_starts_ends_with_no_status_of_a_command(
    folder: Path, environ: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that dies says nothing of rules or options."""
    program = put(tmp_path / "python", "#!/bin/sh\necho 'error: all is lost' >&2\nexit 70\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(ProxyFailedError, match="all is lost") as caught:
        EmbeddedProxy(folder, environ, rules=[put(tmp_path / "hosts.yaml", RULES)])
    assert caught.value.exit_status == ProxyFailedError.exit_status == 3


def test_one_that_cannot_come_back_is_told_of(
    folder: Path, environ: Mapping[str, str], tmp_path: Path
) -> None:
    rules = put(tmp_path / "hosts.yaml", RULES)
    proxy = EmbeddedProxy(folder, environ, rules=[rules])
    try:
        rules.unlink()
        os.kill(proxy.pid or 0, signal.SIGKILL)
        until(lambda: proxy._failure, "the failure")
        with pytest.raises(ProxyFailedError, match=r"hosts\.yaml"):
            proxy.check()
    finally:
        proxy.close()


def test_it_ends_when_its_parent_is_killed(folder: Path, environ: Mapping[str, str], tmp_path: Path) -> None:
    rules = put(tmp_path / "hosts.yaml", RULES)
    words = [sys.executable, "-c", _PARENT, str(folder), str(rules)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ, cwd=tmp_path
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_alive(child)
        parent.kill()
        parent.wait()
    until(lambda: not is_alive(child), "the proxy to end")


def test_nothing_in_the_working_directory_is_imported(
    folder: Path, environ: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may hold what somebody else wrote, and the proxy holds secrets."""
    for name in ("click.py", "egress/__init__.py", "egress/__main__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        put(tmp_path / name, "raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    proxy = EmbeddedProxy(folder, environ, rules=[put(tmp_path / "hosts.yaml", RULES)])
    proxy.close()
    assert "imported" not in proxy.log.read_text(encoding="utf-8")


def _has_admitted(gateway: ControlProxyClient) -> bool:
    try:
        gateway.admit("one")
    except (SandboxError, OSError):
        return False
    return True


def _waits_for_its_parent(pid: int) -> bool:
    """Whether a process reads from a pipe, and has taken its standard streams away."""
    try:
        waits = Path(f"/proc/{pid}/wchan").read_text(encoding="ascii").endswith("pipe_read")
        return waits and Path(f"/proc/{pid}/fd/0").readlink() == Path("/dev/null")
    except OSError:
        return False


def _listening(pid: int | None) -> list[str]:
    """The TCP sockets on which a process listens."""
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        target = str(entry.readlink())
        inodes.add(target.removeprefix("socket:[").removesuffix("]"))
    found = []
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{name}").read_text(encoding="utf-8").splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:
                found.append(words[1])
    return found
