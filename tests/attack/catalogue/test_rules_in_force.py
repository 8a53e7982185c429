"""The rules in force: what happens to them while everything runs, and what happens then to what is open.

Rules that cannot be used open nothing. What was allowed and is so no more ends, in whatever state it is: held
open by a stream, by half of a request, or by a secret that does not come.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

import pytest

from tests.attack.lab.added_sandbox import boxes, control
from tests.attack.lab.cases import case
from tests.attack.lab.client import PATIENCE, Answer, Line, request
from tests.attack.lab.commands import run_in
from tests.attack.lab.harm import Finding, Harm, must_be_none
from tests.attack.lab.http2 import Http2, head
from tests.attack.lab.lab import Lab
from tests.attack.lab.names import ANY, API, EVIL, HTTP2, OTHER, SCOPED, SOCKETS
from tests.attack.lab.proxies import LISTEN, Egress, Naive, Proxy
from tests.attack.lab.websocket import ask_for_websocket
from tests.cli.command import put
from tests.proxy.lab.channel import End
from tests.proxy.lab.frames import Stream
from tests.proxy.lab.http1 import Request
from tests.proxy.lab.http2 import Call
from tests.proxy.lab.raw_upstream import Say, Stall
from tests.proxy.lab.websocket import serve_websocket
from tests.proxy.serve_process import until

pytestmark = pytest.mark.system("ip", "iproute2")

BLIND = f"blind.{ANY}"
"""Carried without being read."""
SLOW = f"slow.{ANY}"
"""Its secret comes late, where a case has rules for that."""


def rules(lab: Lab) -> str:
    """The usual ones, with a host more."""
    return lab.rules() + f"  {BLIND}: {{intercept: never}}\n"


@pytest.fixture(scope="module")
def egress(lab: Lab) -> Iterator[Egress]:
    """One whose rules are changed by every case, and put back."""
    with lab.egress(rules(lab), "--handover") as proxy:
        yield proxy
        found = lab.at_the_end(proxy)
    must_be_none(found)


# Changing rules ---------------------------------------------------------------------------------


class Rules:
    """The rules of a proxy, for as long as a case changes them."""

    def __init__(self, proxy: Proxy, text: str) -> None:
        self._proxy = proxy
        self.usual = text

    def __enter__(self) -> Self:
        self.put(self.usual)
        return self

    def __exit__(self, *_: object) -> None:
        path = self._proxy.folder / "hosts.yaml"
        if isinstance(self._proxy, Egress):
            assert self.put(self.usual)[0] == 200
        elif path.exists():
            path.unlink()

    def put(self, text: str) -> tuple[int, dict[str, object]]:
        """Replace them the way editors do, and have them read."""
        assert isinstance(self._proxy, Egress | Naive)
        self._proxy.write(text.replace("{secrets}", str(self._proxy.folder / "secrets")))
        return self.read()

    def read(self) -> tuple[int, dict[str, object]]:
        """Have them read: what came of it."""
        return control(self._proxy, "POST", "/reload") if isinstance(self._proxy, Egress) else (200, {})

    def without(self, *hosts: str) -> str:
        """The usual ones without these hosts, whose secrets they keep."""
        kept, is_kept = [], True
        for line in self.usual.splitlines(keepends=True):
            if not line.startswith("    "):
                is_kept = not line.startswith(tuple(f"  {host}:" for host in hosts))
            kept += [line] if is_kept else []
        return "".join(kept)

    def having(self, entries: Mapping[str, str]) -> str:
        """The usual ones with other entries for these hosts."""
        return self.without(*entries) + "".join(f"  {host}: {entry}\n" for host, entry in entries.items())


def changing(lab: Lab, proxy: Proxy) -> Rules:
    return Rules(proxy, rules(lab).replace("{secrets}", str(proxy.folder / "secrets")))


# Rules that are none ------------------------------------------------------------------------------

MISTAKES: Mapping[str, str] = {
    "nothing": "",
    "a comment": "# version: 1\n",
    "broken YAML": "{",
    "cut short": f"version: 1\nhosts:\n  {API}: {{allow: [{{id: re",
    "an empty list of hosts": "version: 1\nhosts: {}\n",
    "an empty list of rules": "rules: []\n",
    "no hosts": "version: 1\n",
    "hosts that are nothing": "version: 1\nhosts:\n",
    "a typo at the top": f"version: 1\nhots: {{{API}: {{}}}}\n",
    "a typo of a host": f"version: 1\nhosts:\n  {API}: {{alow: []}}\n",
    "a typo of a rule": f"version: 1\nhosts:\n  {API}: {{allow: [{{id: a, path: [/x]}}]}}\n",
    "the same host twice": f"version: 1\nhosts:\n  {API}: {{}}\n  {API}: {{allow: []}}\n",
    "the same host in another spelling": f"version: 1\nhosts:\n  {API}: {{}}\n  {API.upper()}.: {{}}\n",
    "a star for everybody": "version: 1\nhosts:\n  '*': {}\n",
    "a star for a whole domain": "version: 1\nhosts:\n  '**.test': {}\n  '**': {}\n",
    "a pattern of the wrong kind": f"version: 1\nhosts:\n  '{API}|{EVIL}': {{}}\n",
    "another version": f"version: 2\nhosts:\n  {EVIL}: {{}}\n",
    "two documents": f"version: 1\nhosts:\n  {EVIL}: {{}}\n---\nversion: 1\nhosts:\n  {EVIL}: {{}}\n",
    "an alias": f"version: 1\nhosts:\n  {EVIL}: &a {{}}\n  {API}: *a\n",
    "aliases without end": "a: &a [x]\nb: &b [*a, *a]\nversion: 1\n",
    "a tag": f"version: 1\nhosts: !!python/object:os.system {{{EVIL}: {{}}}}\n",
    "a merge": f"version: 1\nhosts:\n  {API}: {{<<: {{allow: all}}}}\n",
    "deeper than anybody reads": "version: 1\nhosts: " + "[" * 100_000,
    "deeper than anybody reads, in blocks": "\n".join(" " * n + "- a:" for n in range(3000)),
    "one very long line": "version: 1\nhosts: {" + "a" * 1_000_000,
    "text that turns around": f"version: 1\nhosts:\n  {API}: {{}} # \u202e\n  {EVIL}: {{}}\n",
    "a secret for everybody": "version: 1\nsecrets: {a: {from: 'env:A', hosts: ['**']}}\nhosts: {}\n",
    "an unknown preset": "version: 1\nuse: [everything]\n",
    "a folder of includes": "version: 1\ninclude: [/etc/passwd]\n",
}

Replace = Callable[[Path], object]
OTHER_THINGS: Mapping[str, Replace] = {
    "no file": lambda path: None,
    "a folder": lambda path: path.mkdir(),
    "a pipe": os.mkfifo,
    "a socket": lambda path: _bind(path),  # noqa: PLW0108 - it stands below
    "a device without end": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "more than anybody writes": lambda path: _hole(path, 1 << 30),
    "bytes": lambda path: path.write_bytes(b"\x00\x01\x02" * 100),
    "UTF-16": lambda path: path.write_text(f"version: 1\nhosts:\n  {EVIL}: {{}}\n", "utf-16"),
    "half a character": lambda path: path.write_bytes(b"version: 1\nhosts: {} # \xe2\x82"),
}


def _bind(path: Path) -> None:
    # By its name alone: those of sockets may not be long.
    with socket.socket(socket.AF_UNIX) as sock, contextlib.chdir(path.parent):
        sock.bind(path.name)


def _hole(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


@case("S-30 S-31 S-32", "rules that are none", Harm.SENT)
def test_rules_that_are_none(lab: Lab, proxy: Proxy) -> None:
    """The last good ones stay, each time; the mistake is recorded; and good ones are taken again."""
    with changing(lab, proxy) as changed:
        before = _in_force(proxy)
        known = _refusals(proxy)
        for what, text in MISTAKES.items():
            status, told = changed.put(text)
            _stay_in_force(lab, proxy, what, status, told)
        for what, replace in OTHER_THINGS.items():
            path = proxy.folder / "hosts.yaml"
            path.unlink(missing_ok=True)
            replace(path)
            status, told = changed.read()
            _stay_in_force(lab, proxy, what, status, told)
            path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
        assert isinstance(proxy, Egress)
        # A file that is saved is read by itself, too.
        assert _refusals(proxy) - known >= len(MISTAKES) + len(OTHER_THINGS)
        assert _in_force(proxy) == before
        assert changed.put(changed.usual + f"  new.{EVIL}: {{allow: []}}\n")[0] == 200
        assert _in_force(proxy) != before


def _stay_in_force(lab: Lab, proxy: Proxy, what: str, status: int, told: dict[str, object]) -> None:
    if isinstance(proxy, Egress):
        assert (status, told["result"]) == (409, "refused"), what
        assert told["problems"], what
    proxy.expects(proxy.ask(EVIL, request(EVIL)), (403, "host.unknown"))
    answer = proxy.ask(SCOPED, request(SCOPED, "/repos/acme/app", method="DELETE"))
    proxy.expects(answer, (403, "rule.none"))
    if lab.sent(proxy, lab.evil) or lab.sent(proxy, lab.scoped):
        raise Finding(Harm.SENT, f"with {what} for rules everything is open")


def _in_force(proxy: Proxy) -> object:
    if not isinstance(proxy, Egress):
        return None
    found = control(proxy, "GET", "/status")[1]["rules"]
    assert isinstance(found, dict)
    return found["in_force"]


def _refusals(proxy: Proxy) -> int:
    return len(proxy.records("reload.refused")) if isinstance(proxy, Egress) else 0


# What is open when they change ------------------------------------------------------------------


class Held:
    """Connections in the middle of something that goes on for ever, one of each kind."""

    def __init__(self, lab: Lab, proxy: Proxy) -> None:
        self._proxy = proxy
        lab.api.script("/holds", Say(b"HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\ndata: 1\n\n"), Stall())
        lab.api.script("/says-nothing", Stall())
        lab.h2.handle("/holds", _holds)
        # What a case before this one has left there.
        lab.sockets.handle("/ws", serve_websocket)
        self.lines = {
            "a stream of events": self._asking(API, "/holds", 200),
            "an answer that does not come": self._asking(API, "/says-nothing", 0),
            "a WebSocket": self._websocket(),
            "an upload": self._upload(),
            "a tunnel": self._tunnel(),
        }
        if isinstance(proxy, Egress):
            # The other one waits for the whole of an answer.
            self._http2, self._stream = self._over_http2()
            self.lines["a stream of HTTP/2"] = self._http2.line
        lab.wait(proxy, lambda: len(lab.requests(proxy, lab.api)) > 1)

    def _asking(self, host: str, target: str, status: int) -> Line:
        line = self._proxy.tunnel(host)
        line.send(request(host, target))
        if status:
            assert line.head().status == status
        return line

    def _websocket(self) -> Line:
        line = self._proxy.tunnel(SOCKETS)
        assert ask_for_websocket(line, SOCKETS).status == 101
        return line

    def _upload(self) -> Line:
        line = self._proxy.tunnel(OTHER)
        return line.send(request(OTHER, "/sink", "content-length: 9999", method="POST") + b"the beginning")

    def _tunnel(self) -> Line:
        line = self._proxy.connect(f"{BLIND}:443")
        assert line.to_tls(b"", BLIND, verify=False)
        return line.send(request(BLIND, "/sink", "content-length: 9999", method="POST") + b"the beginning")

    def _over_http2(self) -> tuple[Http2, Stream]:
        http2 = Http2(self._proxy.tunnel(HTTP2, alpn=("h2",)))
        stream = http2.start(*head(HTTP2, "/holds"))
        assert http2.until(lambda: b"data" in stream.body)
        return http2, stream

    def end(self, *kinds: str) -> None:
        """Hold these (or all) to have ended, and to carry nothing any more; the others to go on."""
        for kind in self.lines:
            is_meant = kind in kinds or not kinds
            patience = PATIENCE if is_meant and not self._proxy.patience else 0.1
            if self._has_ended(kind, patience) != is_meant:
                raise Finding(Harm.OPEN, f"{kind} {'goes on' if is_meant else 'has ended as well'}")

    def _has_ended(self, kind: str, patience: float) -> bool:
        """Whether the other side ends it within so many seconds, or says that it is over."""
        line = self.lines[kind]
        line.silent = False
        line._sock.settimeout(patience)
        if kind == "a stream of HTTP/2":
            self._http2.until(lambda: self._stream.reset is not None or self._stream.complete)
        else:
            while b"egress-denied: access.withdrawn" not in line.received and line.some():
                pass
        return not line.silent


async def _holds(call: Call) -> None:
    await call.begin(200)
    await call.say(b"data: 1\n\n")
    await asyncio.Event().wait()


def withdrawn(proxy: Proxy, count: int) -> None:
    """Hold Egress to a line for everything that it has cut."""
    if isinstance(proxy, Egress):
        until(lambda: len(_cut(proxy)) >= count, f"{count} lines about what was cut")


def _cut(proxy: Egress) -> list[dict[str, object]]:
    return [line for line in proxy.records() if line.get("code") == "access.withdrawn"]


@case("S-80", "hosts that are taken out of the rules", Harm.OPEN)
def test_hosts_that_are_taken_out_of_the_rules(lab: Lab, proxy: Proxy) -> None:
    """Whatever holds them open, they end; so do their connections to the hosts."""
    with changing(lab, proxy) as changed:
        known = len(_cut(proxy)) if isinstance(proxy, Egress) else 0
        held = Held(lab, proxy)
        hosts = (API, SOCKETS, OTHER, HTTP2, BLIND)
        changed.put(changed.without(*hosts))
        held.end()
        withdrawn(proxy, known + len(held.lines))
        for host in hosts[:-1]:
            proxy.expects(proxy.ask(host, request(host)), (403, "host.unknown"))
        # That of the WebSocket has said goodbye, and reads no further.
        names = (API, OTHER, HTTP2, f"*.{ANY}")
        there = lab.connections(proxy, *names)
        until(lambda: all(each.channel.end != End.OPEN for each in there), "the ends at the hosts")


@case("S-80", "rules that are narrowed", Harm.OPEN)
def test_rules_that_are_narrowed(lab: Lab, proxy: Proxy) -> None:
    """A method, a path, an upgrade, a way through, a secret: what the new rules still allow goes on."""
    with changing(lab, proxy) as changed:
        held = Held(lab, proxy)
        entries = {
            API: "{allow: [{id: some, paths: [/says-nothing, /small]}], inject: [{bearer: api}]}",
            SOCKETS: "{allow: [{id: pages, paths: ['/**']}], inject: [{bearer: api}]}",
            OTHER: "{allow: [{id: read, methods: [GET]}]}",
            BLIND: "{allow: all}",
        }
        changed.put(changed.having(entries))
        held.end("a stream of events", "a WebSocket", "an upload", "a tunnel")


WAITS_FOR_ALL = "of an answer in HTTP/2 it waits for the end"


@case("S-80", "streams of one connection", naive=WAITS_FOR_ALL, twin="test_rules_that_are_narrowed")
def test_streams_of_one_connection(lab: Lab, proxy: Proxy) -> None:
    """Of two, one is not allowed any more, nor an upload; the other does not notice."""
    for path in ("/one", "/two"):
        lab.h2.handle(path, _holds)
    with changing(lab, proxy) as changed, proxy.tunnel(HTTP2, alpn=("h2",)) as line:
        http2 = Http2(line)
        stays, goes = (http2.start(*head(HTTP2, path)) for path in ("/one", "/two"))
        upload = http2.start(*head(HTTP2, "/two", method="POST"), end=False)
        assert http2.until(lambda: all(b"data" in each.body for each in (stays, goes, upload)))
        one = "{allow: [{id: one, paths: [/one]}], http2: true, inject: [{bearer: api}]}"
        assert changed.put(changed.having({HTTP2: one}))[0] == 200
        if not http2.until(lambda: None not in (goes.reset, upload.reset)):
            raise Finding(Harm.OPEN, "a stream that is not allowed goes on")
        later = http2.ask(HTTP2, "/two")
        assert (later.status, later.header("egress-denied")) == (403, "rule.none")
        assert stays.reset is None
        assert not line.ended


@case("S-80", "hosts that are closed from above", Harm.OPEN)
def test_hosts_that_are_closed_from_above(lab: Lab, proxy: Proxy) -> None:
    """By one deny at the top, which names no rule and no entry of theirs."""
    with changing(lab, proxy) as changed:
        held = Held(lab, proxy)
        deny = f"deny: [{{id: gone, hosts: ['**.good.test', {API}]}}]\n"
        changed.put(changed.usual.replace("hosts:\n", deny + "hosts:\n", 1))
        held.end()


@case("S-80", "what expires while it is open", Harm.OPEN)
def test_what_expires_while_it_is_open(lab: Lab, proxy: Proxy) -> None:
    """An entry, a rule, a secret: nobody changes anything any more, and it ends by the clock."""
    with changing(lab, proxy) as changed:
        held = Held(lab, proxy)
        soon = _soon()
        write = f"{{id: write, methods: [POST], expires: {soon}}}"
        entries = {
            OTHER: f"{{allow: [{write}, {{id: read, methods: [GET]}}]}}",
            BLIND: f"{{intercept: never, expires: {soon}}}",
        }
        secret = f"  api: {{expires: {soon}, from:"
        assert changed.put(changed.having(entries).replace("  api: {from:", secret, 1))[0] == 200
        held.end()
        for host in (API, SOCKETS, HTTP2):
            proxy.expects(proxy.ask(host, request(host)), (403, "secret.expired"))
        proxy.expects(proxy.ask(OTHER, request(OTHER, method="POST")), (403, "rule.none"))
        assert proxy.ask(OTHER, request(OTHER)).status == 200
        proxy.expects(proxy.ask(BLIND, request(BLIND)), (403, "host.closed"))


def _soon() -> str:
    """A moment that has not come yet, as rules are written."""
    now = datetime.now(UTC)  # noqa: TID251 - rules expire by the clock of the machine
    return f"'{now + timedelta(seconds=2):%Y-%m-%dT%H:%M:%SZ}'"


KILLS: Mapping[str, tuple[str, ...]] = {
    API: ("a stream of events", "an answer that does not come"),
    f"{SOCKETS.upper()}.": ("a WebSocket",),
    f"*.{ANY}": ("a tunnel",),
    "**.good.test": (),
    "api": ("a stream of events", "an answer that does not come", "a WebSocket", "a stream of HTTP/2"),
    "default": (),
}
"""What ends when this is taken back: a host, one in another spelling, patterns, a secret, a sandbox."""


@case("S-80", "what is killed while it is open", Harm.OPEN)
def test_what_is_killed_while_it_is_open(lab: Lab, proxy: Proxy) -> None:
    """Exactly what was meant ends, each with a line; given back, everything is open again."""
    for name, ended in KILLS.items():
        held = Held(lab, proxy)
        if isinstance(proxy, Egress):
            known, count = len(_cut(proxy)), len(ended) or len(held.lines)
            status, told = control(proxy, "POST", "/kill", name=name)
            assert (status, told["connections"]) == (200, count), name
            withdrawn(proxy, known + count)
        held.end(*ended)
        if isinstance(proxy, Egress):
            assert control(proxy, "POST", "/kill", name=name, undo=True)[0] == 200
        proxy.hang_up()
        assert proxy.ask(API, request(API, "/small")).status == 200, name


@case("S-80", "a kill and what comes behind it", Harm.SENT)
def test_a_kill_and_what_comes_behind_it(lab: Lab, proxy: Proxy) -> None:
    """Closed for what comes next, over rules that are saved meanwhile, until it is given back."""
    with changing(lab, proxy) as changed:
        refused = {OTHER: (403, "rule.denied"), SCOPED: (403, "secret.unavailable")}
        if isinstance(proxy, Egress):
            for name in (OTHER, "scoped"):
                assert control(proxy, "POST", "/kill", name=name)[0] == 200
            known = len(proxy.records("reloaded"))
            proxy.write(changed.usual + "# saved meanwhile\n")
            proxy.recorded("reloaded", known + 1)
        for host, answer in refused.items():
            for ask in (_by_tunnel, _by_http2):
                proxy.expects(ask(proxy, host), answer)
            if lab.sent(proxy, lab.site(host)):
                raise Finding(Harm.SENT, f"{host} was asked")
        assert isinstance(proxy, Egress)
        for name in (OTHER, "scoped"):
            assert control(proxy, "POST", "/kill", name=name, undo=True)[0] == 200
            assert control(proxy, "POST", "/kill", name=name, undo=True)[1]["known"] is False
        for host in refused:
            assert _by_tunnel(proxy, host).status in (200, 404)


def _by_tunnel(proxy: Proxy, host: str) -> Answer:
    return proxy.ask(host, request(host, "/repos/acme/app" if host == SCOPED else "/echo"))


def _by_http2(proxy: Proxy, host: str) -> Answer:
    """By a client that speaks nothing else, which is enough to be offered it."""
    with proxy.tunnel(host, alpn=("h2",)) as line:
        if line.answer.status != 200:
            return line.answer
        stream = Http2(line).ask(host, "/repos/acme/app" if host == SCOPED else "/echo")
        fields = f"egress-denied: {stream.header('egress-denied') or ''}"
        return Answer(f"HTTP/2 {stream.status} x\r\n{fields}\r\n\r\n".encode())


# What is half said when they change -------------------------------------------------------------


@case("S-55 S-80", "requests that were half said", Harm.SENT)
def test_requests_that_were_half_said(lab: Lab, proxy: Proxy) -> None:
    """However far a client has come: what is not sent when its host is closed is not sent any more."""
    with changing(lab, proxy) as changed:
        late = request(API, "/small?too=late")
        opening = request(f"{API}:443", f"{API}:443", method="CONNECT")
        states = {
            "dialled": (proxy.dial(), opening),
            "half a CONNECT": (proxy.dial().send(opening[:12]), opening[12:]),
            "a tunnel": (proxy.connect(f"{API}:443"), late),
            "TLS": (proxy.tunnel(API), late),
            "half a head": (proxy.tunnel(API).send(late[:20]), late[20:]),
            "an answer": (_answered(proxy), late),
            "half a head behind an answer": (_answered(proxy).send(late[:20]), late[20:]),
        }
        changed.put(changed.without(API))
        for state, (line, rest) in states.items():
            if state == "a tunnel":
                line.to_tls(proxy.ca_pem, API)
            line.send(rest)
            if state in ("dialled", "half a CONNECT") and not proxy.patience:
                # The tunnel of a denied host holds a page that says so.
                assert line.response("CONNECT").status == 200
                line.to_tls(proxy.ca_pem, API)
                line.send(late)
            if not proxy.patience:
                _expects_an_end(line, state)
        if lab.sent(proxy, lab.api, lambda each: "too=late" in each.target):
            raise Finding(Harm.SENT, "the host was asked after it was closed")


def _answered(proxy: Proxy) -> Line:
    line = proxy.tunnel(API)
    assert line.send(request(API, "/small")).response().status == 200
    return line


def _expects_an_end(line: Line, state: str) -> None:
    """A refusal, or the end of the connection, and never an answer of the host."""
    answer = line.response()
    assert answer.code in {"host.unknown", "access.withdrawn", ""}, (state, answer)
    assert answer.status in {0, 403}, (state, answer)
    assert answer.status or line.ended, (state, "silence")


@contextmanager
def waiting_for_a_secret(lab: Lab, proxy: Egress) -> Iterator[tuple[Line, Callable[[], None]]]:
    """A request whose secret is the output of a program that has not ended yet, and what ends it."""
    pipe = proxy.folder / "slow"
    os.mkfifo(pipe)
    secret = f"  slow: {{from: {{command: [cat, {pipe}]}}, hosts: [{SLOW}]}}\n"
    # By itself a source is given up after some seconds.
    with changing(lab, proxy) as changed, ThreadPoolExecutor() as beside:
        text = changed.having({SLOW: "{allow: all, inject: [{bearer: slow}]}"})
        before = _in_force(proxy)
        told = beside.submit(changed.put, text.replace("secrets:\n", f"secrets:\n{secret}", 1))
        until(lambda: _in_force(proxy) != before, "the rules with the slow secret")
        line = proxy.tunnel(SLOW).send(request(SLOW, "/small"))
        until(lambda: _slow_requests(proxy) == 1, "the request to wait")
        try:
            yield line, lambda: _let_go(pipe)
        finally:
            _let_go(pipe)
            told.result()
            pipe.unlink()


def _slow_requests(proxy: Egress) -> object:
    return control(proxy, "GET", "/status")[1]["connections"]


def _let_go(pipe: Path) -> None:
    with contextlib.suppress(OSError), open(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK), "wb") as end:  # noqa: PTH123
        end.write(b"the-output-of-a-program")


NEVER_WAITS = "what it sends it has at hand"


@case("S-29 S-80", "a request that waits", naive=NEVER_WAITS, twin="test_a_request_that_waits_is_sent")
def test_a_request_that_waits(lab: Lab, proxy: Proxy) -> None:
    """For its secret: taken back meanwhile, it is refused at once, and not sent when the secret comes."""
    assert isinstance(proxy, Egress)
    for name in (SLOW, "slow"):
        proxy.hang_up()
        with waiting_for_a_secret(lab, proxy) as (line, let_go):
            assert control(proxy, "POST", "/kill", name=name)[1]["connections"] == 1
            proxy.expects(line.response(), (403, "access.withdrawn"))
            let_go()
            assert control(proxy, "POST", "/kill", name=name, undo=True)[0] == 200
    assert lab.requests(proxy, lab.any) == []


def test_a_request_that_waits_is_sent(lab: Lab, egress: Egress) -> None:
    """When nobody takes it back: so it would be seen."""
    lab.begin(egress)
    with waiting_for_a_secret(lab, egress) as (line, let_go):
        let_go()
        assert line.response().status == 200
    assert [each.header("authorization") for each in lab.requests(egress, lab.any)] == [
        "Bearer the-output-of-a-program"
    ]


def test_a_secret_that_is_slow_holds_up_no_rules(lab: Lab, egress: Egress) -> None:
    """The next change of the rules is in force long before a source is given up on."""
    lab.begin(egress)
    known = len(egress.err)
    with waiting_for_a_secret(lab, egress):
        before = _in_force(egress)
        egress.write(rules(lab).replace("{secrets}", str(egress.folder / "secrets")))
        until(lambda: _in_force(egress) != before, "the next rules")
        assert "has not answered within" not in "".join(egress.err[known:])


# Two sets of rules ------------------------------------------------------------------------------

OVERLAPS: Mapping[str, str] = {
    "a deny behind the allow": "{allow: [{id: a, paths: ['/**']}], deny: [{id: d, paths: ['/keys/**']}]}",
    "a deny before it": "{deny: [{id: d, paths: ['/keys/**']}], allow: [{id: a, paths: ['/keys/new']}]}",
    "a deny with another case": "{allow: all, deny: [{id: d, paths: ['/KEYS/*']}]}",
    "a deny of the method alone": "{allow: [{id: a, paths: ['/keys/new']}], deny: [{id: d, methods: [PUT]}]}",
}
FROM_ABOVE: Mapping[str, str] = {
    "a deny of a wider entry": "  '**.good.test': {allow: [], deny: [{id: d, paths: ['/keys/**']}]}\n",
    "a deny at the top": "deny: [{id: d, paths: ['/keys/**']}]\n",
    "a deny at the top, about hosts": "deny: [{id: d, hosts: ['*.good.test'], methods: [PUT]}]\n",
}


@case("S-33", "rules that overlap", Harm.SENT)
def test_rules_that_overlap(lab: Lab, proxy: Proxy) -> None:
    """Wherever a deny stands, and whatever stands beside it: it denies."""
    with changing(lab, proxy) as changed:
        for what, entry in OVERLAPS.items():
            _denies(lab, proxy, what, changed.put(changed.having({OTHER: entry})))
        for what, text in FROM_ABOVE.items():
            _denies(lab, proxy, what, changed.put(changed.usual + text))


def _denies(lab: Lab, proxy: Proxy, what: str, put: tuple[int, object]) -> None:
    assert put[0] == 200, (what, put)
    answer = proxy.ask(OTHER, request(OTHER, "/keys/new", method="PUT"))
    proxy.expects(answer, (403, "rule.denied"))
    if lab.sent(proxy, lab.other, lambda each: each.method == "PUT"):
        raise Finding(Harm.SENT, f"{what} denies nothing")


FLIP = f"flip.{ANY}"
SETS: Mapping[str, str] = {
    "one": "{allow: [{id: one, paths: ['/one/**']}], inject: [{bearer: shapes}]}",
    "two": "{allow: [{id: two, paths: ['/two/**']}], inject: [{header: {name: x-api-key, secret: shapes}}]}",
}
NO_SETS = "what it injects does not stand in its rules"


@case("S-53", "rules that change all the time", naive=NO_SETS, twin="test_a_mixture_of_rules_would_be_seen")
def test_rules_that_change_all_the_time(lab: Lab, proxy: Proxy) -> None:
    """Every request is decided and injected by one set of them: never by both, and never by none."""
    assert isinstance(proxy, Egress)
    with changing(lab, proxy) as changed, ThreadPoolExecutor() as beside:
        texts = [changed.having({FLIP: entry}) for entry in SETS.values()]
        changed.put(texts[0])
        is_over = threading.Event()
        clients = [beside.submit(_ask_both, proxy, is_over) for _ in range(3)]
        try:
            for number in range(40):
                changed.put(texts[number % 2])
        finally:
            is_over.set()
        codes = set().union(*(client.result() for client in clients))
    assert codes <= {"200", "rule.none", "access.withdrawn", "0"}, codes
    assert "200" in codes
    found = lab.requests(proxy, lab.any)
    assert {each.path.split("/")[1] for each in found} == {"one", "two"}
    assert [each.raw for each in found if not _is_of_one_set(each, lab.secrets.other.value)] == []


def _ask_both(proxy: Proxy, is_over: threading.Event) -> set[str]:
    """What requests for both sets are answered with, over connections that stay as long as they may."""
    codes = set()
    while not is_over.is_set():
        with proxy.tunnel(FLIP) as line:
            while not (is_over.is_set() or line.ended or line.failure):
                for name in SETS:
                    answer = line.send(request(FLIP, f"/{name}/status?code=200")).response()
                    codes.add("200" if answer.status in (200, 404) else answer.code or str(answer.status))
    return codes


def _is_of_one_set(each: Request, secret: bytes) -> bool:
    """Whether the credential is where the set that allows the path puts it, and nowhere else."""
    value = secret.decode("latin-1")
    slots = {"one": ("authorization", f"Bearer {value}"), "two": ("x-api-key", value)}
    name, text = slots.pop(each.path.split("/")[1])
    ((other, _),) = slots.values()
    return each.headers(name) == [text] and each.headers(other) == []


def test_a_mixture_of_rules_would_be_seen() -> None:
    def found(target: str, *fields: tuple[str, str]) -> Request:
        return Request(f"GET {target} HTTP/1.1", fields, b"")

    assert _is_of_one_set(found("/one/x", ("authorization", "Bearer s")), b"s")
    assert _is_of_one_set(found("/two/x", ("x-api-key", "s")), b"s")
    for wrong in (
        found("/one/x", ("x-api-key", "s")),
        found("/one/x"),
        found("/two/x", ("authorization", "Bearer s"), ("x-api-key", "s")),
        found("/two/x", ("x-api-key", "another")),
    ):
        assert not _is_of_one_set(wrong, b"s")


@case("S-30", "rules that lose their profiles", Harm.SENT)
def test_rules_that_lose_their_profiles(lab: Lab, proxy: Proxy) -> None:
    """A sandbox that has a part of them never gets all; and what it loses it loses at once."""
    with changing(lab, proxy) as changed:
        keys = [line.split(":")[0].strip() for line in changed.usual.split("hosts:\n", 1)[1].splitlines()]
        hosts = [key for key in keys if key.strip('"').endswith(".test") and "allow" not in key]
        parts = {"default": hosts, "narrow": [API, OTHER], "less": [API]}

        def having(*names: str) -> str:
            lines = [f"  {name}: {{hosts: [{', '.join(parts[name])}]}}\n" for name in names]
            return changed.usual + "profiles:\n" + "".join(lines)

        assert changed.put(having("default", "narrow"))[0] == 200
        with boxes(lab, proxy, "narrow", profile="narrow") as (box,):
            assert box.ask(OTHER, request(OTHER)).status == 200
            _keeps_out(lab, proxy, box, "profile.excluded")
            held = _answered(box)
            # All would be for everybody.
            assert changed.put(changed.usual)[0] == 409
            _keeps_out(lab, proxy, box, "profile.excluded")
            assert held.send(request(API, "/small")).response().status == 200
            assert changed.put(having("default", "less"))[0] == 200
            proxy.expects(held.send(request(API, "/small")).response(), (0, ""), (403, "access.withdrawn"))
            for host in (API, OTHER, SCOPED):
                proxy.expects(box.ask(host, request(host)), (403, "profile.unknown"))
            assert proxy.ask(OTHER, request(OTHER)).status == 200


def _keeps_out(lab: Lab, proxy: Proxy, box: Proxy, code: str) -> None:
    proxy.expects(box.ask(SCOPED, request(SCOPED, "/repos/acme/app", "x-profile: default")), (403, code))
    if lab.sent(proxy, lab.scoped):
        raise Finding(Harm.SENT, "a host that is not in the profile was asked")


# Rules that somebody else has brought -------------------------------------------------------------


def hostile(marker: Path) -> str:
    """Rules with a program in them, which leaves a mark."""
    return (
        "version: 1\n"
        f"secrets:\n  bait: {{from: {{command: [touch, {marker}]}}, hosts: [{API}]}}\n"
        f"hosts:\n  {API}: {{allow: all, inject: [{{bearer: bait}}]}}\n  {EVIL}: {{allow: all}}\n"
    )


COMMANDS = (
    *("check", "test", f"explain GET https://{API}/", "rules show", "init --print --offline", "serve"),
    "doctor --offline",
)


@case("S-77", "a repository that brings rules along", Harm.TAKEN)
def test_a_repository_that_brings_rules_along(lab: Lab, proxy: Proxy) -> None:
    """Whatever is run in its folder runs nothing of it, before somebody has read the file and said so."""
    folder = proxy.folder / "repository"
    marker = folder / "was-here"
    _settle_in(folder, hostile(marker), f"open({str(marker)!r}, 'w')")
    if not isinstance(proxy, Egress):
        with changing(lab, proxy) as changed:
            changed.put(hostile(marker))
            proxy.ask(API, request(API, "/small"))
        if marker.exists():
            raise Finding(Harm.TAKEN, "the program of somebody else's rules was run")
        return
    run = functools.partial(run_in, proxy.room, folder, env={"PATH": f".:{os.defpath}"})
    with ThreadPoolExecutor(3) as several:
        found = dict(zip(COMMANDS, several.map(lambda words: run(*words.split()), COMMANDS), strict=True))
    for words, outcome in found.items():
        assert "Traceback" not in outcome.said, words
    assert not marker.exists()
    assert "egress trust config/hosts.yaml" in found["serve"].err
    # Rules of one's own whose program is called like a file that lies there.
    own = put(proxy.folder / "own.yaml", hostile(marker).replace("touch, ", "bait, "))
    assert "program not found: bait" in run("doctor", "--offline", "--rules", str(own)).out
    assert not marker.exists()
    # The twin: once it is trusted, it is run.
    assert run("trust", "config/hosts.yaml").status == 0
    run("doctor", "--offline")
    assert marker.exists()


def _settle_in(folder: Path, text: str, code: str) -> None:
    """All files that programs look for where they are run."""
    for name in ("config/hosts.yaml", "hosts.yaml", "hosts.d/hosts.yaml", ".config/hosts.yaml"):
        put(folder / name, text)
    for name in ("egress/__init__.py", "click.py", "sitecustomize.py", "usercustomize.py"):
        put(folder / name, code)
    put(folder / ".env", "EGRESS_RULES=hosts.d\nEGRESS_NETWORK=true\n")
    put(folder / "bait", f"#!/bin/sh\ntouch {folder}/was-here\n").chmod(0o755)


# Starts -----------------------------------------------------------------------------------------


@case("S-02 S-53", "a proxy that starts anew", Harm.SENT)
def test_a_proxy_that_starts_anew(lab: Lab, proxy: Proxy) -> None:
    """Killed, with rules that are broken meanwhile, and with good ones: at no moment is anything open."""
    with lab.egress() if isinstance(proxy, Egress) else lab.naive() as own:
        usual = own.rules.read_text(encoding="utf-8") if isinstance(own, Egress) else ""
        is_over = threading.Event()
        with ThreadPoolExecutor() as beside:
            knocking = beside.submit(_knock, own, is_over)
            try:
                own.kill()
                own.write("version: 1\nhosts: {")
                own.begin()
                if isinstance(own, Egress):
                    assert own.ended() == 1
                    assert "egress is ready" not in own.said
                    own.kill()
                    own.write(usual)
                    own.start()
                else:
                    until(own.is_ready)
                lab.wait(own, lambda: lab.sent(own, lab.evil))
                if isinstance(own, Egress):
                    until(lambda: own.ask(API, request(API, "/small")).status == 200)
            finally:
                is_over.set()
            knocking.result()
        if lab.sent(own, lab.evil):
            raise Finding(Harm.SENT, "a host that no rule names was asked")
        # Also where nobody listened.
        lab.hold(own, also=[LISTEN])


def _knock(proxy: Proxy, is_over: threading.Event) -> None:
    """Ask for what is closed, all the time, also while nobody is there."""
    while not is_over.wait(0.02):
        with contextlib.suppress(OSError):
            answer = proxy.ask(EVIL, request(EVIL))
            if answer.status:
                proxy.expects(answer, (403, "host.unknown"))
