"""`egress mcp` for real: the sandbox it serves, for how long, and what it refuses before anything starts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Outcome, command, egress, environment, put
from tests.fleet.memory_fleet import short_folder
from tests.runtime.namespace.conftest import namespaces, refusal

__all__ = ["namespaces", "refusal"]

TIMEOUT = 300
pytestmark = pytest.mark.timeout(2 * TIMEOUT)
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture
def folder(namespaces: None) -> Iterator[Path]:
    with short_folder() as found:
        put(found / "hosts.yaml", "version: 1\nhosts: {api.example.com: {allow: all}}\n")
        yield found


def variables(folder: Path) -> dict[str, str]:
    return {"EGRESS_RUNTIME_DIR": str(folder / "run"), "EGRESS_STATE_DIR": str(folder / "state")}


def run(folder: Path, *words: str) -> Outcome:
    return egress(*words, cwd=folder, env=variables(folder), timeout=TIMEOUT)


@contextmanager
def server(folder: Path, *words: str, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """`egress mcp` over its streams, until its input ends."""
    around = environment(folder, {**variables(folder), **env})
    with subprocess.Popen(
        command(["mcp", *words]),
        cwd=folder,
        env=around,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            _, errors = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 0, errors


def said(process: subprocess.Popen[bytes], line: str) -> str:
    """What a command prints in the sandbox."""
    params = {"name": "exec", "arguments": {"command": line}, "_meta": META}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()
    answer: dict[str, Any] = json.loads(process.stdout.readline())
    text: str = answer["result"]["structuredContent"]["stdout"]
    return text


def test_without_egress_up_it_has_a_proxy_and_a_sandbox_of_its_own(folder: Path) -> None:
    words = ("--rules", "hosts.yaml", "--runtime", "namespace", "--env", "MODE=test")
    with server(folder, *words) as process:
        ask = "echo $MODE; curl -s -o /dev/null -w '%{http_code}' https://other.example.com/"
        assert said(process, ask) == "test\n403"
    assert run(folder, "ps").status == 3


def test_beside_egress_up_it_takes_a_sandbox_of_it(folder: Path) -> None:
    up = run(folder, "up", "--rules", "hosts.yaml", "--runtime", "namespace", "--ready", "0")
    assert up.status == 0, up
    try:
        with server(folder) as process:
            assert said(process, "echo mine >mine; cat mine") == "mine\n"
            assert run(folder, "ps").out.count("run-") == 1
        with server(folder, "--name", "agent", "--keep") as process:
            said(process, "echo kept >kept")
        # Found again by its settings, whatever else is different where it is started.
        with server(folder, "--name", "agent", "--keep", LANG="de_DE.UTF-8", TZ="Asia/Tokyo") as process:
            assert said(process, "cat kept") == "kept\n"
        assert run(folder, "ps").out.count("run-") == 0
        with server(folder, "agent") as process:
            assert said(process, "cat kept") == "kept\n"
        missing = run(folder, "mcp", "nobody")
        assert (missing.status, missing.out) == (3, "")
        assert "no sandbox is named nobody" in missing.err
    finally:
        assert run(folder, "down").status == 0


def test_what_cannot_be_is_told_before_anything_starts(folder: Path) -> None:
    for words, told in (
        (("agent", "--image", "host"), "--image applies only to a new sandbox"),
        (("--keep", "--name", "a"), "only a sandbox of `egress up` can be kept"),
        (("agent",), "`egress up` is not running"),
        (("--api-listen", "192.0.2.1:8701"), "needs TLS"),
        (("--api-name", "box.example.com"), "--api-name has no effect without --api-listen"),
    ):
        refused = run(folder, "mcp", *words)
        assert refused.status in (2, 3), words
        assert told in refused.err
        assert refused.out == ""
    assert not (folder / "run").exists()


def test_the_parts_of_the_server_are_loaded_for_it_alone() -> None:
    report = "import sys, egress.cli.sandboxes.mcp; print([n for n in sys.modules if 'egress.mcp' in n])"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
