"""What a sandbox could reach if its wall had a hole: a machine of the internet, and this machine.

The internet is a container in the engine's usual network, which answers everything on some ports. Another
container there is the good twin: a plain one, as people run them. What it cannot reach either proves nothing.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

from docker import APIClient

from egress.runtime.docker import subnets
from tests.proxy.served import until

PROBE: Final = Path(__file__).with_name("probe.py").read_text(encoding="utf-8")
METADATA: Final = "169.254.169.254"

_SERVER: Final = """
import socket, threading
def serve(kind, port):
    sock = socket.socket(socket.AF_INET, kind)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("0.0.0.0", port))
    if kind == socket.SOCK_STREAM:
        sock.listen()
        while True:
            client, _ = sock.accept()
            client.sendall(b"here I am")
            client.close()
    while True:
        data, peer = sock.recvfrom(512)
        head = data[:2] + b"\\x81\\x80\\0\\1\\0\\1\\0\\0\\0\\0"
        dns = head + data[12:] + b"\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\1\\0\\4\\1\\2\\3\\4"
        sock.sendto(dns, peer)
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    for port in (53, 80, 443, 9999):
        threading.Thread(target=serve, args=(kind, port)).start()
print("ready", flush=True)
"""

Attempt = tuple[str | int, ...]


class Outside:
    """From `with` to its end."""

    def __init__(self, image: str) -> None:
        self._image = image
        self._api = APIClient(version="auto")
        self._parts = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as parts:
            parts.callback(self._api.close)
            self._machine = parts.enter_context(_Answering())
            self.port = self._machine.port
            self.internet = self._started(parts, _SERVER)
            self._parts = parts.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.close()

    @property
    def machine(self) -> list[str]:
        """Every address of this machine that others could dial."""
        found = [str(network.network_address) for network in subnets.of_machine()]
        return [address for address in found if not address.startswith("127.")]

    def twin(self, attempts: Iterable[Attempt]) -> Mapping[str, object]:
        """What a plain container reaches."""
        with ExitStack() as parts:
            made = self._container(parts, PROBE, *map(json.dumps, attempts))
            self._api.start(made)
            self._api.wait(made)
            found = json.loads(self._api.logs(made, stderr=False))
        assert isinstance(found, dict)
        return found

    def plain(self) -> str:
        """A plain container that waits, until the end of all this."""
        made = self._container(self._parts, "import signal; signal.pause()")
        self._api.start(made)
        return made

    def run(self, container: str, *words: str, user: str) -> str:
        """Have the engine run a command in a container, as whomever it likes."""
        command = self._api.exec_create(container, list(words), user=user)["Id"]
        out = self._api.exec_start(command)
        assert isinstance(out, bytes)
        return out.decode()

    def _started(self, parts: ExitStack, program: str) -> str:
        made = self._container(parts, program)
        self._api.start(made)
        until(lambda: self._api.logs(made), "the internet to be there")
        found = self._api.inspect_container(made)["NetworkSettings"]["Networks"]["bridge"]["IPAddress"]
        return str(found)

    def _container(self, parts: ExitStack, program: str, *arguments: str) -> str:
        config = {
            "Image": self._image,
            "Entrypoint": ["python3", "-c", program, *arguments],
            "HostConfig": {"NetworkMode": "bridge"},
        }
        made = str(self._api.create_container_from_config(config)["Id"])  # type: ignore[no-untyped-call]
        parts.callback(self._api.remove_container, made, force=True, v=True)
        return made


def lines(attempts: Iterable[Attempt]) -> bytes:
    """Attempts as the probe reads them."""
    return b"".join(json.dumps(attempt).encode() + b"\n" for attempt in attempts)


class _Answering:
    """This machine, listening on all of its addresses."""

    def __enter__(self) -> Self:
        self._sock = socket.create_server(("", 0))
        self.port = int(self._sock.getsockname()[1])
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._sock.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._sock.accept()
            except OSError:
                return
            with client:
                client.sendall(b"here I am")
