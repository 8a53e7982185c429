"""The lab as a case sees it: the internet, the proxies, and what must not have happened.

`lab.api`, `lab.scoped`, `lab.evil` and their like are hosts: a case sets what they do, and sees what they
were sent. `lab.dns` says where names lead. What happened is asked by proxy, because each has a room of its
own: `lab.sent`, `lab.opened`, `lab.questions`, `lab.harms`.
"""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.attack.lab import harm, names
from tests.attack.lab.client import request
from tests.attack.lab.dns import NameServer, Question
from tests.attack.lab.harm import Finding
from tests.attack.lab.internet import Heeded, Http2Site, Internet, Site
from tests.attack.lab.names import Credentials
from tests.attack.lab.network import Network
from tests.attack.lab.proxies import Egress, Naive, Proxy, running
from tests.attack.lab.traffic_sniffer import Opened, Watch
from tests.cli.command import put
from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.http1 import Request
from tests.proxy.lab.websocket import serve_websocket

Place = tuple[str, int]


class Lab:
    """One internet, and as many proxies as are asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.secrets = Credentials()
        self.certs = Certificates()
        self._stack = ExitStack()
        self._numbers = itertools.count(1)
        self._marks: dict[str, _Mark] = {}
        self._first: dict[str, _Mark] = {}
        self.network = Network()
        self.watch = Watch()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.network)
            stack.enter_context(self.watch)
            self.network.begin(_files(self.folder))
            self.internet = stack.enter_context(Internet(self.network, self.certs))
            self._stack = stack.pop_all()
        self.upstream_ca = self.certs.write_ca(self.folder / "upstream-ca.pem")
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # Hosts

    @property
    def dns(self) -> NameServer:
        return self.internet.dns

    @property
    def api(self) -> Site:
        return self.internet.api

    @property
    def scoped(self) -> Site:
        return self.internet.scoped

    @property
    def other(self) -> Site:
        return self.internet.other

    @property
    def sockets(self) -> Site:
        return self.internet.sockets

    @property
    def evil(self) -> Site:
        return self.internet.evil

    @property
    def any(self) -> Site:
        return self.internet.any

    @property
    def h2(self) -> Http2Site:
        return self.internet.h2

    def site(self, name: str) -> Site:
        return self.internet.sites[name]

    # Proxies

    @contextmanager
    def egress(
        self,
        rules_text: str = "",
        *arguments: str,
        env: Mapping[str, str] | None = None,
        free: Sequence[int] = (),
    ) -> Iterator[Egress]:
        """An Egress of one's own, in a room of its own, for as long as that."""
        with running(self.make_egress(rules_text, *arguments, env=env, free=free)) as proxy:
            self.begin(proxy)
            yield proxy

    def make_egress(
        self,
        rules_text: str = "",
        *arguments: str,
        env: Mapping[str, str] | None = None,
        free: Sequence[int] = (),
    ) -> Egress:
        """One that is not started yet. `{secrets}` in the rules is the folder of the secrets' files.

        `free` are ports of the room on which nobody lives, so that it can listen there itself.
        """
        name, folder = self._place("egress")
        room = self.network.room(name)
        self.internet.inhabit(room, free)
        text = rules_text.replace("{secrets}", str(folder / "secrets"))
        return Egress(room, self.watch, folder, self.upstream_ca, self.secrets, text, arguments, env)

    def make_naive(self) -> Naive:
        name, folder = self._place("naive")
        room = self.network.room(name)
        self.internet.inhabit(room)
        return Naive(room, self.watch, folder, self.secrets)

    @contextmanager
    def naive(self) -> Iterator[Naive]:
        """A naive proxy of one's own."""
        with running(self.make_naive()) as proxy:
            self.begin(proxy)
            yield proxy

    def _place(self, kind: str) -> tuple[str, Path]:
        name = f"{kind}-{next(self._numbers)}"
        folder = self.folder / name
        folder.mkdir()
        return name, folder

    def rules(self) -> str:
        """The rules of the lab, to be changed and given to an Egress of one's own."""
        return names.rules(self.secrets, Path("{secrets}"))

    # The positive control

    def control(self, proxy: Proxy) -> None:
        """An allowed request works and is injected; AssertionError when the proxy does not even do that."""
        target = f"/small?control={secrets.token_hex(8)}"
        answer = proxy.ask(names.API, request(names.API, target))
        assert answer.status == 200, f"the control is answered {answer}"
        found = [each for each in self.api.requests if each.target == target]
        assert len(found) == 1, f"the control arrived {len(found)} times"
        wanted = f"Bearer {self.secrets.api.value.decode('latin-1')}"
        assert found[0].headers("authorization") == [wanted], "the control came without its credential"

    # What happened

    def begin(self, proxy: Proxy) -> None:
        """From here on, what this proxy does is looked at."""
        self.settle(proxy)
        proxy.hang_up()
        proxy.lines.clear()
        proxy.forgiven.clear()
        # Cases put handlers of their own there.
        self.sockets.handle("/ws", serve_websocket)
        mark = self._marks[proxy.room.name] = _Mark(
            len(proxy.wire.opened),
            set(proxy.wire.flows),
            len(self.dns.asked),
            {id(each) for each in self.internet.connections()},
            (len(proxy.out), len(proxy.err)),
        )
        self._first.setdefault(proxy.room.name, mark)

    def hold(self, proxy: Proxy, also: Sequence[Place] = ()) -> None:
        """Hold a proxy of one's own to the control, and to doing no harm; raises the first finding."""
        self.control(proxy)
        proxy.excused.update(also)
        for finding in self.at_the_end(proxy):
            raise finding

    def at_the_end(self, proxy: Proxy) -> list[Finding]:
        """What came too late for its case: all of the proxy's life, what it has written included."""
        self._marks[proxy.room.name] = self._first[proxy.room.name]
        written = harm.logged(self.written(proxy), self.secrets.all)
        return [*self.harms(proxy, tuple(proxy.excused)), *written]

    def settle(self, proxy: Proxy) -> None:
        """Let all that was sent come to where it goes."""
        proxy.wire.barrier()
        self.internet.settle()

    def opened(self, proxy: Proxy) -> list[Opened]:
        """Every connection that was tried in the proxy's room, and every datagram."""
        self.settle(proxy)
        return proxy.wire.opened[self._marks[proxy.room.name].opened :]

    def questions(self, proxy: Proxy) -> list[Question]:
        """What the name server was asked from the proxy's room."""
        self.settle(proxy)
        ours = (proxy.room.four, proxy.room.six)
        return [each for each in self.dns.asked[self._marks[proxy.room.name].asked :] if each.source in ours]

    def connections(self, proxy: Proxy, *hosts: str) -> list[Heeded]:
        """The connections that hosts (all of them, when none is named) got from the proxy's room."""
        ours, own = (proxy.room.four, proxy.room.six), f"canary in {proxy.room.name}"
        known = self._marks[proxy.room.name].connections
        return [
            each
            for each in self.internet.connections()
            if id(each) not in known
            and (each.peer[0] in ours or each.name == own)
            and (not hosts or each.name in hosts)
        ]

    def requests(self, proxy: Proxy, site: Site | Http2Site) -> list[Request]:
        """The requests that a host got from the proxy's room since the case began, in HTTP/2 as well."""
        self.settle(proxy)
        ours = {id(each) for each in self.connections(proxy, site.name)}
        numbers = {number for number, each in enumerate(site.connections) if id(each) in ours}
        return [each for each in site.heard_requests() if each.link in numbers]

    def sent(
        self, proxy: Proxy, site: Site | Http2Site, is_meant: Callable[[Request], bool] = lambda _: True
    ) -> list[Request]:
        """The same, of those that are meant. Waits for them only where they are bound to come."""
        return self.wait(proxy, lambda: [each for each in self.requests(proxy, site) if is_meant(each)])

    def wait[T](self, proxy: Proxy, look: Callable[[], T]) -> T:
        """Look until there is something, at a proxy that does harm; once, at one that must not."""
        end = time.monotonic() + proxy.patience
        while not (found := look()) and time.monotonic() < end:
            time.sleep(0.01)
        return found

    def heard(self, proxy: Proxy, *hosts: str) -> bytes:
        """All that hosts were sent from the proxy's room, TLS taken off."""
        self.settle(proxy)
        return b"".join(each.data for each in self.connections(proxy, *hosts))

    # What must not have happened

    def harms(self, proxy: Proxy, also: Sequence[Place] = ()) -> list[Finding]:
        """All that must not happen in any case; `also` are places that this one may reach."""
        proxy.excused.update(also)
        self.settle(proxy)
        mark, every = self._marks[proxy.room.name], self.secrets.all
        connections = self.connections(proxy)
        questions = [(each.name, each.source) for each in self.dns.asked[mark.asked :]]
        flows = (flow for flow in proxy.wire.carried() if (flow[0], flow[1]) not in mark.flows)
        requests = [each for site in self.internet.all_sites() for each in self.requests(proxy, site)]
        said = "\n".join([*proxy.out[mark.said[0] :], *proxy.err[mark.said[1] :]])
        return [
            *harm.reached(proxy, mark.opened, also),
            *harm.asked(proxy, questions),
            *harm.stolen(connections, every),
            *harm.mixed_up(requests, every),
            *harm.clear(flows, every),
            *harm.leaked((bytes(line.received) for line in proxy.lines), every, proxy.forgiven),
            *harm.logged([("what it printed", said.encode())], every),
        ]

    def written(self, proxy: Proxy) -> list[tuple[str, bytes]]:
        """All that a proxy shows of itself: its files (but for the secrets' own), environment, arguments."""
        found = [("what it printed", proxy.said.encode())]
        for path in sorted(proxy.folder.rglob("*")):
            if path.is_file() and "secrets" not in path.relative_to(proxy.folder).parts:
                # Files that are made with room for more hold mostly nothing.
                found += [(path.name, path.read_bytes().replace(bytes(64), b""))]
        for pid in self.network.family(proxy.process.pid) if proxy.process else ():
            for what in ("environ", "cmdline"):
                with suppress(OSError):
                    found.append((f"{what} of {pid}", self.network.read(f"/proc/{pid}/{what}")))
        return found


@dataclass(frozen=True, slots=True)
class _Mark:
    """Where a case began."""

    opened: int
    flows: set[tuple[Place, Place]]
    asked: int
    connections: set[int]
    said: tuple[int, int]


_RESOLVER = f"nameserver {names.NAME_SERVER}\nsearch corp.{names.EVIL}\n"
"""What is not found as it stands is asked for below another name, unless somebody takes care."""


def _files(folder: Path) -> dict[str, Path]:
    """What the resolver reads in the rooms."""
    return {
        "/etc/resolv.conf": put(folder / "resolv.conf", _RESOLVER),
        "/etc/hosts": put(folder / "hosts", "127.0.0.1 localhost\n::1 localhost\n"),
        "/etc/nsswitch.conf": put(folder / "nsswitch.conf", "hosts: files dns\n"),
    }
