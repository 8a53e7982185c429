"""A wild mix of clients: everything that a sandbox does, well and badly, each exchange on a path of its own.

What comes of it is for cases to look at: who was told of it, and where its secrets have gone.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Final

from tests.attack.lab.client import Answer, Line, request
from tests.attack.lab.http2 import Http2, head
from tests.attack.lab.lab import Lab
from tests.attack.lab.names import (
    API,
    BASIC,
    BLOCKING,
    COOKIE,
    EVIL,
    EXPIRED,
    HTTP2,
    KEYED,
    OTHER,
    PLAIN,
    QUERY,
    SCOPED,
    SELF_SIGNED,
    SOCKETS,
    STANDIN,
)
from tests.attack.lab.proxies import Proxy
from tests.attack.lab.websocket import CLOSE, TEXT, ask_for_websocket, frame, frames, read_frame
from tests.proxy.lab.raw_upstream import Cut, Say
from tests.proxy.lab.upstream_request import UpstreamRequest
from tests.proxy.lab.websocket import serve_websocket

PRIVATE: Final = ("pr1vate-query", "pr1vate-header", "pr1vate-cookie", "pr1vate-body", "pr1vate-answer")
"""Marks in everything that is nobody's business: they stand in requests and answers, and in no record."""
_QUERY, _HEADER, _COOKIE, _BODY, _ANSWER = PRIVATE
_FIELDS = (f"x-note: {_HEADER}", f"user-agent: {_HEADER}/1", f"cookie: a={_COOKIE}", f"referer: /{_HEADER}")
_numbers = itertools.count(1)


class MixedTraffic:
    """One mix, for one proxy."""

    def __init__(self, lab: Lab, proxy: Proxy) -> None:
        self.lab = lab
        self.proxy = proxy
        self.paths: list[str] = []
        """Those that are of this mix alone."""
        self.answers: dict[tuple[str, str], Answer] = {}
        """By host and path; of HTTP/1.1, where a client waited for one."""
        self._tag = f"/wild/{next(_numbers)}"

    def run(self) -> None:
        """All of it, one after the other."""
        self.lines_that_stay()
        self.bodies()
        self.every_kind_of_credential()
        self.refusals()
        self.hosts_that_lie()
        self.clients_that_leave()
        self.http2()
        self.websockets()
        # Whoever sees this one has seen all.
        self.proxy.ask(API, self._request(API, self._path()))

    # Well

    def lines_that_stay(self) -> None:
        with self.proxy.tunnel(API) as line:
            for method in ("GET", "HEAD", "OPTIONS", "DELETE"):
                self._ask(line, API, method=method)
        with self.proxy.tunnel(OTHER) as line:
            paths = [self._path() for _ in range(3)]
            line.send(b"".join(self._request(OTHER, path) for path in paths))
            for path in paths:
                self.answers[OTHER, path] = line.response()
        with self.proxy.dial() as line:
            path = self._path()
            line.send(request(PLAIN, f"http://{PLAIN}{path}?q={_QUERY}", *_FIELDS))
            self.answers[PLAIN, path] = line.response()
        with self.proxy.tunnel(API) as line:
            path = self._path()
            line.send(f"GET {path} HTTP/1.0\r\nhost: {API}\r\n\r\n".encode())
            self.answers[API, path] = line.response()

    def bodies(self) -> None:
        body = _BODY.encode() * 5000
        with self.proxy.tunnel(API) as line:
            self._ask(line, API, method="POST", body=body)
            self._ask(line, API, "transfer-encoding: chunked", method="PUT", ahead=_chunked(body))
            path = self._path()
            fields = ("expect: 100-continue", f"content-length: {len(body)}")
            # Whether or not it is told to go on.
            line.send(self._request(API, path, *fields, method="POST")).send(body)
            self.answers[API, path] = line.response()
        path = self._path()
        no = b"HTTP/1.1 417 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        self.lab.api.script(path, Say(no), Cut())
        with self.proxy.tunnel(API) as line:
            self._ask(line, API, method="POST", body=body, path=path)
        with self.proxy.tunnel(SCOPED) as line:
            json, path = "content-type: application/json", "/repos/acme/app/issues"
            self._ask(line, SCOPED, json, method="POST", body=b"{}", path=path)

    def every_kind_of_credential(self) -> None:
        for host in (KEYED, BASIC, QUERY, COOKIE, BLOCKING):
            with self.proxy.tunnel(host) as line:
                self._ask(line, host, "authorization: Bearer pr1vate-header", "x-api-key: pr1vate-header")
        with self.proxy.tunnel(STANDIN) as line:
            self._ask(line, STANDIN, f"x-api-key: {self.proxy.stand_in()}")
            self._ask(line, STANDIN)
        for path in ("/echo", "/echo-gzip", "/echo-hdr", "/give/base64", "/cookie", "/redirect"):
            with self.proxy.tunnel(API) as line:
                self._ask(line, API, path=path)

    # Badly

    def refusals(self) -> None:
        with self.proxy.tunnel(SCOPED) as line:
            self._ask(line, SCOPED, method="DELETE")
            self._ask(line, SCOPED, path="/repos/acme/../../user")
            self._ask(line, SCOPED, method="POST", body=_BODY.encode() * 100)
        for host in (EVIL, f"below.{EVIL}"):
            self.proxy.ask(host, self._request(host, self._path()))
        self.proxy.say(request(API, f"http://{API}{self._path()}", *_FIELDS))
        self.proxy.connect(f"{API}:8443", *_FIELDS).close()
        for data in (b"\x00\x01\x02", b"GET / HTTP/1.1\r\nhost: a\r\nx\r\n\r\n", b"SSH-2.0-x\r\n"):
            with self.proxy.connect(f"{API}:443") as line:
                line.send(data).finish().everything()
        two = ("content-length: 1", "content-length: 2")
        self.proxy.ask(API, self._request(API, self._path(), *two, method="POST") + b"xx")

    def hosts_that_lie(self) -> None:
        mark, end = _ANSWER.encode(), b"\r\ncontent-length: 0\r\n\r\n"
        lies = (
            b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n" + mark,
            b"HTTP/1.1 200 \x1b[2J" + mark + end,
            b"HTTP/1.1 200 OK\r\nx-a\x1b[2J: " + mark + end,
            b"HTTP/1.1 302 Found\r\nlocation: http://x/\r\n " + mark + end,
            b"\x16\x03\x01" + mark + b"\r\n\r\n",
            b"",
        )
        for lie in lies:
            path = self._path()
            self.lab.api.script(path, *([Say(lie)] if lie else []), Cut())
            with self.proxy.tunnel(API) as line:
                line.send(self._request(API, path)).response()
        for path in ("/lie/status-line", "/lie/no-colon", "/lie/both", "/give/gzip-gzip", "/give/103"):
            self.proxy.ask(API, self._request(API, path))
        for host in (EXPIRED, SELF_SIGNED):
            self.proxy.ask(host, self._request(host, self._path()))

    def clients_that_leave(self) -> None:
        """In the middle of an answer, of an upload, and while nothing is said; each once the host knows."""
        path = self._path()
        self.lab.api.script(path, Say(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n" + _ANSWER.encode()))
        with self.proxy.tunnel(API) as line:
            line.send(self._request(API, path)).head()
            self._arrived(path)
        for fields, method in ((("content-length: 99",), "POST"), ((), "GET")):
            path = self._path()
            self.lab.api.handle(path, _says_nothing)
            with self.proxy.tunnel(API) as line:
                line.send(self._request(API, path, *fields, method=method))
                self._arrived(path)

    def http2(self) -> None:
        for host in (HTTP2, API):
            with self.proxy.tunnel(host, alpn=("h2",)) as line:
                http2 = Http2(line)
                fields = (("x-note", _HEADER), ("cookie", _COOKIE))
                paths = [f"{self._path()}?q={_QUERY}" for _ in range(3)]
                streams = [http2.start(*head(host, path, *fields)) for path in paths]
                body = http2.start(*head(host, self._path(), method="POST"), end=False)
                http2.data(body, _BODY.encode() * 100, end=True)
                for stream in (*streams, body):
                    http2.whole(stream)

    def websockets(self) -> None:
        self.lab.sockets.handle("/ws", serve_websocket)
        with self.proxy.tunnel(SOCKETS) as line:
            answer = ask_for_websocket(line, SOCKETS, f"/ws?q={_QUERY}", *_FIELDS)
            if answer.status == 101:
                line.send(frame(TEXT, _BODY.encode()))
                read_frame(line)
                line.send(frame(CLOSE, b"\x03\xe8" + _BODY.encode()))
                list(frames(line))
        with self.proxy.tunnel(SCOPED) as line:
            ask_for_websocket(line, SCOPED, f"/repos/acme/app?q={_QUERY}")

    # Inside

    def _path(self) -> str:
        self.paths.append(f"{self._tag}/{len(self.paths)}")
        return self.paths[-1]

    def _request(self, host: str, path: str, *extra: str, method: str = "GET", body: bytes = b"") -> bytes:
        return request(host, f"{path}?q={_QUERY}", *_FIELDS, *extra, method=method, body=body)

    def _ask(
        self,
        line: Line,
        host: str,
        *extra: str,
        method: str = "GET",
        body: bytes = b"",
        ahead: bytes = b"",
        path: str = "",
    ) -> None:
        path = path or self._path()
        line.send(self._request(host, path, *extra, method=method, body=body) + ahead)
        self.answers[host, path] = line.response(method)

    def _arrived(self, path: str) -> None:
        api = self.lab.api
        self.lab.internet.run(api.until(lambda: any(each.path == path for each in api.requests)))


def _chunked(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


async def _says_nothing(visit: UpstreamRequest) -> None:
    visit.over = True
    await visit.channel.wait_or_end(asyncio.Event())
