"""The process that owns the lab's namespaces, and hands out what belongs to them.

It runs as a script with nothing but the standard library, takes a socket as descriptor 3, and answers one
request in JSON at a time: a room, a socket in a room, a process in a room, a file as its root sees it. A
socket stays in the network it was made in, so whoever gets it needs no right and enters nothing.

Everything ends with it: it leaves when the other end of its socket closes, and the kernel ends its children
when it is gone. It must not know what is attacked here.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

Request = dict[str, object]
Reply = tuple[dict[str, object], list[int]]

LONGEST = 1 << 20
_SET_DEATH_SIGNAL = 1
_MS_BIND = 4096
_MS_REC_PRIVATE = 0x4000 | 0x40000

_libc = ctypes.CDLL(None, use_errno=True)


class Broker:
    """Rooms by name, and the processes in them."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._rooms: dict[str, int] = {}
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    def run(self) -> None:
        """Answer until nobody asks any more, then end what was started."""
        try:
            while True:
                data, descriptors, _, _ = socket.recv_fds(self._control, LONGEST, 8)
                if not data:
                    return
                self._answer(json.loads(data), descriptors)
        finally:
            for child in self._children.values():
                _end(child)

    def _answer(self, request: Request, descriptors: list[int]) -> None:
        calls: dict[object, Callable[[Request, list[int]], Reply]] = {
            "begin": self._begin,
            "room": self._room,
            "socket": self._socket,
            "spawn": self._spawn,
            "poll": self._poll,
            "signal": self._signal,
            "read": self._read,
        }
        try:
            reply, given = calls[request["do"]](request, descriptors)
        except (OSError, subprocess.SubprocessError) as error:
            reply, given = {"error": f"{type(error).__name__}: {error}"}, []
        socket.send_fds(self._control, [json.dumps(reply).encode()], given)
        for descriptor in (*descriptors, *given):
            os.close(descriptor)

    # Rooms

    def _begin(self, request: Request, _: list[int]) -> Reply:
        """Put our own files where the resolver looks, and make the first room: the internet."""
        _mount(None, "/", _MS_REC_PRIVATE)
        for place, text in cast("dict[str, str]", request["files"]).items():
            if (path := Path(place)).exists():
                _mount(text, str(path.resolve()), _MS_BIND)
        self._rooms["internet"] = _new_network()
        with self._inside("internet"):
            _let_everybody_bind()
            _ip(
                "link set lo up\n"
                # In the main table: what is connected is more specific, and goes its way.
                "route add local 0.0.0.0/0 dev lo table main\n"
                "route add local ::/0 dev lo table main\n"
            )
        return {}, []

    def _room(self, request: Request, _: list[int]) -> Reply:
        """Make a room that is joined to the internet by a wire of its own, and by nothing else."""
        name, number = str(request["name"]), cast("int", request["number"])
        four, six = f"45.77.{number}", f"2a01:4f8:77:{number:x}:"
        room = self._rooms[name] = _new_network()
        with self._inside("internet"):
            _ip(
                f"link add room{number} type veth peer name wan netns /proc/self/fd/{room}\n"
                f"addr add {four}.1/24 dev room{number}\n"
                f"addr add {six}:1/64 dev room{number} nodad\n"
                f"link set room{number} up\n",
                room,
            )
        with self._inside(name):
            _let_everybody_bind()
            _ip(
                "link set lo up\n"
                f"addr add {four}.2/24 dev wan\n"
                f"addr add {six}:2/64 dev wan nodad\n"
                "link set wan up\n"
                f"route add default via {four}.1\n"
                f"route add default via {six}:1\n"
            )
        return {"four": f"{four}.2", "six": f"{six}:2"}, []

    def _socket(self, request: Request, _: list[int]) -> Reply:
        family, kind, protocol = cast("list[int]", request["socket"])
        with self._inside(str(request["room"])):
            # A socket belongs to whoever made it.
            os.seteuid(cast("int", request["user"]))
            try:
                return {}, [socket.socket(family, kind, protocol).detach()]
            finally:
                os.seteuid(0)

    @contextmanager
    def _inside(self, name: str) -> Iterator[None]:
        os.setns(self._rooms[name], os.CLONE_NEWNET)
        yield

    # Processes

    def _spawn(self, request: Request, streams: list[int]) -> Reply:
        """Start a process in a room; its output goes to the two descriptors that came along."""
        with self._inside(str(request["room"])):
            child = subprocess.Popen(
                cast("list[str]", request["argv"]),
                cwd=str(request["cwd"]),
                env=cast("dict[str, str]", request["env"]),
                stdin=subprocess.DEVNULL,
                stdout=streams[0],
                stderr=streams[1],
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - one thread lives here, so nothing can hold a lock
                start_new_session=True,
            )
        self._children[child.pid] = child
        return {"pid": child.pid}, []

    def _poll(self, request: Request, _: list[int]) -> Reply:
        return {"status": self._child(request).poll()}, []

    def _signal(self, request: Request, _: list[int]) -> Reply:
        child, number = self._child(request), cast("int", request["number"])
        if number == signal.SIGKILL:
            _end(child)
        else:
            child.send_signal(number)
        return {}, []

    def _child(self, request: Request) -> subprocess.Popen[bytes]:
        return self._children[cast("int", request["pid"])]

    def _read(self, request: Request, _: list[int]) -> Reply:
        """The beginning of a file, as the root of these namespaces sees it."""
        with Path(str(request["path"])).open("rb") as file:
            return {"text": file.read(LONGEST // 4).decode("latin-1")}, []


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a process with all that it started; it leads a group of its own."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _end_with_parent() -> None:
    _libc.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def _new_network() -> int:
    os.unshare(os.CLONE_NEWNET)
    return os.open("/proc/self/ns/net", os.O_RDONLY)


def _mount(source: str | None, target: str, flags: int) -> None:
    at = source.encode() if source else None
    if _libc.mount(at, target.encode(), None, flags, None):
        number = ctypes.get_errno()
        raise OSError(number, f"mount on {target}: {os.strerror(number)}")


def _let_everybody_bind() -> None:
    Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").write_text("0", encoding="ascii")


def _ip(batch: str, *descriptors: int) -> None:
    done = subprocess.run(
        ["ip", "-batch", "-"],
        input=batch.encode(),
        capture_output=True,
        check=False,
        pass_fds=descriptors,
    )
    if done.returncode:
        raise OSError(f"ip: {done.stderr.decode('utf-8', 'replace').strip()}")


def _enter() -> dict[str, object]:
    """Leave the namespaces of whoever started us; `error` says what is wrong when that is not allowed."""
    user, group = os.geteuid(), os.getegid()
    told, tell = os.pipe()
    # The map of many users can only be written from outside.
    outside = _map_from_outside(told, os.getpid()) if user == 0 else 0
    try:
        os.unshare(os.CLONE_NEWUSER | os.CLONE_NEWNS)
    except OSError as error:
        wrong = _enter_as_root(user, f"this kernel lets nobody make a user namespace: {error}")
        return {"error": wrong} if wrong else {"users": True}
    finally:
        os.close(tell)
        if outside:
            os.waitpid(outside, 0)
    if not outside:
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1", encoding="ascii")
    return {"users": Path("/proc/self/uid_map").read_text(encoding="ascii").split()[2] != "1"}


def _map_from_outside(told: int, pid: int) -> int:
    """Leave a process behind that maps all users it can, once `told` is closed."""
    if child := os.fork():
        return child
    with suppress(OSError):
        for fd in range(3, 64):
            if fd != told:
                with suppress(OSError):
                    os.close(fd)
        os.read(told, 1)
        for kind in ("gid_map", "uid_map"):
            try:
                Path(f"/proc/{pid}/{kind}").write_text("0 0 65536", encoding="ascii")
            except OSError:
                Path(f"/proc/{pid}/{kind}").write_text("0 0 1", encoding="ascii")
    os._exit(0)


def _enter_as_root(user: int, wrong: str) -> str:
    if user:
        return wrong
    try:
        os.unshare(os.CLONE_NEWNS)
    except OSError as error:
        return f"{wrong}; and root may not make a mount namespace: {error}"
    return ""


def main() -> None:
    """Enter the namespaces, say so, and serve."""
    control = socket.socket(fileno=3)
    entered = _enter()
    control.send(json.dumps(entered).encode())
    if "error" not in entered:
        Broker(control).run()


if __name__ == "__main__":
    main()
