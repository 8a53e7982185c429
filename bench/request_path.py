"""Files, classes and calls of `egress/` that a request crosses, counted by a profiler in a whole proxy.

    python -m bench request_path              the counts
    python -m bench.request_path --files      the files of a kept-alive GET, in the order of their first call

The proxy, its upstream and the client share this process; only functions below `egress/` are counted, and of
those only what a request causes. The event loop and the ticks of the clock go on without one.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType

import egress
from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.proxy_stack import NAME, ProxyStack
from tests.proxy.lab.raw_upstream import RawUpstream

PACKAGE = str(Path(egress.__file__).parent)
EVENT_LOOP = f"{PACKAGE}/proxy/event_loop.py"
RULES = """
version: 1
secrets:
  api: {{from: "file:{folder}/secret", hosts: ["{name}:{port}"]}}
hosts:
  {name}:
    ports: [{port}]
    addresses: [127.0.0.1/32]
    allow: [{{id: read, methods: [GET], paths: ["/**"]}}]
    inject: [{{bearer: api}}]
"""

Rows = list[tuple[str, float, str, float | None]]


class Trace:
    """Counts calls of our own functions while it is on."""

    def __init__(self) -> None:
        self.files: Counter[str] = Counter()
        self.classes: set[str] = set()
        self.is_on = False

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if event != "call" or not self.is_on:
            return
        code = frame.f_code
        if code.co_filename.startswith(PACKAGE) and code.co_filename != EVENT_LOOP:
            self.files[code.co_filename.removeprefix(f"{PACKAGE}/")] += 1
            if "self" in frame.f_locals:
                self.classes.add(type(frame.f_locals["self"]).__qualname__)

    @property
    def calls(self) -> int:
        return self.files.total()


@asynccontextmanager
async def whole_proxy() -> AsyncIterator[tuple[ProxyStack, RawUpstream]]:
    """A proxy that injects a secret into each request, and its upstream."""
    certs = Certificates()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "secret").write_text("sesame-open-please")
        async with RawUpstream(certs.good(NAME)) as upstream:
            rules = RULES.format(folder=folder, name=NAME, port=upstream.port)
            async with ProxyStack(folder, certs, rules) as stack:
                yield stack, upstream


async def measure() -> tuple[Trace, Trace]:
    """The trace of a new connection with its first GET, and of the next GET on that connection."""
    fresh, kept = Trace(), Trace()
    async with whole_proxy() as (stack, upstream):
        host = f"{NAME}:{upstream.port}"
        # The first connection makes certificates and fills caches, which a later one finds.
        async with await stack.visit(upstream) as peer:
            await peer.get("/echo", host)
        threading.setprofile_all_threads(fresh)
        sys.setprofile(fresh)
        fresh.is_on = True
        async with await stack.visit(upstream) as peer:
            await peer.get("/echo", host)
            await asyncio.sleep(0.1)
            fresh.is_on = False
            threading.setprofile_all_threads(kept)
            sys.setprofile(kept)
            stack.stop_ticks()
            await peer.get("/echo", host)
            kept.is_on = True
            response = await peer.get("/echo", host)
            await asyncio.sleep(0.1)
            kept.is_on = False
        threading.setprofile_all_threads(None)
        sys.setprofile(None)
    if response.status != 200:
        raise RuntimeError(f"the upstream's answer did not arrive: status {response.status}")
    return fresh, kept


def run() -> Rows:
    """Print what one request crosses; the target is that of the architecture page."""
    fresh, kept = asyncio.run(measure())
    return [
        ("files of a kept-alive GET", len(kept.files), "files", 35),
        ("classes of a kept-alive GET", len(kept.classes), "classes", None),
        ("calls of a kept-alive GET", kept.calls, "calls", None),
        ("files of a new connection and its GET", len(fresh.files), "files", None),
        ("classes of a new connection and its GET", len(fresh.classes), "classes", None),
    ]


if __name__ == "__main__":
    for file, calls in asyncio.run(measure())[1].files.items() if "--files" in sys.argv else ():
        print(f"{calls:>6} {file}")
