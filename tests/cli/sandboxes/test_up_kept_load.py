"""`egress up` is killed while clients of its port create, write, run and listen: nothing is half done."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field

import pytest

from egress.runtime.docker import labels, names
from egress.runtime.docker.engine import DockerEngine
from tests.cli.sandboxes.test_up_kept import NAME, SECRET, KeptPlace, containers, kept, things
from tests.proxy.serve_process import until
from tests.runtime.conftest import answering, engine
from tests.tiers import ALSO

__all__ = ["answering", "engine", "kept"]

pytestmark = pytest.mark.timeout(600)
_SIZE = 1024 * 1024


@dataclass
class PortLoad:
    """Clients of the port, each of which goes on until its server is gone."""

    port: int
    token: str
    created: set[str] = field(default_factory=set)
    """Names that a client was told of."""
    written: int = 0
    executed: int = 0
    told: int = 0
    threads: list[threading.Thread] = field(default_factory=list)

    def ask(self, method: str, path: str, body: bytes = b"{}") -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with closing(connection):
            connection.request(
                method, f"/v1/sandboxes/{path}", body, {"Authorization": f"Bearer {self.token}"}
            )
            response = connection.getresponse()
            response.read()
            return response.status

    def run(self, *acts: Callable[[int], None]) -> None:
        for act in acts:
            self.threads.append(threading.Thread(target=self._until_the_end, args=(act,)))
            self.threads[-1].start()

    def _until_the_end(self, act: Callable[[int], None]) -> None:
        try:
            for number in range(100_000):
                act(number)
        except (OSError, http.client.HTTPException):
            pass

    def create(self, number: int) -> None:
        """Two clients do this, with the same names at about the same time."""
        if number < 4:
            name = f"box{number}"
            if self.ask("PUT", name) == 200:
                self.created.add(name)
        else:
            assert self.ask("GET", "one") == 200

    def write(self, number: int) -> None:
        assert self.ask("PUT", "one/file?path=big", b"ab"[number % 2 : number % 2 + 1] * _SIZE) == 204
        self.written += 1

    def execute(self, _: int) -> None:
        assert self.ask("POST", "one/exec", json.dumps({"command": "echo x >> ran"}).encode()) == 200
        self.executed += 1

    def listen(self, _: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with closing(connection):
            connection.request("GET", "/v1/events", headers={"Authorization": f"Bearer {self.token}"})
            response = connection.getresponse()
            while line := response.readline():
                self.told += line.startswith(b"event:")
        raise ConnectionResetError


@pytest.fixture
def load(kept: KeptPlace) -> Iterator[PortLoad]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = int(sock.getsockname()[1])
    kept.up("--api-listen", f"127.0.0.1:{port}")
    found = PortLoad(port, (kept.folder / "state" / "api.token").read_text().strip())
    yield found
    for thread in found.threads:
        thread.join(60)


def inside(engine: DockerEngine, kept: KeptPlace, name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command past Egress, by the engine itself."""
    home = str(kept.folder.resolve())
    (container,) = (
        each.id
        for each in engine.containers(f"{labels.ROLE_LABEL}={labels.ROLE_SANDBOX}")
        if each.labels[labels.LEASE_LABEL].startswith(home) and names.sandbox_of(each.name) == name
    )
    return subprocess.run(
        ["docker", "exec", container, *words], capture_output=True, text=True, check=False, timeout=60
    )


@ALSO
def test_a_kill_under_load_at_the_port_leaves_nothing_half_done_open_or_doubled(
    kept: KeptPlace, engine: DockerEngine, load: PortLoad
) -> None:
    assert load.ask("PUT", "one") == 200
    assert kept.fetch("one") == "hello from outside\n"
    load.run(load.create, load.create, load.write, load.execute, load.listen)
    until(lambda: load.created and load.written > 1 and load.executed > 1 and load.told, "some of each")
    kept.kill()
    for thread in load.threads:
        thread.join(60)
        assert not thread.is_alive()
    # Nobody guards it now, and there is no way out: neither by the proxy nor past it.
    fetch = ("curl", "-sS", "--noproxy", "*", "--max-time", "5", f"https://{NAME}:{kept.api.port}/x")
    seen = len(kept.api.seen)
    for words in (fetch, tuple(word for word in fetch if word not in ("--noproxy", "*"))):
        assert inside(engine, kept, "one", *words).returncode != 0
    assert len(kept.api.seen) == seen

    again = kept.up("--api-listen", f"127.0.0.1:{load.port}")
    assert "one" in again.out
    there = kept.listed()
    assert there == containers(engine, kept)
    assert {"one", *load.created} <= set(there) <= {"one", *(f"box{number}" for number in range(4))}
    # Files are the old ones or the new ones, and the commands that were answered have run, once.
    big = kept.egress(
        "exec", "one", "--", "sh", "-c", "wc -c < big; tr -d a < big | wc -c; ls -A | tr '\\n' ' '"
    )
    size, others, listed = big.out.split("\n", 2)
    assert (int(size), int(others) in (0, _SIZE)) == (_SIZE, True), big
    assert set(listed.split()) <= {"big", "ran"}, "something half written is left"
    ran = int(kept.egress("exec", "one", "--", "wc", "-l", "ran").out.split()[0])
    assert load.executed <= ran <= load.executed + 1
    for name in there:
        assert kept.fetch(name) == "hello from outside\n"
    assert {each.authorization for each in kept.api.seen} == {f"Bearer {SECRET}"}
    assert [load.ask("PUT", f"box{number}") for number in range(4)] == [200] * 4
    assert kept.listed() == containers(engine, kept) == [*(f"box{number}" for number in range(4)), "one"]
    assert kept.egress("down").status == 0
    assert things(engine, kept) == []
