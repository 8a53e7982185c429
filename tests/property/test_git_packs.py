"""Packs that git makes, and its own word for whether one commit lies before another."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from egress.inspect.git.fast_forward import ForwardProof
from egress.inspect.git.push_request import RefCommand
from tests.faults.seeded_random import SeededRandom
from tests.proxy.lab.git import git_environment

pytestmark = pytest.mark.system("git", "git")

COMMITS = 40


class History:
    """A repository with a history of many branches and merges."""

    def __init__(self, folder: Path, object_format: str) -> None:
        self._folder, self._around = folder, git_environment(folder)
        self.git("init", "--quiet", f"--object-format={object_format}")
        chance = SeededRandom("history", object_format)
        self.commits: list[str] = []
        for number in range(COMMITS):
            (folder / "file").write_text("line\n" * number + chance.one_of(("a", "b", "c")), encoding="utf-8")
            self.git("add", "file")
            parents = chance.sample(self.commits[-6:], min(len(self.commits), chance.one_of((1, 1, 1, 2, 3))))
            words = [word for parent in parents for word in ("-p", parent)]
            tree = self.git("write-tree").decode().strip()
            made = self.git("commit-tree", "-m", f"commit {number}\n\n{'text ' * 40}", *words, tree)
            self.commits.append(made.decode().strip())
        self.git("tag", "--annotate", "-m", "tag", "v1", self.commits[-1])

    def git(self, *words: str, said: str = "") -> bytes:
        command = ["git", "-C", str(self._folder), *words]
        done = subprocess.run(
            command, env=self._around, input=said.encode(), capture_output=True, check=True, timeout=60
        )
        return done.stdout

    def is_before(self, old: str, new: str) -> bool:
        command = ["git", "-C", str(self._folder), "merge-base", "--is-ancestor", old, new]
        return subprocess.run(command, env=self._around, check=False, timeout=60).returncode == 0

    def pack(self, new: str, *known: str) -> bytes:
        """The pack of a push to a server that has these commits."""
        said = "\n".join([new, *(f"^{each}" for each in known)]) + "\n"
        return self.git(
            "pack-objects", "--revs", "--thin", "--delta-base-offset", "--stdout", "-q", said=said
        )


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_an_update_is_proven_exactly_where_git_calls_it_a_fast_forward(
    tmp_path: Path, object_format: str
) -> None:
    history = History(tmp_path, object_format)
    chance = SeededRandom("updates", object_format)
    seen = {True: 0, False: 0}
    for _ in range(50):
        old, new = chance.sample(history.commits, 2)
        is_forward = history.is_before(old, new)
        proof = ForwardProof(
            [RefCommand("refs/heads/x", old, new)], "sha1" if object_format == "sha1" else "sha256"
        )
        proof.feed(history.pack(new, old))
        assert proof.unproven == (frozenset() if is_forward else {"refs/heads/x"}), (old, new)
        seen[is_forward] += 1
    assert min(seen.values()) > 5


def test_a_server_that_knows_more_only_makes_it_harder_to_prove(tmp_path: Path) -> None:
    """Commits that the server has from other branches are not in the pack, and nothing false is proven."""
    history = History(tmp_path, "sha1")
    chance = SeededRandom("known", 1)
    proven = 0
    for _ in range(40):
        old, new, *others = chance.sample(history.commits, 4)
        proof = ForwardProof([RefCommand("refs/heads/x", old, new)])
        proof.feed(history.pack(new, old, *others))
        assert proof.unproven or history.is_before(old, new)
        proven += not proof.unproven
    assert proven


def test_a_tag_between_the_commits_does_not_end_the_reading(tmp_path: Path) -> None:
    history = History(tmp_path, "sha1")
    new = history.commits[-1]
    old = next(each for each in reversed(history.commits[:-1]) if history.is_before(each, new))
    said = f"refs/tags/v1\n{new}\n^{old}\n"
    proof = ForwardProof([RefCommand("refs/heads/x", old, new)])
    proof.feed(history.git("pack-objects", "--revs", "--stdout", "-q", said=said))
    assert not proof.unproven
