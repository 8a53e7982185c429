"""Rules on bodies: what a verdict costs, what hosts without such rules pay for it, and how fast a push goes.

A push is compared with the same bytes to a host with a plain rule, in one run: both go through the same proxy
to the same upstream, in turns, and of each the best round counts.
"""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bench._timing import seconds
from bench.proxy.contestants import Egress, Running
from bench.proxy.process import OTHERS, free_port, start, stop, wait_for_port
from bench.proxy.setting import Ports, Setting
from egress.inspect.git.git_kind import REQUEST_TYPES
from egress.rules.compile.asked_body import decide_whole, graphql_body
from egress.rules.compile.asked_git import asked_git
from egress.rules.compile.load import RuleText, load
from egress.rules.decide.decision import decide
from egress.rules.decide.policy import Policy
from egress.types import Head, Identity
from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.http1 import body_parts
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.lab.upstream_request import UpstreamRequest

Row = tuple[str, float, str, float | None]

IDENTITY = Identity("bench")
GIT, PLAIN = "git.bench.test", "plain.bench.test"
PATH = "/acme/app/git-receive-pack"
PUSH = asked_git("push acme/app refs/heads/agent/x")
PUSH_BYTES = 1024 * 1024 * 1024
ROUNDS = 3
MAX_PUSH_RATIO = 1.25
"""The time of a push, as a multiple of the plain one: 80 % of its rate."""
MAX_VERDICT_MICROSECONDS = 500
MAX_WORST_MILLISECONDS = 60

PR_LIST = """
fragment pr on PullRequest { number title state url headRefName isDraft createdAt }
query List($owner: String!, $repo: String!, $limit: Int!, $after: String, $state: [PullRequestState!]) {
  repository(owner: $owner, name: $repo) {
    pullRequests(states: $state, first: $limit, after: $after, orderBy: {field: CREATED_AT}) {
      totalCount
      nodes { ...pr author { login ... on User { id name } } headRepositoryOwner { id login } }
      pageInfo { hasNextPage endCursor }
    }
  }
}
"""
"""A document of the size and shape that `gh pr list` sends."""
COSTLY = "{viewer{" + " ".join(f"f{number}" for number in range(3900)) + "}}"
"""As many tokens as are read, in less than the bytes that are."""


def policy(more: str = "") -> Policy:
    """A plain host, and more."""
    rule = "{ id: all, methods: [GET], paths: [/a/**] }"
    text = f"version: 1\nhosts:\n  {PLAIN}:\n    allow: [{rule}]\n{more}"
    loaded = load([RuleText("bench.yaml", text)])
    if loaded.policy is None:
        raise RuntimeError(f"the benchmark's rules do not load: {loaded.findings}")
    return loaded.policy


BODIES = f"""\
  {GIT}:
    allow:
      - {{ id: gql, paths: [/graphql], graphql: {{ query: [repository, viewer] }} }}
      - {{ id: push, git: {{ push: {{ repos: [acme/app], refs: ["refs/heads/agent/**"] }} }} }}
"""


def run() -> list[Row]:
    """All rows of this benchmark."""
    return [*_verdicts(), *_pushes()]


def _verdicts() -> list[Row]:
    without, beside = policy(), policy(BODIES)
    asked = Head("POST", "https", GIT, 443, "/graphql", (("content-type", "application/json"),))
    listed, costly = graphql_body(PR_LIST), graphql_body(COSTLY)
    pushed = replace(asked, target=PUSH.target, headers=PUSH.headers)
    plain = Head("GET", "https", PLAIN, 443, "/a/b", (("accept", "*/*"),))
    alone = _microseconds(lambda: decide(without, IDENTITY, plain, 0), 200)
    next_to = _microseconds(lambda: decide(beside, IDENTITY, plain, 0), 200)
    verdict = _microseconds(lambda: decide_whole(beside, IDENTITY, asked, 0, listed))
    worst = seconds(lambda: decide_whole(beside, IDENTITY, asked, 0, costly), rounds=20)
    push = _microseconds(lambda: decide_whole(beside, IDENTITY, pushed, 0, PUSH.body))
    return [
        ("GraphQL, the document of `gh pr list`", verdict, "us", MAX_VERDICT_MICROSECONDS),
        ("GraphQL, as many tokens as are read", worst * 1000, "ms", MAX_WORST_MILLISECONDS),
        ("git, a push of one ref with its proof", push, "us", None),
        ("a request to a host without rules on bodies", alone, "us", None),
        ("  as a ratio, with such rules on another host", next_to / alone, "x", 1.05),
    ]


def _microseconds(job: Callable[[], object], times: int = 5) -> float:
    """One call: the best of many short rounds, since a long one has always something beside it."""
    return seconds(job, times, rounds=300) * 1e6


# Pushes -------------------------------------------------------------------------------------------


class PushEgress(Egress):
    """Egress with two hosts: rules on refs on one, a plain rule on the other."""

    def __init__(self, port: int) -> None:
        self._port = port

    def prepare(self, setting: Setting, folder: Path) -> None:
        del setting
        port = f"ports: [{self._port}], addresses: [127.0.0.1/32]"
        rule = '{ id: push, git: { push: { repos: [acme/app], refs: ["refs/heads/agent/**"] } } }'
        rules = f"version: 1\nhosts:\n  {GIT}: {{ {port}, allow: [{rule}] }}\n  {PLAIN}: {{ {port} }}\n"
        (folder / "hosts.yaml").write_text(rules, encoding="utf-8")

    def command(self, setting: Setting, folder: Path, port: int) -> list[str]:
        resolved = [f"--resolve={name}=127.0.0.1" for name in (GIT, PLAIN)]
        return [*super().command(setting, folder, port), *resolved]


def _pushes() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="egress-bodies-") as name:
        folder = Path(name)
        certificates = Certificates()
        chain, key = certificates.write_leaf(folder, GIT, PLAIN)
        ca, port, log = certificates.write_ca(folder / "upstream-ca.pem"), free_port(), folder / "sink.log"
        process = start(
            [sys.executable, "-m", "bench.bodies", str(port), str(chain), str(key)], OTHERS, log=log
        )
        try:
            wait_for_port(process, port, log)
            setting = Setting(folder, ca, Ports(port, port, port, port), "", "the tests' own")
            with PushEgress(port).running(setting) as running:
                return _rates(folder, running, port)
        finally:
            stop(process)


def _rates(folder: Path, running: Running, port: int) -> list[Row]:
    body = folder / "body"
    with body.open("wb") as file:
        file.write(PUSH.body)
        file.truncate(PUSH_BYTES)  # a hole: it takes no room
    best = dict.fromkeys((PLAIN, GIT), float("inf"))
    for _ in range(ROUNDS):
        for host in best:
            best[host] = min(best[host], _send(folder, running, host, port))
    plain, pushed = (PUSH_BYTES / best[host] / 1e6 for host in (PLAIN, GIT))
    return [
        ("1 GiB to a host with a plain rule", plain, "MB/s", None),
        ("a push of 1 GiB under rules on refs", pushed, "MB/s", None),
        ("  its time, as a multiple of the plain one", plain / pushed, "x", MAX_PUSH_RATIO),
    ]


def _send(folder: Path, running: Running, host: str, port: int) -> float:
    command = [
        *("curl", "--disable", "--silent", "--show-error", "--fail", "--http1.1"),
        *("--proxy", f"http://127.0.0.1:{running.port}", "--cacert", str(running.ca)),
        *("--request", "POST", "--upload-file", str(folder / "body"), "--header", "expect:"),
        *("--header", f"content-type: {REQUEST_TYPES['git-receive-pack']}"),
        f"https://{host}:{port}{PATH}",
    ]
    begun = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        sys.exit(f"the push ended with status {done.returncode}: {done.stderr or done.stdout}")
    taken = time.monotonic() - begun
    if int(done.stdout) != PUSH_BYTES:
        sys.exit(f"not all of the push arrived: {done.stdout}")
    return taken


async def _count(visit: UpstreamRequest) -> None:
    """Read an upload of any size, and say how much it was."""
    size = 0
    async for part in body_parts(visit.channel, visit.request, to_the_end=False):
        size += len(part)
    await visit.answer(b"%d\n" % size)


async def _serve(port: int, chain: str, key: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    upstream = RawUpstream(context)
    upstream.keeps_log = False
    upstream.handle(PATH, _count)
    async with upstream.on(port):
        await asyncio.Event().wait()


if __name__ == "__main__":
    # The upstream, as a process of its own.
    asyncio.run(_serve(int(sys.argv[1]), *sys.argv[2:4]))
