"""The test's side of the broker: rooms, sockets and processes that live in the lab's own networks."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

BROKER = Path(__file__).with_name("broker.py")
INTERNET = "internet"
LONGEST = 1 << 20

Socket = socket.socket


class NoLabError(Exception):
    """This machine does not let the lab be made; says why."""


class Network:
    """The broker, while it lives. Safe to use from several threads."""

    def __init__(self) -> None:
        self.has_users = False
        """Whether there are users in the rooms beside root, which takes root outside."""
        self._lock = threading.Lock()
        self._rooms = 0

    def __enter__(self) -> Self:
        if shutil.which("ip") is None:
            raise NoLabError("`ip` is missing: install iproute2")
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        run = (
            f"import os, runpy; os.dup2({theirs.fileno()}, 3)\n"
            f"runpy.run_path({str(BROKER)!r}, run_name='__main__')"
        )
        with theirs:
            # -I and -S: it needs the standard library alone, and starts at once.
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", run],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        reply = json.loads(self._control.recv(LONGEST) or b'{"error": "the broker did not start"}')
        if wrong := reply.get("error"):
            self.__exit__()
            raise NoLabError(str(wrong))
        self.has_users = bool(reply["users"])
        return self

    def __exit__(self, *_: object) -> None:
        """Hang up, whereupon the broker ends what it started, and itself."""
        self._control.close()
        self._process.wait()

    def begin(self, files: Mapping[str, Path]) -> None:
        """Make the internet; `files` are ours to lie in the places of others."""
        self._ask("begin", files={place: str(path) for place, path in files.items()})

    def room(self, name: str) -> Room:
        """Make a room with a wire to the internet."""
        self._rooms += 1
        reply, _ = self._ask("room", name=name, number=self._rooms)
        return Room(self, name, str(reply["four"]), str(reply["six"]))

    @property
    def internet(self) -> Room:
        return Room(self, INTERNET, "", "")

    def read(self, path: str) -> bytes:
        """The beginning of a file, as root in the lab sees it; OSError where it cannot."""
        reply, _ = self._ask("read", path=path)
        return str(reply["text"]).encode("latin-1")

    def family(self, pid: int) -> list[int]:
        """A process of the lab, and all that it started and that still runs."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                # After the name, which may hold anything: state, parent, group, session.
                rest = (entry / "stat").read_text(encoding="latin-1").rpartition(")")[2].split()
                if int(rest[3]) == pid:
                    found.append(int(entry.name))
        return sorted(found)

    def _ask(
        self, what: str, given: Sequence[int] = (), **values: object
    ) -> tuple[dict[str, object], list[int]]:
        with self._lock:
            socket.send_fds(self._control, [json.dumps({"do": what, **values}).encode()], list(given))
            data, descriptors, _, _ = socket.recv_fds(self._control, LONGEST, 4)
        reply = json.loads(data or b'{"error": "the broker is gone"}')
        if wrong := reply.get("error"):
            raise OSError(f"{what}: {wrong}")
        return reply, descriptors


@dataclass(frozen=True, slots=True)
class Room:
    """One network, with its addresses on the wire to the internet."""

    network: Network
    name: str
    four: str
    six: str

    def socket(self, family: int, kind: int, protocol: int = 0, *, user: int = 0) -> Socket:
        """A socket of this room and of a user in it. Where it connects or binds to is the room's affair."""
        wanted = [family, kind, protocol]
        _, (descriptor,) = self.network._ask("socket", room=self.name, socket=wanted, user=user)
        return socket.socket(fileno=descriptor)

    def listen(self, host: str, port: int) -> Socket:
        """A listener; one on all addresses leaves room for others on single ones."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = self.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, host != "::")
        sock.bind((host, port))
        sock.listen(256)
        sock.setblocking(False)
        return sock

    def datagrams(self, host: str, port: int) -> Socket:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = self.socket(family, socket.SOCK_DGRAM)
        sock.bind((host, port))
        sock.setblocking(False)
        return sock

    def spawn(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], out: int, err: int) -> Process:
        """Start a process in this room, writing to two descriptors."""
        reply, _ = self.network._ask(
            "spawn", (out, err), room=self.name, argv=list(argv), cwd=str(cwd), env=dict(env)
        )
        return Process(self.network, int(str(reply["pid"])))


@dataclass(frozen=True, slots=True)
class Process:
    """A process in a room, by its id."""

    network: Network
    pid: int

    def poll(self) -> int | None:
        """Its exit status; None while it runs."""
        status = self.network._ask("poll", pid=self.pid)[0]["status"]
        return None if status is None else int(str(status))

    def signal(self, number: int) -> None:
        """Send a signal; SIGKILL ends all that it started, too."""
        self.network._ask("signal", pid=self.pid, number=int(number))
