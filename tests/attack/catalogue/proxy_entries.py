"""The ways into a proxy that has them all, and the rules of such a one.

Five ways: CONNECT, a full URL, and for clients that know no proxy the name in TLS (SNI), the name in a
request (Host), and a question for a name (DNS). A refusal is an answer on each of them.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.attack.lab.client import Answer, request
from tests.attack.lab.lab import Lab
from tests.attack.lab.names import ADDRESSES, ANY, DOOR, EVIL, FRONT
from tests.attack.lab.proxies import Egress, Proxy
from tests.attack.lab.traffic_sniffer import Opened
from tests.unit.proxy.dns_messages import NOERROR, NXDOMAIN, A, query, told

PORTS: Final = (53, 80, 443, 8443)
"""Those that the transparent entries and the name server of such a proxy listen on, at `DOOR`."""
UNREAD: Final = f"unread.{ANY}"
"""Carried without being read (`intercept: never`); at the address of `FRONT`."""
BELOW_UNREAD: Final = f"unread.{ANY}"
BELOW_CLEAR: Final = f"clear.{ANY}"
"""Names right below these are carried unread, or spoken to in clear text."""
DEAD: Final = f"dead.{ANY}"
DEAD_PORT: Final = 8082
"""A host in clear text, on a port that nobody in the lab listens on."""

REASONS: Final = {
    EVIL: "host.unknown",
    f"below.{EVIL}": "host.unknown",
    f"closed.{EVIL}": "host.closed",
    f"late.{EVIL}": "host.closed",
    f"spent.{EVIL}": "host.closed",
    f"spare.{EVIL}": "profile.excluded",
    f"barred.{EVIL}": "rule.denied",
    f"ported.{EVIL}": "host.port",
    f"clear.{EVIL}": "host.port",
}
"""Hosts that may not be had on port 443, and why. None of them may even be asked for."""

OWN_NETWORK: Final = "45.88.0.0/16"
"""Public addresses that the operator has said to be the machine's own."""

_EXTRA: Final = f"""
  {UNREAD}: {{intercept: never}}
  "*.{BELOW_UNREAD}": {{intercept: never}}
  "*.{BELOW_CLEAR}": {{allow: all, ports: [], http: true}}
  {DEAD}: {{allow: all, ports: [], http: [{DEAD_PORT}]}}
  closed.{EVIL}: {{allow: []}}
  late.{EVIL}: {{allow: all, expires: "2020-01-31"}}
  spent.{EVIL}: {{allow: [{{id: old, paths: ["/**"], expires: "2020-01-31"}}]}}
  spare.{EVIL}: {{allow: all}}
  barred.{EVIL}: {{allow: all}}
  ported.{EVIL}: {{allow: all, ports: [8443]}}
  clear.{EVIL}: {{allow: all, ports: [], http: [8081]}}
deny:
  - {{id: barred, hosts: [barred.{EVIL}]}}
profiles:
  agent:
    hosts: [PROFILED]
"""


def rules(lab: Lab) -> str:
    """The usual rules, and hosts that are closed for each of the reasons there are; for `--profile agent`."""
    text = lab.rules() + _EXTRA
    keys = re.findall(r'^  ("?[*a-z0-9.-]+\.test"?):', text, re.MULTILINE)
    return text.replace("PROFILED", ", ".join(key for key in keys if not key.startswith("spare.")))


ARGUMENTS: Final = (
    *("--network", "--profile", "agent", "--own-address", OWN_NETWORK),
    *("--transparent", DOOR, "--dns", f"{DOOR}:53"),
)


# The ways in --------------------------------------------------------------------------------------


def by_connect(proxy: Proxy, host: str, port: int | str = 443, *extra: str) -> Answer:
    """Ask for a tunnel, and leave."""
    with proxy.connect(f"{host}:{port}", *extra) as line:
        return line.answer


def by_tunnel(proxy: Proxy, host: str, port: int = 443, *extra: str) -> Answer:
    """Ask for a tunnel, and for a page in TLS inside of it; a refused tunnel is an answer as well.

    So a denied host says why. `by_connect` is for what is refused before any TLS.
    """
    with proxy.connect(f"{host}:{port}", *extra) as line:
        if line.answer.status != 200:
            return line.answer
        if not line.to_tls(proxy.ca_pem, host, verify=False):
            return Answer()
        return line.send(request(host if port == 443 else f"{host}:{port}")).response()


def by_url(proxy: Proxy, host: str, target: str = "/echo") -> Answer:
    """Ask the proxy for a full URL in clear text."""
    return proxy.say(request(host, f"http://{host}{target}"))


def by_sni(proxy: Proxy, name: str, data: bytes = b"", port: int = 443) -> Answer:
    """Speak TLS to the name itself, as if there were no proxy; status 0 where nobody lets us in."""
    with proxy.dial((DOOR, port)) as line:
        if not line.to_tls(proxy.ca_pem, name, verify=False):
            return Answer()
        return line.send(data or request(name)).response()


def by_host(proxy: Proxy, host: str, target: str = "/echo", port: int = 80) -> Answer:
    """Speak clear HTTP to the name itself, as if there were no proxy."""
    with proxy.dial((DOOR, port)) as line:
        return line.send(request(host, target)).response()


def by_name(proxy: Proxy, name: str | bytes, kind: int = A) -> bytes:
    """Ask for a name; the whole reply."""
    return put_question(proxy, query(name, kind))


def put_question(proxy: Proxy, data: bytes, *, tcp: bool = False) -> bytes:
    """A message to the name server of the proxy; its reply."""
    with asking(proxy, tcp=tcp) as sock:
        sock.sendall(len(data).to_bytes(2) + data if tcp else data)
        return sock.recv(65535)


@contextmanager
def asking(proxy: Proxy, *, tcp: bool = False) -> Iterator[socket.socket]:
    """A socket to the name server of the proxy. To be kept until it has all answers: kernels complain."""
    with proxy.room.socket(socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) as sock:
        sock.settimeout(10)
        sock.bind(("127.0.0.1", 0))
        proxy.clients.setdefault(sock.getsockname(), set()).add((DOOR, 53))
        sock.connect((DOOR, 53))
        yield sock


def bytes_back(proxy: Proxy, data: bytes, port: int = 443) -> bytes:
    """All that comes back for the bytes of a client that knows no proxy, and says no more."""
    with proxy.dial((DOOR, port)) as line:
        return line.send(data).finish().everything()


# What came of it ----------------------------------------------------------------------------------


def expects_name(proxy: Proxy, reply: bytes, code: int, *addresses: str) -> None:
    """Hold Egress to this answer about a name; the naive proxy to none."""
    if isinstance(proxy, Egress):
        found = told(reply)
        assert (found.rcode, found.addresses) == (code, addresses), found


def expects_denied_name(proxy: Proxy, reply: bytes, name: str, kind: int = A) -> None:
    """Hold Egress to its answer about a denied name: the address of the page that says why.

    Names that programs ask for to find out that they do not exist do not.
    """
    labels = name.strip(".").lower().split(".")
    is_odd = len(labels) == 1 or name.startswith(("_", "wpad.")) or name == "use-application-dns.net"
    if is_odd or labels[-1] in ("arpa", "internal", "local"):
        expects_name(proxy, reply, NXDOMAIN)
    else:
        expects_name(proxy, reply, NOERROR, *([DOOR] if kind == A else []))


def let_out(lab: Lab, proxy: Proxy) -> Iterator[Opened]:
    """All that the proxy itself has dialled or sent since the case began, its name server included."""
    for opened in lab.opened(proxy):
        if opened.source not in proxy.clients and opened.target not in proxy.clients:
            yield opened


def lead_to_front(lab: Lab) -> None:
    """Let the host that is carried unread share its address with others, as at a CDN."""
    lab.dns.set(UNREAD, ADDRESSES[FRONT])
