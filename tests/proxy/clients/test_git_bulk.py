"""A push of gigabytes passes the rules on refs in constant memory, and a refused one is read into nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from egress.inspect.git.git_kind import MAX_DRAINED_BYTES
from tests.proxy.clients.program import run
from tests.proxy.clients.scene import WANTED, certs
from tests.proxy.clients.test_bulk import MIB, MOST_GROWTH, MUCH, PATIENCE, WARMING, Proxy, count, proxied
from tests.proxy.lab.proxy_stack import OTHER
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.unit.inspect.git.git_bytes import COMMIT, A, command_lines, commit, packed

pytestmark = [pytest.mark.system("curl", "curl"), pytest.mark.timeout(600)]

PATH = "/acme/app/git-receive-pack"
NEW = commit(A)
X, MAIN = "refs/heads/agent/x", "refs/heads/main"


@pytest.fixture
async def upstream() -> AsyncIterator[RawUpstream]:
    upstream = RawUpstream(certs.good(OTHER), WANTED)
    upstream.handle(PATH, count)
    async with upstream:
        yield upstream


def write_push(path: Path, ref: str, size: int) -> None:
    """The body of an update by a fast-forward, whose pack goes on for as long as it is asked to."""
    head = b"PACK" + (2).to_bytes(4) + (2).to_bytes(4) + packed(COMMIT, NEW.content) + b"\x30"
    with path.open("wb") as file:
        file.write(command_lines((A, NEW.oid, ref)) + head)
        file.truncate(size)  # a hole: it takes no room


async def push(proxy: Proxy, upstream: RawUpstream, ref: str, size: int, version: str) -> tuple[int, bytes]:
    """The status of curl, and the answer."""
    folder = Path(proxy.ca).parent
    write_push(folder / "body", ref, size)
    ran = await run(
        folder,
        *("curl", "--disable", "--silent", "--proxy", proxy.url, "--cacert", proxy.ca, version),
        *("--request", "POST", "--upload-file", "body"),
        *("--header", "content-type: application/x-git-receive-pack-request", "--header", "expect:"),
        # This host is given nothing by the proxy.
        *("--header", f"authorization: {WANTED}"),
        f"https://{OTHER}:{upstream.port}{PATH}",
        patience=PATIENCE,
    )
    return ran.status, ran.out


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
async def test_an_allowed_push_takes_no_more_memory_than_a_small_one(
    tmp_path: Path, upstream: RawUpstream, version: str
) -> None:
    """Vector 19."""
    async with proxied(tmp_path, upstream) as proxy:
        assert await push(proxy, upstream, X, WARMING, version) == (0, b"%d\n" % WARMING)
        before, _ = await proxy.ask()
        assert await push(proxy, upstream, X, MUCH, version) == (0, b"%d\n" % MUCH)
        after, exchanges = await proxy.ask()
        assert after - before < MOST_GROWTH
        for line, size in zip(exchanges, (WARMING, MUCH), strict=True):
            assert (line["code"], line["bytes_up"]) == ("rule.allowed", size)
            assert f"update {X} {A} {NEW.oid} forward" in str(line["facts"])


async def test_a_refused_push_is_read_into_nothing(tmp_path: Path, upstream: RawUpstream) -> None:
    async with proxied(tmp_path, upstream) as proxy:
        # Shorter than what is drained, so that the answer is read.
        status, answer = await push(proxy, upstream, MAIN, MAX_DRAINED_BYTES // 2, "--http1.1")
        assert (status, b"ng refs/heads/main no rule allows" in answer) == (0, True)
        before, _ = await proxy.ask()
        status, _ = await push(proxy, upstream, MAIN, 2 * MAX_DRAINED_BYTES, "--http1.1")
        after, exchanges = await proxy.ask()
        assert status in (0, 55, 56), "the answer may come while curl still sends"
        assert after - before < MIB * 8
        assert [line["code"] for line in exchanges] == ["git.ref"] * 2
        assert not upstream.requests
