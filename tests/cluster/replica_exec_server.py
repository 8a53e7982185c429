"""A stand-in for an API server whose pods are the replicas of a gateway on this machine.

It lists them, gives the Secret of their authority, and runs a command "in" one of them: as a process with the
folder and the variables of that replica, over the WebSocket that a real API server speaks.
"""

from __future__ import annotations

import base64
import json
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

from wsproto.events import Request

from egress.cluster import stream_channels as channels
from tests.cli.command import command, environment
from tests.cluster.fake_api_server import AUTHORITY, TOKEN, Json, whole
from tests.cluster.fake_stream_server import StreamPeer
from tests.cluster.replicated_gateway import NAMES, ReplicatedGateway

_SUCCESS: Final = {"metadata": {}, "status": "Success"}


class ReplicaExecServer:
    """The server, and the commands that it was asked to run."""

    def __init__(self, gateway: ReplicatedGateway) -> None:
        self.gateway = gateway
        self.commands: list[tuple[str, ...]] = []
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        AUTHORITY.issue_cert("127.0.0.1").configure_cert(self._context)

    @contextmanager
    def serving(self) -> Iterator[int]:
        """Serve on loopback, and give the port."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=self._accept, args=(listener,))
            thread.start()
            try:
                yield listener.getsockname()[1]
            finally:
                listener.shutdown(socket.SHUT_RDWR)
                thread.join()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                plain, _ = listener.accept()
                with suppress(OSError), self._context.wrap_socket(plain, server_side=True) as sock:
                    self._answer(sock)

    def _answer(self, sock: ssl.SSLSocket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += sock.recv(65536)
        url = urlsplit(head.split(b" ")[1].decode())
        if f"Bearer {TOKEN}".encode() not in head:
            sock.sendall(whole(401, {}))
        elif url.path.endswith("/exec"):
            self._run(sock, head, url.path.split("/")[-2], tuple(parse_qs(url.query)["command"]))
        elif url.path.endswith("/pods"):
            pods: list[Json] = [
                {"metadata": {"name": name}, "status": {"phase": "Running"}} for name in NAMES
            ]
            sock.sendall(whole(200, {"metadata": {}, "items": pods}))
        else:
            key = base64.b64encode(self.gateway.key.read_bytes()).decode()
            names = {"name": "egress-authority", "namespace": "agents", "uid": "u", "resourceVersion": "1"}
            sock.sendall(whole(200, {"metadata": names, "data": {"audit.key": key}}))

    def _run(self, sock: ssl.SSLSocket, head: bytes, pod: str, words: tuple[str, ...]) -> None:
        peer = StreamPeer(sock)
        peer.connection.receive_data(head)
        peer.request = next(each for each in peer.connection.events() if isinstance(each, Request))
        peer.accept()
        self.commands.append((pod, *words))
        data = b""
        while (message := peer.take()) and message != bytes([channels.CLOSE, channels.STDIN]):
            data += message[1:]
        served = self.gateway.replicas[NAMES.index(pod)]
        done = subprocess.run(
            command(list(words[1:])),
            cwd=served.folder,
            env=environment(served.folder, served.env),
            input=data,
            capture_output=True,
            check=False,
        )
        for channel, output in ((channels.STDOUT, done.stdout), (channels.STDERR, done.stderr)):
            for start in range(0, len(output), channels.PIECE_BYTES):
                peer.send(bytes([channel]) + output[start : start + channels.PIECE_BYTES])
        peer.send(bytes([channels.ERROR]) + json.dumps(_SUCCESS).encode())
        peer.close()


def write_kubeconfig(path: Path, port: int) -> None:
    """Write the kubeconfig of a person who may read this cluster."""
    authority = base64.b64encode(AUTHORITY.cert_pem.bytes()).decode()
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": authority}
    value = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "clusters": [{"name": "home", "cluster": cluster}],
        "users": [{"name": "me", "user": {"token": TOKEN}}],
        "contexts": [{"name": "one", "context": {"cluster": "home", "user": "me"}}],
    }
    path.write_text(json.dumps(value))
