"""The proxy in a process of its own, so that what it needs of memory can be told from what a test needs.

    python -m tests.proxy.clients.bulk_proxy FOLDER PORT UPSTREAM_CA

`PORT` is that of the upstream. Prints where it listens; after that it answers each line on its input with
its largest size so far, in KiB, and the exchanges that are in its log. It ends with its input.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path

from tests.proxy.clients.scene import rules
from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.proxy_stack import ProxyStack

PUSH = 'allow: [{id: push, git: {push: {repos: [acme/app], refs: ["refs/heads/agent/**"]}}}]'


class Given(Certificates):
    """The certificates of an upstream that lives elsewhere: only whom to trust is known."""

    def __init__(self, ca: Path) -> None:
        super().__init__()
        self._pem = ca.read_bytes()

    @property
    def ca_pem(self) -> bytes:
        return self._pem


def peak() -> int:
    """The largest resident size of this process so far, in KiB."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if found is None:
        raise RuntimeError("this kernel does not tell the size of a process")
    return int(found[1])


async def main(folder: Path, port: int, ca: Path) -> None:
    loop = asyncio.get_running_loop()
    asked = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(asked), sys.stdin)
    given = rules(folder, port, "http2: true", other=f"http2: true\n    {PUSH}")
    async with ProxyStack(folder, Given(ca), given) as stack:
        say({"url": stack.url, "ca": str(stack.write_ca())})
        while await asked.readline():
            say({"peak": peak(), "exchanges": stack.exchanges()})


def say(what: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])))
