"""`egress up --api-listen` for real: who reaches the API, and what is printed of its token."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from egress import Sandbox, open_remote
from tests.cli.command import Outcome, egress, put
from tests.proxy.lab.certificates import Certificates
from tests.runtime.namespace.conftest import namespaces, refusal

__all__ = ["namespaces", "refusal"]

TIMEOUT = 300
pytestmark = pytest.mark.timeout(2 * TIMEOUT)
_RULES = "version: 1\nhosts: {api.example.com: {allow: all}}\n"

_KNOCK = """
set -f
for way in "--noproxy *" "--proxy $http_proxy --noproxy none"; do
  for host in 127.0.0.1 localhost; do
    curl -s -m 20 $way -o /dev/null -w "%{http_code} " -H "Authorization: Bearer $TOKEN" "http://$host:$PORT/v1/about"
  done
done
true
"""


_KNOCK_AT_SOCKET = """
set -f
ask() { curl -s -m 20 "$@"; echo; }
ask --noproxy "*" --unix-socket "$SOCKET" http://egress/v1/about
ask --noproxy "*" --abstract-unix-socket "$SOCKET" http://egress/v1/about
ask --noproxy "*" -H "Egress-Preview-Token: $TOKEN" -H "Host: $PREVIEW" "http://127.0.0.1:$PORT/"
for target in "unix:$SOCKET:/v1/about" "http://unix:$SOCKET:/v1/about" "http://unix$SOCKET/v1/about" \
    "unix://$SOCKET/v1/about" "http+unix://$SOCKET/v1/about" "file://$SOCKET" "http://egress/v1/about" \
    "http://127.0.0.1:$PORT/" "http://$PREVIEW/"; do
  ask --noproxy none --proxy "$http_proxy" -H "Egress-Preview-Token: $TOKEN" --request-target "$target" http://egress/
done
find / -xdev \\( -name sandboxes.sock -o -name api.token -o -name leaf.key \\) 2>/dev/null
true
"""


@dataclass(frozen=True)
class ApiPlace:
    """A folder in which `egress up` serves its API."""

    folder: Path

    def egress(self, *words: str) -> Outcome:
        env = {
            "EGRESS_RUNTIME_DIR": str(self.folder / "run"),
            "EGRESS_STATE_DIR": str(self.folder / "state"),
        }
        return egress(*words, cwd=self.folder, env=env, timeout=TIMEOUT)


@pytest.fixture
def place(namespaces: None) -> Iterator[ApiPlace]:
    with tempfile.TemporaryDirectory(prefix="egress-") as name:
        found = ApiPlace(Path(name))
        put(found.folder / "hosts.yaml", _RULES)
        yield found
        found.egress("down")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def test_a_program_with_the_token_reaches_it_and_a_sandbox_does_not(place: ApiPlace) -> None:
    port = _free_port()
    up = place.egress(
        *("up", "--rules", "hosts.yaml", "--runtime", "namespace", "--api-listen", f"127.0.0.1:{port}")
    )
    assert up.status == 0, up
    file = place.folder / "state" / "api.token"
    socket_line = next(line for line in up.out.splitlines() if "API: the unix socket " in line)
    assert Path(socket_line.partition("unix socket ")[2]).is_socket()
    assert f"API: http://127.0.0.1:{port}, with the token in {file}\n" in up.out
    token = file.read_text().strip()
    log = (file.parent / "up.log").read_text()
    assert token not in up.said + log

    words = {"TOKEN": token, "PORT": str(port), "http_proxy": "", "PATH": "/usr/bin:/bin"}
    outside = subprocess.run(
        ["sh", "-c", _KNOCK], env=words, capture_output=True, text=True, check=True, timeout=TIMEOUT
    )
    # The last two ways go by a proxy, and there is none here.
    assert outside.stdout.split()[:2] == ["200", "200"]
    inside = place.egress(
        *("run", "-q", "--env", f"TOKEN={token}", "--env", f"PORT={port}", "--", "sh", "-c", _KNOCK)
    )
    codes = inside.out.split()
    assert codes[:2] == ["000", "000"], inside
    # The proxy was asked and has refused.
    assert len(codes) == 4
    assert all(re.fullmatch("4[0-9][0-9]", code) for code in codes[2:]), inside

    assert place.egress("down").status == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 30)


def test_a_background_process_has_the_certificate_and_the_token_that_were_named(place: ApiPlace) -> None:
    certificates = Certificates()
    certificate, key = certificates.write_leaf(place.folder, "localhost")
    token = place.folder / "token"
    token.touch(0o600)
    token.write_text(f"{'named-token-' * 4}\n")
    port = _free_port()
    up = place.egress(
        *("up", "--rules", "hosts.yaml", "--runtime", "namespace", "--ready", "0"),
        *("--api-listen", f"127.0.0.1:{port}", "--api-token-file", "token"),
        *("--api-tls-cert", certificate.name, "--api-tls-key", key.name),
    )
    assert up.status == 0, up
    assert f"API: https://127.0.0.1:{port}, with the token in token\n" in up.out
    ca = certificates.write_ca(place.folder / "ca.pem")
    shown = token.read_text().strip()
    with (
        open_remote(f"https://localhost:{port}", token=shown, ca_file=ca) as remote,
        Sandbox.create(runtime=remote) as sandbox,
    ):
        assert sandbox.exec("cat", input="over the port").text == "over the port"
        sandbox.files.write("file", "there")
        assert sandbox.files.read_text("file") == "there"
    assert not (place.folder / "state" / "api.token").exists()
    # Whoever has them has the API, and a sandbox may have a way to its address by the rules.
    for mount in (token, key, place.folder):
        refused = place.egress("run", "-q", "--mount", f"{mount}:/mounted", "--", "true")
        assert refused.status != 0
        assert "must not see" in refused.err
    public = place.egress("run", "-q", "--mount", f"{ca}:/mounted", "--", "cat", "/mounted")
    assert public.out == ca.read_text()


def test_a_port_that_is_taken_is_told_and_nothing_starts(place: ApiPlace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        up = place.egress("up", "--rules", "hosts.yaml", "--runtime", "namespace", "--api-listen", at)
    assert up.status == 3
    assert f"error: the API cannot be served on {at}: " in up.err
    assert place.egress("ps").status == 3


def test_beyond_loopback_nothing_starts_without_tls(place: ApiPlace) -> None:
    up = place.egress("up", "--rules", "hosts.yaml", "--api-listen", "192.0.2.1:8700")
    assert up.status == 2
    assert "error: the API at 192.0.2.1:8700 needs TLS" in up.err
    assert not (place.folder / "state").exists()


def test_a_sandbox_gets_neither_the_socket_nor_the_token_nor_a_preview(place: ApiPlace) -> None:
    """Asked for where they are, by way of the proxy in every spelling of a socket, and with a mount."""
    certificate, key = Certificates().write_leaf(place.folder, "localhost")
    token = place.folder / "own" / "token"
    token.parent.mkdir()
    token.touch(0o600)
    token.write_text(f"{'named-token-' * 4}\n")
    api, previews = _free_port(), _free_port()
    up = place.egress(
        *("up", "--rules", "hosts.yaml", "--runtime", "namespace", "--ready", "0"),
        *("--api-listen", f"127.0.0.1:{api}", "--api-token-file", "own/token"),
        *("--api-tls-cert", certificate.name, "--api-tls-key", key.name),
        *("--preview-listen", f"127.0.0.1:{previews}"),
    )
    assert up.status == 0, up
    assert place.egress("run", "-q", "--keep", "--name", "one", "--", "true").status == 0
    shown = json.loads(place.egress("expose", "one", "8000", "--json").out)
    words = {
        "SOCKET": str(place.folder / "run" / "sandboxes.sock"),
        "PORT": str(previews),
        "PREVIEW": urlsplit(shown["origin"]).netloc,
        "TOKEN": shown["token"],
    }
    # The good twin: the same words, outside. Nothing listens on the port, and the preview says so.
    outside = subprocess.run(
        ["sh", "-c", _KNOCK_AT_SOCKET.partition("for target")[0]],
        env={**words, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT,
    )
    assert '"api":"v1"' in outside.stdout
    assert "no program listens on port 8000" in outside.stdout

    given = [f"--env={name}={value}" for name, value in words.items()]
    inside = place.egress("run", "-q", *given, "--", "sh", "-c", _KNOCK_AT_SOCKET)
    assert inside.status == 0, inside
    for sign in ('"api":"v1"', "no program listens", "sandboxes.sock", "api.token", "leaf.key"):
        assert sign not in inside.out, inside
    # The proxy was asked each time, and has refused.
    assert inside.out.count('"code": "') + inside.out.count("egress: ") >= 9, inside

    for mount in ("run", "state", "own", key.name):
        refused = place.egress("run", "-q", "--mount", f"{mount}:/seen", "--", "ls", "-R", "/seen")
        assert refused.status == 2, (mount, refused)
        assert "which sandboxes must not see" in refused.err
    (place.folder / "other").mkdir()
    assert place.egress("run", "-q", "--mount", "other:/seen", "--", "ls", "/seen").status == 0
