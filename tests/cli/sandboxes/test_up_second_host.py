"""Programs on a second host: they create a sandbox, run, stream, and come back to it after a restart.

They have the address, the token and the authority of `egress up`, and nothing else of this machine. The
requests of their sandbox carry a credential that they never see, and are in the log.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.images.demo import demo_image
from tests.cli.command import ROOT, put
from tests.cli.sandboxes.test_up_kept import NAME, SECRET, KeptPlace, place
from tests.cli.second_host import SecondHost, second_host
from tests.proxy.lab.certificates import Certificates
from tests.proxy.serve_process import until
from tests.runtime.conftest import answering, engine

__all__ = ["answering", "engine"]

PORT = 8791
PAGE = "hello from outside\n"
NO_VARIABLES: Mapping[str, str] = {}
pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a second host"),
]

# The stream comes piece by piece; the last command asks for the page, and shows what the sandbox holds.
_PYTHON = """
import sys
from egress import Sandbox, open_remote

url, token, authority, act, fetch = sys.argv[1:]
with open_remote(url, token=token, ca_file=authority) as remote:
    if act == "create":
        sandbox = Sandbox.create(runtime=remote, name="python")
        sandbox.files.write("kept", "by a program on another host")
    sandbox = Sandbox.connect("python", runtime=remote)
    sandbox.exec("echo first; cat", input="typed", on_stdout=lambda piece: print(piece, end=""))
    print(sandbox.files.read_text("kept"))
    print(sandbox.exec(fetch, check=True).stdout + sandbox.exec("env", check=True).stdout)
"""


@dataclass(frozen=True)
class Remote:
    """`egress up` with its port at the wire, and the folder of a client at the other end."""

    kept: KeptPlace
    host: SecondHost
    client: Path

    @property
    def url(self) -> str:
        return f"https://{self.host.ours}:{PORT}"

    @property
    def token(self) -> str:
        return (self.kept.folder / "state" / "api.token").read_text().strip()

    @property
    def fetch(self) -> str:
        """The command of a sandbox that gets the page, without a credential of its own."""
        return f"curl -sS --max-time 20 https://{NAME}:{self.kept.api.port}/x"

    def up(self) -> None:
        tls = ("--api-tls-cert", "leaf.pem", "--api-tls-key", "leaf.key")
        self.kept.up("--api-listen", f"{self.host.ours}:{PORT}", *tls)
        put(self.client / "header", f"Authorization: Bearer {self.token}")

    def curl(self, path: str, *words: str, body: object = None) -> str:
        """What the API answers to a program on the second host."""
        sent = () if body is None else ("--json", json.dumps(body))
        known = ("--cacert", str(self.client / "ca.pem"), "-H", f"@{self.client / 'header'}")
        return self.done("curl", "-sS", "--max-time", "60", *known, *sent, *words, f"{self.url}/v1/{path}")

    def python(self, act: str) -> str:
        """What the program prints on the second host."""
        words = (self.url, self.token, str(self.client / "ca.pem"), act, self.fetch)
        return self.done(sys.executable, "-c", _PYTHON, *words)

    def logged(self) -> list[dict[str, object]]:
        """The exchanges with the API in the log."""
        said = self.kept.egress("log", "query", "--json", "--host", NAME).out
        return [json.loads(line) for line in said.splitlines()]

    def done(self, *words: str, env: Mapping[str, str] = NO_VARIABLES, given: str = "") -> str:
        """What a program prints on the second host."""
        done = self.host.run(words, self.client, {"PYTHONPATH": str(ROOT), **env}, given)
        assert done.returncode == 0, done
        return done.stdout


@pytest.fixture
def remote(engine: DockerEngine) -> Iterator[Remote]:
    demo_image(engine)
    with (
        place("docker") as kept,
        second_host() as host,
        tempfile.TemporaryDirectory(prefix="egress-") as client,
    ):
        certificates = Certificates()
        certificates.write_leaf(kept.folder, host.ours)
        certificates.write_ca(Path(client) / "ca.pem")
        yield Remote(kept, host, Path(client))


def test_programs_there_come_back_to_their_sandboxes_after_a_restart(remote: Remote) -> None:
    remote.up()
    created = json.loads(remote.curl("sandboxes/curl", "-X", "PUT", body={"labels": {"team": "a"}}))
    assert (created["name"], created["state"]) == ("curl", "running")
    assert PAGE in remote.python("create")
    for end in (remote.kept.kill, lambda: remote.kept.egress("down", "--keep")):
        asked = {"command": f"echo one; {remote.fetch}; env; exit 4"}
        stream = remote.curl("sandboxes/curl/exec", "-H", "Accept: text/event-stream", body=asked)
        assert [line for line in stream.splitlines() if line.startswith("event: exit")]
        assert '"exit_code":4' in stream
        assert PAGE.strip() in stream
        said = remote.python("come back")
        assert said.startswith("first\ntypedby a program on another host\nhello from outside\n")
        assert SECRET not in stream + said
        assert {each.authorization for each in remote.kept.api.seen} == {f"Bearer {SECRET}"}
        end()
        remote.up()
        assert json.loads(remote.curl("sandboxes/curl"))["created"] == created["created"]
    count = len(remote.kept.api.seen)
    # A line is written after its answer has left.
    found = until(lambda: lines if len(lines := remote.logged()) >= count else [], "their lines")
    assert {(each["sandbox"], each["verdict"]) for each in found} == {("curl", "allow"), ("python", "allow")}
    assert len(found) == count


def test_nobody_without_the_token_gets_an_answer_there(remote: Remote) -> None:
    remote.up()
    known = ("--cacert", str(remote.client / "ca.pem"))
    bare = remote.host.run(("curl", "-sS", *known, f"{remote.url}/v1/about"), remote.client)
    assert json.loads(bare.stdout)["type"] == "api.unauthorized"
    clear = remote.host.run(("curl", "-sS", f"http://{remote.host.ours}:{PORT}/v1/about"), remote.client)
    assert clear.returncode != 0
    # The positive control.
    assert json.loads(remote.curl("about"))["kind"] == "docker"
