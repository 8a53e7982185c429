"""A tree of hashes over all lines of a log: proof that some lines are part of a whole that was signed.

The tree is that of RFC 6962: a leaf is SHA-256(0, line), a node is SHA-256(1, left, right), and the left
side of a tree is the largest power of two that is smaller than the whole. Whoever has some of the lines
and, for each largest part of the tree without any of them, its hash, can work out the hash of the whole.
Those hashes are the proof. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

EMPTY_ROOT = hashlib.sha256(b"").digest()


@dataclass(frozen=True, slots=True)
class MerkleNode:
    """A part of the tree: the first of its leaves, how many there are, and its hash."""

    at: int
    size: int
    digest: bytes


def hash_leaf(line: bytes) -> bytes:
    """The hash of a line, given without its end."""
    return hashlib.sha256(b"\0" + line).digest()


def _joined(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


@dataclass(slots=True)
class _Part:
    at: int
    size: int
    digest: bytes
    is_shown: bool
    """Some of its leaves are shown, so those that are not have been told already."""


@dataclass(slots=True)
class MerkleTree:
    """A tree that grows leaf by leaf, or part by part. It holds no more than its right edge."""

    leaves: int = 0
    proof: list[MerkleNode] = field(default_factory=list)
    """The parts without a line that is shown, in no order."""
    _edge: list[_Part] = field(default_factory=list)

    def add(self, digest: bytes, size: int = 1, *, is_shown: bool = False) -> None:
        """Add a leaf, or a whole part of the tree. Raises `ValueError` for a part that cannot stand here."""
        if size < 1 or size & (size - 1) or self.leaves % size:
            raise ValueError("a part of the tree stands where it cannot")
        self._edge.append(_Part(self.leaves, size, digest, is_shown))
        self.leaves += size
        while len(self._edge) > 1 and self._edge[-2].size == self._edge[-1].size:
            right, left = self._edge.pop(), self._edge.pop()
            self._edge.append(self._join(left, right))

    def _join(self, left: _Part, right: _Part) -> _Part:
        is_shown = left.is_shown or right.is_shown
        if is_shown:
            for part in (left, right):
                self._tell(part)
        return _Part(left.at, left.size + right.size, _joined(left.digest, right.digest), is_shown)

    def _tell(self, part: _Part) -> None:
        if not part.is_shown:
            self.proof.append(MerkleNode(part.at, part.size, part.digest))

    def root(self) -> bytes:
        """The hash of the whole; the proof is complete then. To be asked once, at the end."""
        for part in self._edge:
            self._tell(part)
        if not self._edge:
            return EMPTY_ROOT
        digest = self._edge[-1].digest
        for part in reversed(self._edge[:-1]):
            digest = _joined(part.digest, digest)
        return digest


def rebuild_root(proof: Iterator[MerkleNode], lines: Iterator[bytes], leaves: int) -> bytes | None:
    """The hash of a whole of so many leaves, out of lines in their order and a proof in its order.

    None when the two do not make such a whole.
    """
    tree = MerkleTree()
    node = next(proof, None)
    while tree.leaves < leaves:
        if node is not None and node.at == tree.leaves:
            try:
                tree.add(node.digest, node.size)
            except ValueError:
                return None
            node = next(proof, None)
            continue
        line = next(lines, None)
        if line is None:
            return None
        tree.add(hash_leaf(line), is_shown=True)
    is_whole = tree.leaves == leaves and node is None and next(lines, None) is None
    return tree.root() if is_whole else None
