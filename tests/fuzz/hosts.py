"""The hosts of the lab, made to answer each request with what its case says.

A request is known by its mark. What has lost it to a mutation is answered plainly.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, override

from tests.attack.lab.hostile_handlers import credential
from tests.attack.lab.lab import Lab
from tests.fuzz.sample import Reply, Sample
from tests.proxy.lab.handlers import Handler, small
from tests.proxy.lab.http2 import Call
from tests.proxy.lab.http2 import Handler as CallHandler
from tests.proxy.lab.upstream_request import UpstreamRequest

MARK: Final = re.compile(r"/c([0-9]{1,9})-([0-9]{1,3})")
PLAIN: Final = Reply(parts=(b"plain\n",))


class Hosts:
    """Everybody behind the proxy."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._samples: dict[int, Sample] = {}
        internet = lab.internet
        for site in [*internet.sites.values(), internet.plain, internet.evil_plain]:
            site._handlers = _Always({"/small": small}, self._answer)
        internet.h2._handlers = _AlwaysHttp2({}, self._answer_http2)

    def expect(self, case: int, sample: Sample) -> None:
        """From here on, requests of this case are answered by its sample."""
        self._samples[case] = sample

    def forget(self) -> None:
        """Let go of all samples, and of all that was heard."""
        self._samples.clear()
        self._lab.internet.run(self._clear())

    async def _clear(self) -> None:
        for host in self._lab.internet._hosts:
            for heard in (host.connections, host.links, host.troubles, getattr(host, "requests", [])):
                heard.clear()

    def _reply(self, target: str) -> Reply:
        mark = MARK.search(target)
        sample = self._samples.get(int(mark[1])) if mark else None
        if mark is None or sample is None or not sample.replies:
            return PLAIN
        return sample.replies[int(mark[2]) % len(sample.replies)]

    async def _answer(self, visit: UpstreamRequest) -> None:
        await visit.body()
        reply = self._reply(visit.request.target)
        if reply.framing == "http2":
            reply = PLAIN
        data = reply.spoken(credential(visit))
        for piece in _pieces(reply, data):
            await visit.channel.send(piece)
        if reply.framing == "websocket":
            # What the client says then is heard, too.
            with suppress(TimeoutError):
                async with asyncio.timeout(0.3):
                    while await visit.channel.some():
                        pass
        visit.over = reply.ends != "open"
        if reply.ends == "cut":
            await visit.channel.cut()
        elif reply.ends == "reset":
            await visit.channel.reset()

    async def _answer_http2(self, call: Call) -> None:
        await call.conversation.whole(call.stream)
        reply = self._reply(call.header(":path") or "")
        if reply.framing != "http2":
            await call.begin(200)
            await call.say(b"plain\n", end=True)
            return
        secret = call.authorization.rpartition(" ")[2].encode("latin-1", "replace")
        for piece in _pieces(reply, reply.frames(call.stream.id, secret)):
            await call.conversation.raw(piece)
        if reply.ends != "open":
            await call.conversation.channel.cut()


class _Always(dict[str, Handler]):
    """Handlers by path, and one for all the rest."""

    def __init__(self, known: Mapping[str, Handler], rest: Handler) -> None:
        super().__init__(known)
        self._rest = rest

    @override
    def get(self, path: str, default: object = None) -> Handler:
        return super().get(path, self._rest)


class _AlwaysHttp2(dict[str, CallHandler]):
    def __init__(self, known: Mapping[str, CallHandler], rest: CallHandler) -> None:
        super().__init__(known)
        self._rest = rest

    @override
    def get(self, path: str, default: object = None) -> CallHandler:
        return super().get(path, self._rest)


def _pieces(reply: Reply, data: bytes) -> list[bytes]:
    # Fifty writes show what a thousand would.
    size = max(reply.write, len(data) // 50 + 1) if reply.write else len(data) or 1
    return [data[at : at + size] for at in range(0, len(data), size)]
