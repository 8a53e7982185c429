"""Runs inside a container: tries ways out, all at once, and says of each how far it came.

It is given lines of JSON, or arguments of it, each a list: a name for the attempt, a kind, and what that kind
needs. It answers with one JSON object: by the name of the attempt, `reached` or the reason why not. Only the
standard library is there.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import struct
import sys
import threading
from collections.abc import Callable

ATTEMPT_TIMEOUT = 6.0
HELLO = b"is anybody there?"


def tcp(host: str, port: int) -> None:
    with socket.create_connection((host, port), ATTEMPT_TIMEOUT) as sock:
        sock.sendall(HELLO)
        heard(sock.recv(64))


def udp(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.settimeout(ATTEMPT_TIMEOUT)
        sock.connect((host, port))
        sock.send(HELLO)
        heard(sock.recv(64))


def say(host: str, port: int, words: str) -> str:
    """Send these words by TCP, and say what came back until it was closed; words stand for bytes."""
    with socket.create_connection((host, port), ATTEMPT_TIMEOUT) as sock:
        sock.settimeout(3 * ATTEMPT_TIMEOUT)
        sock.sendall(words.encode("latin-1"))
        answer = b""
        while piece := sock.recv(4096):
            answer += piece
    return answer.decode("latin-1") or "nothing"


def ping(host: str, how: int) -> None:
    """By the way that is open to everybody, or by raw sockets."""
    packet = bytearray(struct.pack("!BBHHH", 8, 0, 0, 7, 1) + HELLO + b"\0")
    total = sum(struct.unpack(f"!{len(packet) // 2}H", packet))
    total = (total & 0xFFFF) + (total >> 16)
    packet[2:4] = struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF)
    with socket.socket(socket.AF_INET, how, socket.IPPROTO_ICMP) as sock:
        sock.settimeout(ATTEMPT_TIMEOUT)
        sock.connect((host, 0))
        sock.send(packet)
        heard(sock.recv(256))


def sctp(host: str, port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132) as sock:
        sock.settimeout(ATTEMPT_TIMEOUT)
        sock.connect((host, port))


def name(host: str, server: str = "") -> None:
    """Ask for an address: of whom the system says, or of this name server, for any answer at all."""
    if not server:
        socket.getaddrinfo(host, 443)
        return
    asked(host, server)


def asked(host: str, server: str) -> bytes:
    """The answer of a name server that has an address for this name, and nothing else behind it."""
    labels = b"".join(bytes([len(part)]) + part.encode() for part in host.split("."))
    query = struct.pack("!6H", 4711, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(ATTEMPT_TIMEOUT)
        sock.connect((server, 53))
        sock.send(query)
        answer = sock.recv(512)
    if answer[3] & 0xF or not struct.unpack("!H", answer[6:8])[0]:
        raise OSError(errno.ENODATA, "no data")
    return answer


def resolve(host: str, server: str = "") -> str:
    """The address that the system has for a name, or this name server."""
    if not server:
        return str(socket.getaddrinfo(host, 443)[0][4][0])
    return socket.inet_ntoa(asked(host, server)[-4:])


def packets() -> None:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)).close()


def raw() -> None:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW).close()


def vsock() -> None:
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()


def take_address(host: str, device: str) -> None:
    """Give the interface another address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        address = struct.pack("!HH4s8x", socket.htons(socket.AF_INET), 0, socket.inet_aton(host))
        fcntl.ioctl(sock, 0x8916, struct.pack("16s16s", device.encode(), address))


def spoof(source: str, host: str, port: int) -> None:
    """Send from an address that belongs to somebody else; everybody may bind to one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.IPPROTO_IP, 15, 1)  # IP_FREEBIND
        sock.bind((source, 0))
        sock.sendto(HELLO, (host, port))


def become(user: int) -> None:
    os.setuid(user)


def enable_ipv6() -> None:
    with open("/proc/sys/net/ipv6/conf/all/disable_ipv6", "w", encoding="ascii") as file:  # noqa: PTH123
        file.write("0")


def open_ports(host: str) -> list[int]:
    """Every port of a host that takes connections."""
    found = []
    for port in range(1, 65536):
        with socket.socket() as sock:
            sock.settimeout(ATTEMPT_TIMEOUT)
            if not sock.connect_ex((host, port)):
                found.append(port)
    return found


def heard(answer: bytes) -> None:
    if not answer:
        raise ConnectionResetError(errno.ECONNRESET, "hung up")


_ALL: tuple[Callable[..., object], ...] = (
    *(tcp, udp, say, ping, sctp, name, resolve, packets, raw, vsock, take_address, spoof, become),
    *(enable_ipv6, open_ports),
)
ATTEMPT_KINDS: dict[str, Callable[..., object]] = {way.__name__: way for way in _ALL}


def attempt(found: dict[str, object], what: str, way: str, *values: str | int) -> None:
    try:
        found[what] = ATTEMPT_KINDS[way](*values) or "reached"
    except TimeoutError:
        found[what] = "no answer"
    except OSError as error:
        found[what] = errno.errorcode.get(error.errno or 0, type(error).__name__)


def main() -> None:
    found: dict[str, object] = {}
    # As arguments, where nobody can be given input.
    lines = sys.argv[1:] or [line for line in sys.stdin if line.strip()]
    threads = [threading.Thread(target=attempt, args=(found, *json.loads(line))) for line in lines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
