"""A stand-in for a cluster: its API server in this process, whose pods run nothing but what a test plays.

Objects are kept as they come. A pod is ready at once, unless the test says how else its status looks. A
command is read from in front of its input, as `begin.sh` reads it, and answered by a few programs in Python.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Request

from egress.cluster.api_server import ClusterApi
from egress.cluster.stream_channels import CLOSE, ERROR, STDERR, STDIN, STDOUT
from tests.cluster.fake_api_server import AUTHORITY, TOKEN

type Json = dict[str, Any]

NAMESPACE: Final = "agents"
BASE: Final = f"/api/v1/namespaces/{NAMESPACE}"
CERTIFICATE: Final = AUTHORITY.cert_pem.bytes().decode()
READY: Final[Json] = {
    "phase": "Running",
    "containerStatuses": [{"name": "sandbox", "containerID": "containerd://1", "state": {"running": {}}}],
}


@dataclass(frozen=True)
class Played:
    """What a command does."""

    status: int = 0
    stdout: bytes = b""
    stderr: bytes = b""
    is_endless: bool = False
    """Whether it goes on until the connection ends."""


@dataclass
class CommandRequest:
    """A command as it came."""

    words: list[str]
    env: dict[str, str]
    data: bytes


type Program = Callable[[CommandRequest], Played]


def run_usual(asked: CommandRequest) -> Played:
    """The programs that tests of the runtime use."""
    match asked.words:
        case ["echo", *words]:
            return Played(stdout=" ".join(words).encode() + b"\n")
        case ["cat"]:
            return Played(stdout=asked.data)
        case ["env"]:
            return Played(stdout="".join(f"{key}={value}\n" for key, value in asked.env.items()).encode())
        case ["false"]:
            return Played(1)
        case ["sleep", *_]:
            return Played(is_endless=True)
        case ["/bin/sh", "-c", script, "sh", port] if "/proc/net/tcp" in script:
            return Played(0 if port == "1F40" else 44)
    return Played()


@dataclass
class FakeCluster:
    """The objects of one namespace."""

    pods: dict[str, Json] = field(default_factory=dict)
    services: dict[str, Json] = field(default_factory=dict)
    configmaps: dict[str, Json] = field(default_factory=dict)
    sandboxclaims: dict[str, Json] = field(default_factory=dict)
    pool: Json | None = None
    """The pod template of the one warm pool; without it the cluster knows no claims."""
    status: Json = field(default_factory=lambda: dict(READY))
    """Of every pod that is made."""
    program: Program = run_usual
    requests: list[str] = field(default_factory=list)
    commands: list[CommandRequest] = field(default_factory=list)
    refused: dict[str, tuple[int, Json]] = field(default_factory=dict)
    """Answers instead of the usual ones, by method and path."""
    uids: int = 0

    def __post_init__(self) -> None:
        self.services["egress-proxy"] = {"spec": {"clusterIP": "10.96.0.92"}}
        self.configmaps["egress-trust"] = {"data": {"ca.pem": CERTIFICATE, "bundle.pem": CERTIFICATE}}
        self.add_pod("gateway-0", {"labels": {"app": "egress-proxy"}}, {"containers": [{"image": "proxy:1"}]})

    def add_pod(self, name: str, metadata: Json, spec: Json) -> Json:
        self.uids += 1
        own = {"name": name, "uid": f"uid-{self.uids}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        self.pods[name] = {"metadata": {**metadata, **own}, "spec": spec, "status": dict(self.status)}
        return self.pods[name]

    def add_claim(self, name: str, metadata: Json, spec: Json) -> Json:
        """Answer a claim at once, from a pool that has members."""
        assert self.pool is not None
        self.uids += 1
        member = f"pool-{self.uids}"
        self.add_pod(member, self.pool["metadata"], self.pool["spec"])
        ready = {"type": "Ready", "status": "True"}
        self.sandboxclaims[name] = {
            "metadata": {**metadata, "uid": f"uid-{self.uids}"},
            "spec": spec,
            "status": {"sandbox": {"name": member}, "conditions": [ready]},
        }
        return self.sandboxclaims[name]

    @property
    def sandboxes(self) -> list[str]:
        return sorted(name for name in self.pods if name != "gateway-0")

    def answer(self, method: str, target: str, body: Json) -> tuple[int, Json]:
        url = urlsplit(target)
        self.requests.append(f"{method} {target}")
        if found := self.refused.get(f"{method} {url.path}"):
            return found
        kind, _, name = url.path.partition("/namespaces/agents/")[2].partition("/")
        objects: dict[str, Json] = getattr(self, kind)
        if kind == "sandboxclaims" and self.pool is None:
            return 404, {"reason": "NotFound"}
        if method == "POST":
            name = body["metadata"]["name"]
            if name in objects:
                return 409, {"reason": "AlreadyExists", "message": f'pods "{name}" already exists'}
            make = self.add_claim if kind == "sandboxclaims" else self.add_pod
            return 201, make(name, body["metadata"], body["spec"])
        if not name:
            selector = parse_qs(url.query)["labelSelector"][0]
            key, _, value = selector.partition("=")
            labelled = [(each["metadata"].get("labels", {}), each) for each in objects.values()]
            return 200, {
                "items": [each for labels, each in labelled if key in labels and value in ("", labels[key])]
            }
        if name not in objects:
            return 404, {"reason": "NotFound"}
        if method == "PATCH":
            annotate(objects[name], body["metadata"]["annotations"])
            return 200, objects[name]
        if method == "DELETE":
            # The cluster deletes what a claim owns.
            if body["preconditions"]["uid"] != objects[name]["metadata"]["uid"]:
                return 409, {"reason": "Conflict"}
            removed = objects.pop(name)
            self.pods.pop(removed.get("status", {}).get("sandbox", {}).get("name", ""), None)
            return 200, removed
        return 200, objects[name]


def annotate(value: Json, changes: Mapping[str, str | None]) -> None:
    """Change annotations as a merge patch does: what is null is removed."""
    notes = {**value["metadata"].get("annotations", {}), **changes}
    value["metadata"]["annotations"] = {key: text for key, text in notes.items() if text is not None}


@dataclass
class _Stream:
    """A WebSocket of one command or port."""

    sock: ssl.SSLSocket
    connection: WSConnection
    messages: list[bytes] = field(default_factory=list)
    part: bytes = b""

    def take(self) -> bytes | None:
        while not self.messages:
            data = self.sock.recv(65536)
            if not data:
                return None
            self.feed(data)
        return self.messages.pop(0)

    def feed(self, data: bytes) -> None:
        self.connection.receive_data(data)
        for event in self.connection.events():
            if isinstance(event, BytesMessage):
                self.part += event.data
                if event.message_finished:
                    self.messages.append(self.part)
                    self.part = b""

    def send(self, channel: int, data: bytes) -> None:
        if data:
            self.sock.sendall(self.connection.send(BytesMessage(bytes([channel]) + data)))


def _serve(cluster: FakeCluster, plain: socket.socket, context: ssl.SSLContext) -> None:
    with suppress(OSError), context.wrap_socket(plain, server_side=True) as sock:
        data = b""
        while b"\r\n\r\n" not in data:
            data += sock.recv(65536)
        head, _, rest = data.partition(b"\r\n\r\n")
        method, target, _ = head.decode().split(" ", 2)
        fields = dict(line.lower().split(": ", 1) for line in head.decode().split("\r\n")[1:])
        if fields.get("authorization") != f"Bearer {TOKEN}".lower():
            _send(sock, 401, {})
        elif "upgrade" in fields:
            _serve_stream(cluster, sock, data, target)
        else:
            while len(rest) < int(fields.get("content-length", "0")):
                rest += sock.recv(65536)
            _send(sock, *cluster.answer(method, target, json.loads(rest or b"{}")))


def _send(sock: ssl.SSLSocket, status: int, value: Json) -> None:
    body = json.dumps(value).encode()
    sock.sendall(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body))


def _serve_stream(cluster: FakeCluster, sock: ssl.SSLSocket, data: bytes, target: str) -> None:
    cluster.requests.append(f"GET {target}")
    url = urlsplit(target)
    if url.path.split("/")[-2] not in cluster.pods:
        _send(sock, 404, {"reason": "NotFound"})
        return
    connection = WSConnection(ConnectionType.SERVER)
    connection.receive_data(data)
    asked = next(event for event in connection.events() if isinstance(event, Request))
    sock.sendall(connection.send(AcceptConnection(subprotocol=asked.subprotocols[0])))
    stream = _Stream(sock, connection)
    if url.path.endswith("/portforward"):
        _echo(stream, int(parse_qs(url.query)["ports"][0]))
    else:
        _run(cluster, stream, parse_qs(url.query)["command"])


def _echo(stream: _Stream, port: int) -> None:
    for channel in (0, 1):
        stream.send(channel, port.to_bytes(2, "little"))
    while (message := stream.take()) is not None:
        stream.send(message[0], message[1:])


def _run(cluster: FakeCluster, stream: _Stream, begun: list[str]) -> None:
    if begun[1] == "-c":
        # The scripts of a claimed pod.
        asked = CommandRequest(begun, {}, _read_input(stream))
    elif begun[2] == "words":
        split = begun.index("--")
        asked = CommandRequest(begun[split + 1 :], dict(word.split("=", 1) for word in begun[3:split]), b"")
    else:
        asked = _read_preamble(stream)
    is_supervised = asked.words[1].endswith("/supervisor.sh") if len(asked.words) > 2 else False
    token = asked.words[3] if is_supervised and asked.words[2] == "run" else ""
    if is_supervised and asked.words[2] in ("run", "terminal"):
        asked.words = asked.words[7:]
    cluster.commands.append(asked)
    played = cluster.program(asked)
    stream.send(STDOUT, played.stdout)
    stream.send(STDERR, played.stderr)
    if played.is_endless:
        while stream.take() is not None:
            pass
        return
    if token and asked.env.pop("egress_report", ""):
        for channel in (STDOUT, STDERR):
            stream.send(channel, f"{token}: ended {played.status}\n".encode())
    failure = {"reason": "NonZeroExitCode", "details": {"causes": [_cause(played.status)]}}
    status = {"status": "Failure", **failure} if played.status else {"status": "Success"}
    stream.send(ERROR, json.dumps(status).encode())
    stream.sock.sendall(stream.connection.send(CloseConnection(code=1000)))


def _cause(status: int) -> Mapping[str, str]:
    return {"reason": "ExitCode", "message": str(status)}


def _read_input(stream: _Stream) -> bytes:
    data = b""
    while (message := stream.take()) is not None and message[0] != CLOSE:
        data += message[1:]
    return data


def _read_preamble(stream: _Stream) -> CommandRequest:
    data, is_closed = b"", False
    while not is_closed and (message := stream.take()) is not None:
        data += message[1:] if message[0] == STDIN else b""
        is_closed = message[0] == CLOSE or b"sleep\n" in data
    lines = data.split(b"\n")

    def texts() -> Iterator[str]:
        for _ in range(int(lines.pop(0))):
            count = int(lines.pop(0))
            yield b"\n".join(lines.pop(0) for _ in range(count)).decode()

    env = dict(text.split("=", 1) for text in texts())
    return CommandRequest(list(texts()), env, b"\n".join(lines))


@contextmanager
def served(cluster: FakeCluster) -> Iterator[ClusterApi]:
    """Serve on loopback, and give what a kubeconfig gives."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    AUTHORITY.issue_cert("127.0.0.1").configure_cert(context)
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with suppress(OSError):
            while True:
                plain, _ = listener.accept()
                threading.Thread(target=_serve, args=(cluster, plain, context), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        port = listener.getsockname()[1]
        yield ClusterApi("127.0.0.1", port, NAMESPACE, AUTHORITY.cert_pem.bytes(), TOKEN.encode())
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)
