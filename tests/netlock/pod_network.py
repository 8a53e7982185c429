"""A pod's network beside an outside one, to be locked; says as JSON what got through before and after.

Begun in network namespaces of its own. A veth pair joins them. In the pod's one runs something in the place
of the proxy and of a workload's server; in the outer one servers answer by their names.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from egress.cli.main import main
from egress.errors import EgressError
from egress.netlock.lock import lock_network

PROXY_USER, WORKLOAD_USER = 10001, 1000
OUTSIDE, OUTSIDE6 = "203.0.113.7", "fd00::7"
POD, POD6 = "10.9.0.2", "fd00::2"
SECONDS = 0.7


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def serve(kind: socket.SocketKind, host: str, port: int, word: bytes) -> None:
    """Answer whoever asks, in a thread."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, kind)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    if kind is socket.SOCK_STREAM:
        listener.listen()
    threading.Thread(target=_answer, args=(listener, kind, word), daemon=True).start()


def _answer(listener: socket.socket, kind: socket.SocketKind, word: bytes) -> None:
    kept = []
    while True:
        if kind is socket.SOCK_DGRAM:
            _, peer = listener.recvfrom(64)
            listener.sendto(word, peer)
        else:
            connection, _ = listener.accept()
            connection.sendall(word)
            kept.append(connection)


def ask(kind: socket.SocketKind, host: str, port: int) -> str:
    """The word of whoever answers, or the name of the error."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with closing(socket.socket(family, kind)) as sock:
        sock.settimeout(SECONDS)
        try:
            sock.connect((host, port))
            if kind is socket.SOCK_DGRAM:
                sock.send(b"?")
            return sock.recv(64).decode() or "end"
        except TimeoutError:
            return "silence"
        except OSError as error:
            return f"refused {error.errno}"


def by_user(user: int, work: Callable[[], object]) -> object:
    """What a function returns in a process of this user."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        os.write(into, json.dumps(work()).encode())
        os._exit(0)
    os.close(into)
    with os.fdopen(out, "rb") as said:
        found: object = json.loads(said.read() or b'"died"')
    os.waitpid(child, 0)
    return found


STREAM, DATAGRAM = socket.SOCK_STREAM, socket.SOCK_DGRAM
QUESTIONS: dict[str, tuple[socket.SocketKind, str, int]] = {
    "a port outside": (STREAM, OUTSIDE, 8443),
    "a datagram outside": (DATAGRAM, OUTSIDE, 8443),
    "IPv6 outside": (STREAM, OUTSIDE6, 8443),
    "HTTPS outside": (STREAM, OUTSIDE, 443),
    "HTTP outside": (STREAM, OUTSIDE, 80),
    "names outside": (DATAGRAM, OUTSIDE, 53),
    "names by TCP outside": (STREAM, OUTSIDE, 53),
    "HTTPS over IPv6 outside": (STREAM, OUTSIDE6, 443),
    "QUIC outside": (DATAGRAM, OUTSIDE, 443),
    "its own loopback": (STREAM, "127.0.0.1", 3128),
    "its own address": (STREAM, POD, 7000),
}


def all_answers() -> dict[str, str]:
    return {name: ask(*question) for name, question in QUESTIONS.items()}


def by_all() -> dict[str, object]:
    users = {"workload": WORKLOAD_USER, "proxy": PROXY_USER, "root": 0}
    return {name: by_user(user, all_answers) for name, user in users.items()}


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def network_of(process: int | str) -> Path:
    return Path(f"/proc/{process}/ns/net").readlink()


def outside() -> None:
    """The outer network: servers by their names; asks the pod's server when told to."""
    for kind in (STREAM, DATAGRAM):
        for port in (8443, 443, 80, 53):
            for host in (OUTSIDE, OUTSIDE6):
                serve(kind, host, port, b"outside")
    say("ready")
    for line in sys.stdin:
        host, wanted = line.split()
        say(ask(STREAM, host, int(wanted)))


def connect(peer: int) -> None:
    """Join both networks."""
    ip("link", "set", "lo", "up")
    ip("link", "add", "eth0", "type", "veth", "peer", "name", "out0", "netns", str(peer))
    ip("address", "add", f"{POD}/24", "dev", "eth0")
    ip("-6", "address", "add", f"{POD6}/64", "dev", "eth0", "nodad")
    ip("link", "set", "eth0", "up")
    enter = ["nsenter", f"--net=/proc/{peer}/ns/net", "ip"]
    for words in (
        ("link", "set", "lo", "up"),
        ("address", "add", "10.9.0.1/24", "dev", "out0"),
        ("address", "add", f"{OUTSIDE}/32", "dev", "lo"),
        ("-6", "address", "add", f"{OUTSIDE6}/64", "dev", "out0", "nodad"),
        ("link", "set", "out0", "up"),
    ):
        subprocess.run([*enter, *words], check=True)
    ip("route", "add", "default", "via", "10.9.0.1")
    ip("-6", "route", "add", "default", "via", OUTSIDE6)


@contextmanager
def inside() -> Iterator[None]:
    """Servers in the pod: one in the place of the proxy, and one of the workload."""
    child = os.fork()
    if child == 0:
        for port in (443, 80, 53, 3128):
            serve(STREAM, "127.0.0.1", port, b"proxy")
        serve(DATAGRAM, "127.0.0.1", 53, b"proxy")
        serve(STREAM, "0.0.0.0", 7000, b"workload")
        signal.pause()
    try:
        # An address of IPv6 takes a moment until it can be used.
        wait_until(lambda: ask(STREAM, OUTSIDE6, 8443) == "outside" and ask(STREAM, POD, 7000) == "workload")
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError("the two networks are not joined")
        time.sleep(0.02)


def experiment() -> dict[str, object]:
    """Join, ask, lock, and ask again."""
    words = ["unshare", "--net", sys.executable, "-m", "tests.netlock.pod_network", "outside"]
    # Its servers come after the addresses: it waits for a word.
    with subprocess.Popen(
        ["unshare", "--net", "sh", "-c", 'read -r go; exec "$@"', "sh", *words[2:]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as peer:
        if peer.stdin is None or peer.stdout is None:
            raise RuntimeError("no pipes")
        own = network_of("self")
        wait_until(lambda: network_of(peer.pid) != own)
        connect(peer.pid)
        print("go", file=peer.stdin, flush=True)
        peer.stdout.readline()
        with inside():
            found = locked(lambda host, port: told(peer, host, port))
        peer.stdin.close()
    return found


def told(peer: subprocess.Popen[str], host: str, port: int) -> str:
    """What somebody outside gets from a port of the pod."""
    if peer.stdin is None or peer.stdout is None:
        return ""
    print(host, port, file=peer.stdin, flush=True)
    return peer.stdout.readline().strip()


def locked(from_outside: Callable[[str, int], str]) -> dict[str, object]:
    found: dict[str, object] = {"before": by_all(), "from outside before": from_outside(POD, 7000)}
    early = socket.create_connection((OUTSIDE, 8443), timeout=SECONDS)
    early.recv(64)
    found["without the right"] = by_user(WORKLOAD_USER, _lock_error)
    found["still open"] = by_user(WORKLOAD_USER, lambda: ask(STREAM, OUTSIDE, 8443))
    found["status"] = main(["net-lock"])
    found["after"] = by_all()
    found["from outside after"] = from_outside(POD, 7000)
    with suppress(OSError):
        early.sendall(b"more")
    try:
        found["an early connection"] = early.recv(64).decode()
    except OSError as error:
        found["an early connection"] = type(error).__name__
    lock_network(WORKLOAD_USER)
    found["replaced"] = by_all()
    # A rule that decides before the lock: the proof has to notice.
    subprocess.run(
        ["nft", "add table inet early; add chain inet early out { type filter hook output priority -200; }"],
        check=True,
    )
    subprocess.run(["nft", "add rule inet early out ip daddr 192.0.2.1 drop"], check=True)
    found["another rule"] = _lock_error()
    return found


def _lock_error() -> str:
    try:
        lock_network(PROXY_USER)
    except EgressError as error:
        return error.message
    return ""


if __name__ == "__main__":
    if sys.argv[1:] == ["outside"]:
        outside()
    else:
        json.dump(experiment(), sys.stdout)
