"""git itself as the judge of what a push says: it never sees a command that we have not read.

`git receive-pack` is given the same bytes, and a hook writes down what it was asked for and moves nothing.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from egress.errors import WireError
from egress.inspect.git.pkt_line import FLUSH_PKT, pkt_line
from egress.inspect.git.push_request import PushReader
from tests.conftest import IS_NIGHTLY
from tests.faults.seeded_random import SeededRandom
from tests.fuzz import mutate
from tests.proxy.lab.git import git_environment
from tests.unit.inspect.git.git_bytes import ZERO, pack

pytestmark = pytest.mark.system("git", "git")

CASES = 2000 if IS_NIGHTLY else 120
_HOOK = """#!/bin/sh
exec > "$0.seen"
cat
for each in $(seq 0 $((${GIT_PUSH_OPTION_COUNT:-0} - 1))); do
  eval "echo \\"option \\$GIT_PUSH_OPTION_$each\\""
done
exit 1
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """The commands and options of a push, in order."""

    commands: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


class ReceivePack:
    """A repository with three commits, whose hook refuses every push."""

    def __init__(self, folder: Path) -> None:
        self._bare = folder / "bare.git"
        self._around = git_environment(folder)
        self._git("init", "--quiet", "--bare", "--initial-branch=main", str(self._bare))
        self._git("-C", str(self._bare), "config", "receive.advertisePushOptions", "true")
        tree = self._git("-C", str(self._bare), "mktree")
        self.commits: list[str] = []
        for number in range(3):
            parents = [word for parent in self.commits[-1:] for word in ("-p", parent)]
            self.commits.append(
                self._git("-C", str(self._bare), "commit-tree", "-m", str(number), *parents, tree)
            )
        # Everything is reachable, so that any commit may be pushed with an empty pack.
        self._git("-C", str(self._bare), "update-ref", "refs/heads/all", self.commits[-1])
        hook = self._bare / "hooks" / "pre-receive"
        hook.write_text(_HOOK, encoding="utf-8")
        hook.chmod(0o755)
        self._seen = self._bare / "hooks" / "pre-receive.seen"

    def _git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words], env=self._around, check=True, capture_output=True, input=b"", timeout=30
        )
        return done.stdout.decode().strip()

    def asked(self, body: bytes) -> Asked | None:
        """The push as git understands it; None where it never came so far."""
        self._seen.unlink(missing_ok=True)
        command = ["git", "receive-pack", "--stateless-rpc", str(self._bare)]
        subprocess.run(command, env=self._around, input=body, capture_output=True, check=False, timeout=30)
        if not self._seen.is_file():
            return None
        lines = self._seen.read_bytes().decode("utf-8", "surrogateescape").splitlines()
        return Asked(
            tuple(line for line in lines if not line.startswith("option ")),
            tuple(line[7:] for line in lines if line.startswith("option ")),
        )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> ReceivePack:
    return ReceivePack(tmp_path_factory.mktemp("receive-pack"))


def ours(body: bytes) -> Asked | None:
    """The push as we read it; None if we refuse it."""
    reader = PushReader()
    try:
        found = reader.feed(body) or reader.end()
    except WireError:
        return None
    return Asked(tuple(f"{each.old} {each.new} {each.ref}" for each in found.commands), found.options)


def good_push(chance: SeededRandom, commits: list[str]) -> tuple[list[bytes], list[bytes]]:
    """Lines of commands and of options."""
    refs = chance.sample(("refs/heads/a", "refs/heads/b/c", "refs/tags/v1", "refs/notes/x"), 2)
    commands = [f"{ZERO} {chance.one_of(commits)} {ref}".encode() for ref in refs[: chance.one_of((1, 2))]]
    asked = ["report-status-v2", "atomic", "object-format=sha1", "agent=git/2.39.5"]
    has_options = chance.randrange(2) == 0
    asked += ["push-options"] * has_options
    commands[0] += b"\0 " + " ".join(asked).encode()
    lines = [*map(pkt_line, commands), FLUSH_PKT]
    if chance.randrange(4) == 0:
        lines.insert(0, pkt_line(f"shallow {chance.one_of(commits)}".encode()))
    options = [*map(pkt_line, chance.sample((b"ci.skip", b"a b\n"), 1)), FLUSH_PKT] if has_options else []
    return lines, options


def test_git_reads_a_push_as_we_do(server: ReceivePack) -> None:
    for case in range(30):
        lines, options = good_push(SeededRandom("receive-pack", case), server.commits)
        body = b"".join(lines + options) + pack()
        asked = server.asked(body)
        assert asked is not None, body
        assert asked == ours(body), body


def test_git_sees_no_command_that_we_have_not_read(server: ReceivePack) -> None:
    """The control: some of the damaged pushes still come through to git, and some we refuse."""
    spare = [
        FLUSH_PKT,
        b"0001",
        b"0004",
        pkt_line(b"push-cert\0report-status"),
        pkt_line(f"{ZERO} {server.commits[0]} refs/heads/extra".encode()),
        pkt_line(f"{ZERO} {server.commits[0]} refs/heads/extra\0push-options".encode()),
        pkt_line(f"{ZERO} {server.commits[1].upper()} refs/heads/upper\n".encode()),
    ]
    passed = refused = 0
    for case in range(CASES):
        chance = SeededRandom("damaged", case)
        lines, options = good_push(chance, server.commits)
        body = b"".join(mutate.rows(chance, lines + options, spare, chance.one_of((1, 2))))
        if chance.randrange(2):
            body = mutate.scratch(chance, body)
        body += pack()
        asked, read = server.asked(body), ours(body)
        assert asked is None or read is None or asked == read, body
        passed += asked is not None and read is not None
        refused += asked is not None and read is None
    assert passed > CASES // 20
    assert refused > CASES // 20
