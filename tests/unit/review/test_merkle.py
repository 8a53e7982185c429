"""The tree of hashes: some lines and a proof make the whole, and nothing else does."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.review.merkle import EMPTY_ROOT, MerkleNode, MerkleTree, hash_leaf, rebuild_root

LINES = st.lists(st.tuples(st.binary(max_size=5), st.booleans()), max_size=40)


def by_the_book(lines: list[bytes]) -> bytes:
    """RFC 6962, section 2.1, word by word."""
    if not lines:
        return hashlib.sha256(b"").digest()
    if len(lines) == 1:
        return hashlib.sha256(b"\0" + lines[0]).digest()
    split = 1 << (len(lines) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + by_the_book(lines[:split]) + by_the_book(lines[split:])).digest()


def grown(lines: list[tuple[bytes, bool]]) -> tuple[bytes, list[MerkleNode]]:
    tree = MerkleTree()
    for line, is_shown in lines:
        tree.add(hash_leaf(line), is_shown=is_shown)
    root = tree.root()
    return root, sorted(tree.proof, key=lambda node: node.at)


@given(LINES)
def test_it_is_the_tree_of_the_rfc(lines: list[tuple[bytes, bool]]) -> None:
    assert grown(lines)[0] == by_the_book([line for line, _ in lines])


@given(LINES)
def test_the_lines_that_are_shown_and_the_proof_make_the_whole(lines: list[tuple[bytes, bool]]) -> None:
    root, proof = grown(lines)
    shown = [line for line, is_shown in lines if is_shown]
    assert rebuild_root(iter(proof), iter(shown), len(lines)) == root
    assert sum(node.size for node in proof) + len(shown) == len(lines)


@given(LINES, st.data())
def test_no_other_lines_do(lines: list[tuple[bytes, bool]], data: st.DataObject) -> None:
    root, proof = grown(lines)
    shown = [line for line, is_shown in lines if is_shown]
    other = data.draw(st.lists(st.binary(max_size=5), max_size=len(shown) + 1))
    if other != shown:
        assert rebuild_root(iter(proof), iter(other), len(lines)) != root


def test_a_proof_is_small() -> None:
    _, proof = grown([(b"%d" % number, number == 777) for number in range(1000)])
    assert len(proof) < 20


@pytest.mark.parametrize(
    "node", [MerkleNode(0, 3, EMPTY_ROOT), MerkleNode(0, 0, EMPTY_ROOT), MerkleNode(0, 8, EMPTY_ROOT)]
)
def test_a_part_that_cannot_stand_there_is_refused(node: MerkleNode) -> None:
    assert rebuild_root(iter([node]), iter([b"x"] * 9), 5) is None
