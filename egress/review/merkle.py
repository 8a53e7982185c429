"""A Merkle tree over all lines of a log, which proves that some lines belong to a signed log. Pure.

The tree follows RFC 6962: a leaf is SHA-256(0, line), a node is SHA-256(1, left, right), and the left subtree
has the largest power of two of leaves below the total. The proof holds the hashes of the largest subtrees
without a shown line. The shown lines and the proof give the root hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

EMPTY_ROOT = hashlib.sha256(b"").digest()


@dataclass(frozen=True, slots=True)
class MerkleNode:
    """A subtree: its first leaf, its number of leaves and its hash."""

    at: int
    size: int
    digest: bytes


def hash_leaf(line: bytes) -> bytes:
    """Hash a line, given without its line end."""
    # The first byte tells leaves from nodes: without it, a node could be passed off as a line.
    return hashlib.sha256(b"\0" + line).digest()


def _joined(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


@dataclass(slots=True)
class _Part:
    at: int
    size: int
    digest: bytes
    is_shown: bool
    """True if a leaf is shown. The hidden parts are in the proof already."""


@dataclass(slots=True)
class MerkleTree:
    """A tree that grows by leaves or subtrees. Only its right edge is in memory."""

    leaves: int = 0
    proof: list[MerkleNode] = field(default_factory=list)
    """Subtrees without a shown line, unordered."""
    _edge: list[_Part] = field(default_factory=list)

    def add(self, digest: bytes, size: int = 1, *, is_shown: bool = False) -> None:
        """Add a leaf or a subtree. Raises `ValueError` for a subtree that does not fit here."""
        # Checked, because sizes and order come from a bundle that may be forged.
        if size < 1 or size & (size - 1) or self.leaves % size:
            raise ValueError("the subtree does not fit at this position")
        self._edge.append(_Part(self.leaves, size, digest, is_shown))
        self.leaves += size
        while len(self._edge) > 1 and self._edge[-2].size == self._edge[-1].size:
            right, left = self._edge.pop(), self._edge.pop()
            self._edge.append(self._join(left, right))

    def _join(self, left: _Part, right: _Part) -> _Part:
        is_shown = left.is_shown or right.is_shown
        # A subtree with a shown leaf cannot be in the proof as one node: its halves are looked at.
        if is_shown:
            for part in (left, right):
                self._add_to_proof(part)
        return _Part(left.at, left.size + right.size, _joined(left.digest, right.digest), is_shown)

    def _add_to_proof(self, part: _Part) -> None:
        if not part.is_shown:
            self.proof.append(MerkleNode(part.at, part.size, part.digest))

    def root(self) -> bytes:
        """Complete the proof and return the root hash. Call this once, at the end."""
        for part in self._edge:
            self._add_to_proof(part)
        if not self._edge:
            return EMPTY_ROOT
        digest = self._edge[-1].digest
        for part in reversed(self._edge[:-1]):
            digest = _joined(part.digest, digest)
        return digest


def rebuild_root(proof: Iterator[MerkleNode], lines: Iterator[bytes], leaves: int) -> bytes | None:
    """Compute the root hash of a tree with `leaves` leaves from sorted proof nodes and shown lines.

    None if they do not fit together.
    """
    # Proof nodes and lines fill the tree from left to right; a leftover of either means a forged bundle.
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
