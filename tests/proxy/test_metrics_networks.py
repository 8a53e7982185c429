"""The metrics of a whole proxy, scraped from real networks: that of a sandbox, and another one.

The networks are the lab's own. A sandbox in one of them knows the token, and is refused all the same.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.attack.lab.network import Network, NoLabError, Process, Room
from tests.cli.command import command, environment, put
from tests.proxy.serve_process import until

pytestmark = pytest.mark.system("ip", "iproute2")

UNDER_CI = bool(os.environ.get("CI"))  # noqa: TID251 - as tests/conftest.py asks
TOKEN = "a-token-of-the-operator"
RULES = "version: 1\nhosts: {api.example.com: {}}\n"
PORT = 9464


@dataclass(frozen=True, slots=True)
class Scene:
    """A proxy with a wire to each of three networks."""

    sandbox: Room
    scraper: Room
    stranger: Room
    network: Network
    folder: Path


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    network = Network()
    try:
        network.__enter__()
    except NoLabError as error:
        if UNDER_CI:
            pytest.fail(f"no lab can be made here: {error}", pytrace=False)
        pytest.skip(f"no lab can be made here: {error}")
    try:
        network.begin({})
        sandbox, scraper, stranger = (network.room(name) for name in ("sandbox", "scraper", "stranger"))
        yield Scene(sandbox, scraper, stranger, network, tmp_path)
    finally:
        network.__exit__()


def gateway(room: Room) -> str:
    """The proxy's address on the wire to this room."""
    return f"{room.four.rpartition('.')[0]}.1"


@contextmanager
def serving(scene: Scene, *arguments: str) -> Iterator[None]:
    """The proxy, where all wires end. Only the sandbox is on the network of its listener."""
    folder = scene.folder
    put(folder / "hosts.yaml", RULES)
    put(folder / "token", TOKEN).chmod(0o600)
    said = folder / "said"
    words = ["--rules", "hosts.yaml", "--network", "--listen", f"{gateway(scene.sandbox)}:3128"]
    with said.open("wb") as out:
        process: Process = scene.network.internet.spawn(
            [str(word) for word in command(["serve", *words, *arguments])],
            cwd=folder,
            env=environment(folder, {"EGRESS_RUNTIME_DIR": str(folder / "run"), "EGRESS_LOG_FORMAT": "json"}),
            out=out.fileno(),
            err=out.fileno(),
        )
    try:
        until(lambda: process.poll() is not None or "proxy.ready" in said.read_text(), "the proxy")
        assert process.poll() is None, said.read_text()
        yield
    finally:
        process.signal(signal.SIGKILL)


def ask(room: Room, host: str, token: str = TOKEN, port: int = PORT) -> bytes:
    """Scrape from a room; nothing where not a byte came back."""
    head = f"GET /metrics HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n"
    with room.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.settimeout(20)
        sock.connect((host, port))
        try:
            sock.sendall(head.encode())
            return b"".join(iter(lambda: sock.recv(1 << 16), b""))
        except ConnectionError:
            return b""


def test_no_sandbox_reads_the_metrics_and_a_scraper_does(scene: Scene) -> None:
    with serving(scene, "--metrics", f"0.0.0.0:{PORT}", "--metrics-token-file", "token"):
        answer = ask(scene.scraper, gateway(scene.scraper))
        assert answer.startswith(b"HTTP/1.1 200"), "the good twin"
        assert b"egress_ready 1" in answer
        assert ask(scene.scraper, gateway(scene.scraper), "no-token-at-all").startswith(b"HTTP/1.1 401")
        for host in (gateway(scene.sandbox), gateway(scene.scraper), gateway(scene.stranger)):
            assert ask(scene.sandbox, host) == b"", f"the sandbox at {host}"
        assert b"proxy.form" in ask(scene.sandbox, gateway(scene.sandbox), port=3128), "it is that sandbox"


def test_machines_are_named_and_a_sandbox_cannot_be(scene: Scene) -> None:
    allowed = [f"{room.four}/32" for room in (scene.sandbox, scene.scraper)]
    words = [word for each in allowed for word in ("--metrics-allow", each)]
    with serving(scene, "--metrics", f"0.0.0.0:{PORT}", *words):
        assert ask(scene.scraper, gateway(scene.scraper), "").startswith(b"HTTP/1.1 200")
        assert ask(scene.stranger, gateway(scene.stranger)) == b""
        assert ask(scene.sandbox, gateway(scene.sandbox)) == b""


@pytest.mark.nightly
@pytest.mark.system("prometheus")
def test_a_real_prometheus_scrapes_it(scene: Scene) -> None:
    """The one of Debian, with the configuration of the guide."""
    folder = scene.folder
    config = {
        "scrape_configs": [
            {
                "job_name": "egress",
                "scrape_interval": "1s",
                "authorization": {"credentials_file": str(folder / "token")},
                "static_configs": [{"targets": [f"{gateway(scene.scraper)}:{PORT}"]}],
            }
        ]
    }
    put(folder / "prometheus.yml", json.dumps(config))
    with serving(scene, "--metrics", f"0.0.0.0:{PORT}", "--metrics-token-file", "token"):
        metrics = ask(scene.scraper, gateway(scene.scraper)).partition(b"\r\n\r\n")[2]
        promtool = ["promtool", "check", "metrics"]
        checked = subprocess.run(promtool, input=metrics, capture_output=True, check=False)
        assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")
        with (folder / "prometheus.log").open("wb") as out:
            process = scene.scraper.spawn(
                [
                    str(shutil.which("prometheus")),
                    f"--config.file={folder}/prometheus.yml",
                    f"--storage.tsdb.path={folder}/data",
                    f"--web.listen-address={scene.scraper.four}:9090",
                ],
                cwd=folder,
                env={"HOME": str(folder)},
                out=out.fileno(),
                err=out.fileno(),
            )
        try:
            until(lambda: b'"1"' in queried(scene, "egress_ready"), "a sample in Prometheus")
            assert b'"egress"' in queried(scene, "up")
        finally:
            process.signal(signal.SIGKILL)


def queried(scene: Scene, metric: str) -> bytes:
    with scene.scraper.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.settimeout(20)
        try:
            sock.connect((scene.scraper.four, 9090))
            sock.sendall(f"GET /api/v1/query?query={metric} HTTP/1.0\r\n\r\n".encode())
            return b"".join(iter(lambda: sock.recv(1 << 16), b""))
        except ConnectionError:
            return b""
