"""The proof that an update of a ref only adds commits.

A forced update looks like any other on the wire. But the pack brings the new commits, and each names its
parents: where a way leads from the new commit of a ref back to its old one, nothing is lost by the update.
Where no way is found, nothing is proven: the missing commits may be on the server, on another branch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from egress.inspect.git.pack_commits import PackCommits
from egress.inspect.git.push_request import ObjectFormat, RefCommand

NO_COMMITS: Final[frozenset[str]] = frozenset()


class ForwardProof:
    """Follows the updates of a push through the commits of its pack."""

    __slots__ = ("_commits", "_open", "_parents", "_shallow")

    def __init__(
        self,
        commands: Iterable[RefCommand],
        object_format: ObjectFormat = "sha1",
        shallow: frozenset[str] = NO_COMMITS,
    ) -> None:
        """A server may cut the history at a `shallow` commit, so no way leads through one."""
        self._commits = PackCommits(object_format)
        self._parents: dict[str, tuple[str, ...]] = {}
        self._open = {command.ref: _Way(command) for command in commands if command.kind == "update"}
        self._shallow = shallow

    @property
    def is_settled(self) -> bool:
        """More of the pack changes nothing."""
        return not self._open or self._commits.is_over

    @property
    def unproven(self) -> frozenset[str]:
        """The refs whose updates are not proven."""
        return frozenset(self._open)

    def feed(self, data: bytes) -> None:
        """Take in bytes of the pack."""
        for commit in self._commits.feed(data):
            self._parents[commit.oid] = () if commit.oid in self._shallow else commit.parents
            for ref, way in tuple(self._open.items()):
                if way.goes_on(commit.oid, self._parents):
                    del self._open[ref]


class _Way:
    """The commits that a ref will have, as far as they are known."""

    __slots__ = ("_old", "_reached")

    def __init__(self, command: RefCommand) -> None:
        self._old = command.old
        self._reached = {command.new}

    def goes_on(self, oid: str, parents: dict[str, tuple[str, ...]]) -> bool:
        """Go on from a commit whose parents have just become known; return whether the old one is reached."""
        if oid not in self._reached:
            return False
        left = [oid]
        while left:
            for parent in parents.get(left.pop(), ()):
                if parent == self._old:
                    return True
                if parent not in self._reached:
                    self._reached.add(parent)
                    left.append(parent)
        return False
