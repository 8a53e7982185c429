"""Commits at the head of a pack, within bounds."""

from __future__ import annotations

import zlib

import pytest

from egress.inspect.git import pack_commits
from egress.inspect.git.pack_commits import MAX_OBJECT_BYTES, Commit, PackCommits
from tests.unit.inspect.git.git_bytes import (
    BLOB,
    COMMIT,
    OFS_DELTA,
    REF_DELTA,
    TAG,
    TREE,
    A,
    B,
    commit,
    oid,
    pack,
    pack_of,
    packed,
)
from tests.unit.inspect.git.test_pack_delta import sized

FIRST = commit(A)
SECOND = commit(FIRST.oid, B)
ROOT = commit()


def read(data: bytes, step: int = 0) -> tuple[list[Commit], PackCommits]:
    reader = PackCommits()
    found: list[Commit] = []
    for at in range(0, len(data), step or len(data)):
        found += reader.feed(data[at : at + (step or len(data))])
    return found, reader


def oids(data: bytes) -> list[str]:
    return [each.oid for each in read(data)[0]]


@pytest.mark.parametrize("step", [0, 1, 7])
def test_reads_commits_and_their_parents(step: int) -> None:
    found, reader = read(pack_of(SECOND, FIRST, ROOT), step)
    assert found == [
        Commit(SECOND.oid, (FIRST.oid, B)),
        Commit(FIRST.oid, (A,)),
        Commit(ROOT.oid, ()),
    ]
    assert reader.is_over


@pytest.mark.parametrize("kind", [OFS_DELTA, REF_DELTA, 0, 5])
def test_stops_at_an_object_that_cannot_be_read(kind: int) -> None:
    data = pack([packed(COMMIT, FIRST.content), packed(kind, b"x"), packed(COMMIT, SECOND.content)])
    found, reader = read(data)
    assert [each.oid for each in found] == [FIRST.oid]
    assert reader.is_over


@pytest.mark.parametrize("step", [0, 1, 7])
def test_passes_over_other_objects_whatever_they_hold(step: int) -> None:
    """Git writes commits first; other clients, such as go-git, write them last."""
    large = bytes(range(256)) * 600
    delta = packed(REF_DELTA, b"")[:1] + bytes(20) + zlib.compress(b"\x05\x05\x05hello")
    others = [packed(TREE, b""), packed(BLOB, large), packed(TAG, b"object ..."), packed(BLOB, FIRST.content)]
    data = pack([*others[:2], packed(COMMIT, FIRST.content), *others[2:], packed(COMMIT, SECOND.content)])
    found, reader = read(data, step)
    assert [each.oid for each in found] == [FIRST.oid, SECOND.oid]
    assert reader.is_over
    data = pack([bytes([REF_DELTA << 4 | 8]) + delta[1:], packed(COMMIT, FIRST.content)])
    assert [each.oid for each in read(data, step)[0]] == [FIRST.oid]


def test_a_commit_that_is_too_large_is_passed_over() -> None:
    data = pack(
        [packed(COMMIT, commit(message="x" * MAX_OBJECT_BYTES).content), packed(COMMIT, FIRST.content)]
    )
    assert oids(data) == [FIRST.oid]


@pytest.mark.parametrize("size", [1, 70_000])
def test_an_object_of_another_size_than_it_says_ends_the_pack(size: int) -> None:
    data = pack([packed(BLOB, bytes(range(256)) * 300, size=size), packed(COMMIT, FIRST.content)])
    found, reader = read(data)
    assert (found, reader.is_over) == ([], True)


def test_an_empty_pack_is_over_at_once() -> None:
    """Vector 5: a rewind sends nothing new."""
    found, reader = read(pack())
    assert (found, reader.is_over) == ([], True)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"PACC" + pack_of(FIRST)[4:], id="signature"),
        pytest.param(pack([packed(COMMIT, FIRST.content)], version=4), id="version"),
        pytest.param(pack([packed(COMMIT, FIRST.content, size=10)]), id="longer than it says"),
        pytest.param(pack([packed(COMMIT, FIRST.content, size=1000)]), id="shorter than it says"),
        pytest.param(pack([packed(COMMIT, b"")]), id="empty commit"),
        pytest.param(pack([packed(COMMIT, FIRST.content)[:3] + b"\xff" * 300]), id="not deflated"),
        pytest.param(pack([packed(COMMIT, FIRST.content.replace(b"parent ", b"parent  "))]), id="blanks"),
        pytest.param(pack([packed(COMMIT, FIRST.content.replace(b"author", b"auth0r"))]), id="no author"),
        pytest.param(pack([packed(COMMIT, b"x" * (MAX_OBJECT_BYTES + 1))]), id="too large"),
        pytest.param(pack([b"\x9f" + b"\xff" * 40]), id="endless size"),
    ],
)
def test_stops_at_a_fault(data: bytes) -> None:
    found, reader = read(data)
    assert (found, reader.is_over) == ([], True)


def test_reads_no_more_objects_than_the_pack_announces() -> None:
    data = pack([packed(COMMIT, FIRST.content), packed(COMMIT, SECOND.content)], count=1)
    assert oids(data) == [FIRST.oid]


def test_a_commit_of_the_greatest_size_is_read() -> None:
    room = MAX_OBJECT_BYTES - len(commit(A, message="").content)
    large = commit(A, message="x" * room)
    assert len(large.content) == MAX_OBJECT_BYTES
    assert oids(pack([packed(COMMIT, large.content, level=0)])) == [large.oid]


def test_bounds_the_bytes_of_a_pack(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pack_of(FIRST, SECOND)
    monkeypatch.setattr(pack_commits, "MAX_PACK_BYTES", 12 + len(packed(COMMIT, FIRST.content)))
    found, reader = read(data, 5)
    assert ([each.oid for each in found], reader.is_over) == ([FIRST.oid], True)


def test_bounds_the_number_of_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_commits, "MAX_OBJECTS", 1)
    found, reader = read(pack_of(FIRST, SECOND))
    assert ([each.oid for each in found], reader.is_over) == ([FIRST.oid], True)


def test_bounds_what_objects_inflate_to(monkeypatch: pytest.MonkeyPatch) -> None:
    bombs = [packed(TAG, b"\0" * MAX_OBJECT_BYTES, level=9) for _ in range(4)]
    assert sum(map(len, bombs)) < 5000
    monkeypatch.setattr(pack_commits, "MAX_INFLATED_BYTES", 2 * MAX_OBJECT_BYTES)
    data = pack([*bombs, packed(COMMIT, FIRST.content)])
    found, reader = read(data)
    assert (found, reader.is_over) == ([], True)
    assert reader._inflated_room >= -MAX_OBJECT_BYTES
    monkeypatch.undo()
    assert oids(data) == [FIRST.oid]


@pytest.mark.parametrize("step", [0, 1000])
def test_what_is_kept_is_in_proportion_to_what_came(step: int) -> None:
    """A pack of a few KiB must not make a held request keep MiB."""
    text = "x" * (MAX_OBJECT_BYTES - 500)
    bombs = [commit(oid(f"parent {number}"), message=text) for number in range(8)]
    data = pack([packed(COMMIT, made.content, level=9) for made in bombs], count=100)
    found, reader = read(data, step)
    assert (found, reader.is_over) == ([], True)
    stored = pack([packed(COMMIT, made.content, level=0) for made in bombs], count=100)
    assert len(read(stored, step)[0]) == len(bombs)


def test_many_objects_in_one_piece_cost_no_more_than_in_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work is counted in calls and bytes, so the machine does not matter."""
    handed = 0
    real = zlib.decompressobj

    class Counting:
        def __init__(self) -> None:
            self._real = real()

        def decompress(self, data: bytes, most: int) -> bytes:
            nonlocal handed
            handed += len(data)
            return self._real.decompress(data, most)

        def __getattr__(self, name: str) -> object:
            return getattr(self._real, name)

    chain = [commit(oid(str(number))) for number in range(2000)]
    data = pack_of(*chain)
    monkeypatch.setattr(zlib, "decompressobj", Counting)
    assert len(oids(data)) == len(chain)
    assert handed < 2048 * (len(chain) + 1)


def delta_of(base: bytes, content: bytes) -> bytes:
    """A delta that takes over how the base begins."""
    shared = next(at for at, (one, other) in enumerate(zip(base, content, strict=False)) if one != other)
    rest = content[shared:]
    inserts = b"".join(
        bytes([len(rest[at : at + 127])]) + rest[at : at + 127] for at in range(0, len(rest), 127)
    )
    return sized(len(base)) + sized(len(content)) + b"\x90" + bytes([shared]) + inserts


def ofs_delta(base: bytes, content: bytes, distance: int) -> bytes:
    """A delta of the object that begins so many bytes before it."""
    delta = delta_of(base, content)
    assert 128 <= distance < 128 + 2**14
    offset = bytes([(distance - 128) >> 7 | 0x80, (distance - 128) & 0x7F])
    whole = packed(OFS_DELTA, delta)
    header = whole[: whole.index(zlib.compress(delta))]
    return header + offset + zlib.compress(delta)


def ref_delta(base: str, delta: bytes) -> bytes:
    """A delta of the object with this id."""
    whole = packed(REF_DELTA, delta)
    return whole[: whole.index(zlib.compress(delta))] + bytes.fromhex(base) + zlib.compress(delta)


LIKE = commit(A, message="x" * 300)
ALIKE = commit(B, message="x" * 300)


@pytest.mark.parametrize("step", [0, 1, 13])
def test_reads_commits_that_are_deltas_of_others(step: int) -> None:
    first = packed(COMMIT, LIKE.content)
    by_place = ofs_delta(LIKE.content, ALIKE.content, len(first))
    by_id = ref_delta(LIKE.oid, delta_of(LIKE.content, ALIKE.content))
    for second in (by_place, by_id):
        found, _ = read(pack([first, second]), step)
        assert found == [Commit(LIKE.oid, (A,)), Commit(ALIKE.oid, (B,))]


def test_stops_at_a_delta_of_something_else() -> None:
    first = packed(COMMIT, LIKE.content)
    delta = delta_of(LIKE.content, ALIKE.content)
    foreign = ref_delta(A, delta)
    elsewhere = ofs_delta(LIKE.content, ALIKE.content, len(first) + 1)
    broken = ref_delta(LIKE.oid, delta[:-1])
    for second in (foreign, elsewhere, broken):
        found, reader = read(pack([first, second]))
        assert ([each.oid for each in found], reader.is_over) == ([LIKE.oid], True)


def test_bounds_the_bytes_of_deltas(monkeypatch: pytest.MonkeyPatch) -> None:
    first = packed(COMMIT, LIKE.content)
    delta = delta_of(LIKE.content, ALIKE.content)
    data = pack([first, ref_delta(LIKE.oid, delta)])
    monkeypatch.setattr(pack_commits, "MAX_DELTA_BYTES", len(delta) - 1)
    assert oids(data) == [LIKE.oid]
    monkeypatch.setattr(pack_commits, "MAX_DELTA_BYTES", len(delta))
    assert oids(data) == [LIKE.oid, ALIKE.oid]


def test_ids_of_sha256() -> None:
    made = commit(oid("a", "sha256"), object_format="sha256")
    reader = PackCommits("sha256")
    assert reader.feed(pack_of(made)) == [Commit(made.oid, (oid("a", "sha256"),))]
