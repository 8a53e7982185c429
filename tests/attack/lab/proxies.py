"""The two proxies that are attacked: Egress as people run it, and one that does all that it should not.

Both are processes in a room of their own, found by clients at the same address in it, and asked in the same
ways. What a proxy did is told by its room: nothing else is in there.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import socket
import ssl
import sys
import threading
import tty
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from tests.attack.lab.client import Answer, Line
from tests.attack.lab.naive import STAND_IN
from tests.attack.lab.names import Credentials, rules
from tests.attack.lab.network import Process, Room
from tests.attack.lab.traffic_sniffer import TrafficSniffer, Watch
from tests.cli.command import Outcome, command, egress, environment, put
from tests.proxy.serve_process import until

LISTEN: Final = ("127.0.0.1", 3128)


class Proxy(ABC):
    """A proxy under attack, and the sandbox before it."""

    name = ""
    patience = 0.0
    """How long to wait for a harm that should come. Where none may come, nobody waits."""

    def __init__(self, room: Room, watch: Watch, folder: Path) -> None:
        self.room = room
        self.wire = TrafficSniffer(room, watch)
        self.folder = folder
        self.lines: list[Line] = []
        """What the sandbox has opened since the case began."""
        self.clients: dict[tuple[str, int], set[tuple[str, int]]] = {}
        """Where every connection of the sandbox came from, and went to; kernels use ports again."""
        self.excused: set[tuple[str, int]] = set()
        """Places that cases were allowed to reach."""
        self.forgiven: set[str] = set()
        """Coats in which this case may get a secret to see: a known limit."""
        self.out: list[str] = []
        self.err: list[str] = []
        self.process: Process | None = None
        self.within: Sequence[str] = ()
        """Words in front of its own: a program that changes its surroundings, and becomes it."""
        self._readers: list[threading.Thread] = []

    # Its life

    @abstractmethod
    def argv(self) -> list[str]:
        """What is run."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether it has said that it serves."""

    @property
    @abstractmethod
    def ca_pem(self) -> bytes:
        """The certificate that the sandbox trusts."""

    def env(self) -> dict[str, str]:
        return environment(self.folder)

    def start(self) -> Self:
        """Start it, and wait until it serves."""
        self.begin()
        until(lambda: self.is_ready() or self.status() is not None, f"{self.name} to serve")
        if self.status() is not None:
            raise AssertionError(f"{self.name} did not start: {self.out} {self.err}")
        return self

    def begin(self) -> None:
        """Start it, and do not wait."""
        self.out.clear()
        self.err.clear()
        (out, out_end), (err, err_end) = self.output(), os.pipe()
        argv = [*self.within, *self.argv()]
        self.process = self.room.spawn(argv, cwd=self.folder, env=self.env(), out=out_end, err=err_end)
        for end in (out_end, err_end):
            os.close(end)
        self._readers = [
            threading.Thread(target=_collect, args=pair, daemon=True)
            for pair in ((out, self.out), (err, self.err))
        ]
        for reader in self._readers:
            reader.start()

    def output(self) -> tuple[int, int]:
        """The ends of its standard output: to read from, and to write to."""
        return os.pipe()

    def status(self) -> int | None:
        """How it ended; None while it runs."""
        return self.process.poll() if self.process else None

    def signal(self, number: signal.Signals) -> None:
        if self.process:
            self.process.signal(number)

    def ended(self) -> int:
        """Wait for its end and all that it has written, and return its status."""
        until(lambda: self.status() is not None, f"{self.name} to end")
        for reader in self._readers:
            reader.join()
        return self.status() or 0

    def kill(self) -> None:
        """End it without a warning."""
        if self.process:
            self.process.signal(signal.SIGKILL)
            for reader in self._readers:
                reader.join()
            self.process = None

    def close(self) -> None:
        self.hang_up()
        self.kill()
        self.wire.close()

    def hang_up(self) -> None:
        """End what the sandbox has open."""
        for line in self.lines:
            line.close()

    @property
    def said(self) -> str:
        """All that it has written to its standard streams."""
        return "\n".join([*self.out, *self.err])

    # The sandbox

    def dial(self, place: tuple[str, int] = LISTEN, *, user: int = 0) -> Line:
        """A connection to the proxy's port, or to another place of its room; by another user of it, too."""
        family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
        sock = self.room.socket(family, socket.SOCK_STREAM, user=user)
        try:
            sock.settimeout(10)
            sock.connect(place)
        except BaseException:
            sock.close()
            raise
        line = Line(sock, place)
        self.lines.append(line)
        self.clients.setdefault(_on_the_wire(line.local), set()).add(_on_the_wire(place))
        return line

    def connect(self, authority: str, *extra: str) -> Line:
        """Ask for a tunnel; how that was answered is in `.answer`."""
        line = self.dial()
        head = "\r\n".join([f"CONNECT {authority} HTTP/1.1", f"host: {authority}", *extra, "", ""])
        line.send(head.encode("latin-1"))
        line.answer = line.response("CONNECT")
        return line

    def tunnel(
        self,
        host: str,
        port: int = 443,
        *,
        sni: str | None = "",
        alpn: Sequence[str] = ("http/1.1",),
        context: ssl.SSLContext | None = None,
        verify: bool = True,
    ) -> Line:
        """A tunnel with TLS in it; where one of them was refused, reading gives nothing.

        `sni` is what TLS asks for: the host when left out, nothing for None.
        """
        line = self.connect(f"{host}:{port}")
        if line.answer.status == 200:
            line.to_tls(self.ca_pem, host if sni == "" else sni, alpn, verify=verify, context=context)
        return line

    def ask(
        self, host: str, data: bytes, port: int = 443, *, sni: str | None = "", verify: bool = True
    ) -> Answer:
        """Send these bytes through a tunnel to a host; the answer to them, or to what failed before."""
        with self.tunnel(host, port, sni=sni, verify=verify) as line:
            if line.answer.status != 200:
                return line.answer
            if line.failure:
                return Answer()
            return line.send(data).response(data.split(b" ", 1)[0].decode("latin-1"))

    def say(self, data: bytes) -> Answer:
        """Send these bytes to the proxy's own port; its answer."""
        with self.dial() as line:
            return line.send(data).response(data.split(b" ", 1)[0].decode("latin-1"))

    @abstractmethod
    def stand_in(self) -> str:
        """The placeholder that the sandbox holds for `STANDIN`."""

    # What only Egress is held to

    @abstractmethod
    def expects(self, answer: Answer, *wanted: tuple[int, str]) -> None:
        """Hold Egress to its documented answers, status and code. The naive proxy is held to nothing."""


class Egress(Proxy):
    """`egress serve` with the rules of the lab and its own defaults."""

    name = "egress"

    def __init__(
        self,
        room: Room,
        watch: Watch,
        folder: Path,
        upstream_ca: Path,
        credentials: Credentials,
        rules_text: str = "",
        arguments: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(room, watch, folder)
        secrets = folder / "secrets"
        credentials.write(secrets)
        self.rules = put(folder / "hosts.yaml", rules_text or rules(credentials, secrets))
        self.arguments = ["--rules", "hosts.yaml", "--upstream-ca", str(upstream_ca), *arguments]
        self._env = dict(env or {})
        self._ca = b""

    def argv(self) -> list[str]:
        return [str(word) for word in command(["serve", *self.arguments])]

    def output(self) -> tuple[int, int]:
        # A terminal, on which it says where it listens, and which changes nothing of what is written.
        reader, terminal = pty.openpty()
        tty.setraw(terminal)
        return reader, terminal

    def env(self) -> dict[str, str]:
        around = {"EGRESS_RUNTIME_DIR": str(self.runtime), "TERM": "dumb", **self._env}
        return environment(self.folder, around)

    @property
    def runtime(self) -> Path:
        return self.folder / "run"

    @property
    def state(self) -> Path:
        return self.folder / ".local/state/egress"

    def is_ready(self) -> bool:
        return any(line.startswith("  stop it with") for line in list(self.out))

    @property
    def ca_pem(self) -> bytes:
        if not self._ca:
            self._ca = self.egress("ca", "export").out.encode()
        return self._ca

    def egress(self, *arguments: str) -> Outcome:
        """Another command of the proxy's user."""
        return egress(*arguments, cwd=self.folder, env={"EGRESS_RUNTIME_DIR": str(self.runtime)})

    def write(self, rules_text: str) -> None:
        """Replace the rules the way editors do."""
        put(self.folder / "hosts.yaml.new", rules_text).replace(self.rules)

    def records(self, event: str = "") -> list[dict[str, object]]:
        """The lines of the audit log."""
        files = sorted((self.state / "audit").glob("*.jsonl"))
        text = "".join(file.read_text(encoding="utf-8") for file in files)
        # The last line may be under way, and a kill may have left the beginning of one.
        whole = (json.loads(line) for line in text.split("\n")[:-1] if not line.endswith("#"))
        return [line for line in whole if event in ("", line["event"])]

    def recorded(self, event: str, count: int = 1) -> list[dict[str, object]]:
        """Wait for so many records."""
        until(lambda: len(self.records(event)) >= count, f"{count} x {event} in the audit log")
        return self.records(event)

    def stand_in(self) -> str:
        return next(line.rpartition(" ")[2] for line in self.out if "placeholder for shapes: " in line)

    def expects(self, answer: Answer, *wanted: tuple[int, str]) -> None:
        if (answer.status, answer.code) not in wanted:
            raise AssertionError(f"expected one of {wanted}, got: {answer}")


class Naive(Proxy):
    """The twin that shows that an attack would be seen."""

    name = "naive"
    patience = 5.0

    def __init__(self, room: Room, watch: Watch, folder: Path, credentials: Credentials) -> None:
        super().__init__(room, watch, folder)
        values = {c.name: c.value.decode("latin-1") for c in credentials.all}
        config = {"folder": str(folder), "secrets": values}
        self._config = put(folder / "naive.json", json.dumps(config))
        self._token = values["api"]

    def argv(self) -> list[str]:
        return [sys.executable, "-m", "tests.attack.lab.naive", str(self._config)]

    def is_ready(self) -> bool:
        return "ready" in self.out

    @property
    def ca_pem(self) -> bytes:
        return (self.folder / "naive-ca.pem").read_bytes()

    def env(self) -> dict[str, str]:
        return {**super().env(), "API_TOKEN": self._token}

    def stand_in(self) -> str:
        return STAND_IN

    def write(self, rules_text: str) -> None:
        """Give it rules; without any it goes by the looks of a host."""
        put(self.folder / "hosts.yaml", rules_text)

    def expects(self, answer: Answer, *wanted: tuple[int, str]) -> None:
        pass


def _on_the_wire(place: tuple[str, int]) -> tuple[str, int]:
    """An IPv4 address that was dialled in the words of IPv6 is an IPv4 address."""
    return place[0].removeprefix("::ffff:"), place[1]


def _collect(descriptor: int, lines: list[str]) -> None:
    # The end of a terminal is an error.
    with os.fdopen(descriptor, encoding="utf-8", errors="replace") as stream, contextlib.suppress(OSError):
        for line in stream:
            # Each as it comes: others look meanwhile.
            lines += [line.rstrip("\n")]


@contextlib.contextmanager
def running[P: Proxy](proxy: P) -> Iterator[P]:
    """Run it for as long as that."""
    try:
        yield proxy.start()
    finally:
        proxy.close()
