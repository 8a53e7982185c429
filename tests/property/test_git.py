"""Any bytes of a push are a push, a wait or a refusal; how they were cut makes no difference."""

from __future__ import annotations

import zlib
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from egress.errors import WireError
from egress.inspect.git.endpoint import GitEndpoint, is_git_path, read_endpoint
from egress.inspect.git.fast_forward import ForwardProof
from egress.inspect.git.pack_commits import Commit, PackCommits
from egress.inspect.git.pkt_line import PktLineReader, pkt_line
from egress.inspect.git.push_request import PushCapabilities, PushReader, PushRequest, RefCommand
from egress.inspect.git.ref_name import is_ref_name
from egress.inspect.git.refusal_report import push_report
from tests.unit.inspect.git.git_bytes import (
    BLOB,
    COMMIT,
    OFS_DELTA,
    TAG,
    ZERO,
    A,
    B,
    C,
    Made,
    commit,
    pack,
    packed,
)

# Commands ---------------------------------------------------------------------------------------

oids = st.sampled_from([ZERO, A, B, C, A.upper(), A[:-1], "f" * 64])
refs = st.sampled_from(
    ["refs/heads/main", "refs/heads/agent/x", "refs/heads/PACK", "HEAD", "refs/heads/a..b", "refs/tags/v1"]
)
capabilities = st.lists(
    st.sampled_from(
        ["report-status", "side-band-64k", "atomic", "push-options", "object-format=sha1", "agent=x", "?"]
    ),
    max_size=4,
).map(" ".join)
lines = st.one_of(
    st.builds("{} {} {}".format, oids, oids, refs),
    st.builds("{} {} {}\0{}".format, oids, oids, refs, capabilities),
    st.builds("shallow {}".format, oids),
    st.just("push-cert\0report-status"),
    st.text(max_size=20),
).map(str.encode)
framed = st.lists(
    st.one_of(
        lines.filter(bool).map(pkt_line),
        st.sampled_from([b"0000", b"0000PACK", b"0001", b"0003", b"0004"]),
        st.binary(max_size=6),
    ),
    max_size=7,
).map(b"".join)
good = st.builds(
    lambda asked, news, tail: (
        b"".join(
            pkt_line(f"{ZERO} {new} refs/heads/{at}".encode() + (b"\0" + asked.encode() if at == 0 else b""))
            for at, new in enumerate(news)
        )
        + b"0000"
        + tail
    ),
    st.sampled_from(["", "report-status", " atomic side-band", "push-options"]),
    st.lists(st.sampled_from([A, B, C]), min_size=1, max_size=4),
    st.sampled_from([b"PACK", b"PAC", b"", b"0000PACK", b"0009ci.sk0000PACK", b"PACKxyz"]),
)
pushes = st.one_of(framed, good)

Outcome = tuple[PushRequest | str | None, str, tuple[RefCommand, ...]]


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(at, len(data)) for at in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def outcome(pieces: list[bytes], *, ended: bool) -> Outcome:
    """The push, or the refusal, and what the end of the body brings."""
    reader = PushReader()
    found: PushRequest | str | None = None
    for piece in pieces:
        try:
            found = reader.feed(piece)
        except WireError as error:
            return error.message, "", reader.commands
        if found is not None:
            return found, "", reader.commands
    end = ""
    if ended:
        try:
            found = reader.end()
        except WireError as error:
            end = error.message
    return found, end, reader.commands


@given(pushes, st.lists(st.integers(0, 300), max_size=6), st.booleans())
def test_cutting_a_push_makes_no_difference(data: bytes, cuts: list[int], ended: bool) -> None:
    assert outcome(cut(data, cuts), ended=ended) == outcome([data], ended=ended)


@given(pushes)
def test_a_push_that_was_read_holds_no_surprise(data: bytes) -> None:
    found, _, commands = outcome([data], ended=True)
    if isinstance(found, PushRequest):
        assert found.commands == commands
        assert len({command.ref for command in commands}) == len(commands)
        for command in commands:
            assert is_ref_name(command.ref)
            assert command.ref.encode() in data
            assert command.old != command.new
            assert not {ord(char) for char in command.ref} & {*range(33), 127}


@given(good)
def test_the_pack_begins_where_the_commands_end(data: bytes) -> None:
    reader = PushReader()
    try:
        found = reader.feed(data)
    except WireError:
        return
    if found is not None:
        assert data.endswith(reader.rest)
        assert reader.rest.startswith(b"PACK")


@given(st.binary(max_size=40), st.lists(st.integers(0, 40), max_size=4))
def test_lines_are_the_bytes_between_their_lengths(data: bytes, cuts: list[int]) -> None:
    reader = PktLineReader()
    spelled = b""
    try:
        for piece in cut(data, cuts):
            reader.feed(piece)
            while (line := reader.next_line()) is not None:
                spelled += pkt_line(line) if line else b"0000"
    except WireError:
        assert data.lower().startswith(spelled.lower())
        return
    assert (spelled + reader.take_rest()).lower() == data.lower()


# Packs ------------------------------------------------------------------------------------------

chains = st.lists(st.integers(0, 3), min_size=1, max_size=8)


def chain(choices: list[int]) -> list[Made]:
    """Commits of which each follows some before it."""
    made = [commit(A)]
    for choice in choices:
        made.append(commit(made[-1 - choice % len(made)].oid, *([B] if choice == 3 else [])))
    return made


odd_objects = st.sampled_from(
    [packed(TAG, b"tag"), packed(BLOB, b"blob"), packed(OFS_DELTA, b"x"), b"\x9f", b"", zlib.compress(b"x")]
)


@st.composite
def packs(draw: st.DrawFn) -> bytes:
    objects = [packed(COMMIT, made.content) for made in chain(draw(chains))]
    objects.insert(draw(st.integers(0, len(objects))), draw(odd_objects))
    data = bytearray(pack(objects))
    for _ in range(draw(st.integers(0, 2))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


def read_commits(pieces: list[bytes]) -> tuple[list[Commit], bool]:
    reader = PackCommits()
    return [found for piece in pieces for found in reader.feed(piece)], reader.is_over


@given(packs(), st.lists(st.integers(0, 1500), max_size=8))
def test_cutting_a_pack_makes_no_difference(data: bytes, cuts: list[int]) -> None:
    assert read_commits(cut(data, cuts)) == read_commits([data])


@given(st.binary(max_size=200).map(b"PACK\0\0\0\2\0\0\0\3".__add__))
def test_any_pack_is_read_or_left(data: bytes) -> None:
    read_commits([data])


@given(chains, st.integers(0), st.integers(0))
def test_an_update_is_proven_if_and_only_if_the_old_commit_comes_before(
    choices: list[int], old: int, new: int
) -> None:
    """Against the definition: the set of all commits that lie before."""
    made = chain(choices)
    by_oid = {each.oid: each for each in made}
    base = [*by_oid, A, B, C][old % (len(by_oid) + 3)]
    tip = made[new % len(made)].oid
    before: set[str] = set()
    left = [tip]
    while left:
        content = by_oid[left.pop()].content
        for line in content.split(b"\n\n")[0].split(b"\n"):
            if line.startswith(b"parent "):
                parent = line[7:].decode()
                before.add(parent)
                left += [parent] if parent in by_oid else []
    proof = ForwardProof([RefCommand("refs/heads/x", base, tip)])
    proof.feed(pack([packed(COMMIT, each.content) for each in made]))
    assert (base in before) == (not proof.unproven)


# Requests and refusals --------------------------------------------------------------------------


@given(
    st.sampled_from(["GET", "POST", "HEAD"]),
    st.lists(
        st.sampled_from(
            ["/acme", "/app", ".git", "/info/refs", "/git-receive-pack", "?", "service=git-upload-pack", "&"]
        ),
        max_size=7,
    ).map("".join),
)
def test_only_paths_of_git_have_an_endpoint(method: str, target: str) -> None:
    found = read_endpoint(method, target)
    if isinstance(found, GitEndpoint):
        assert is_git_path(target.partition("?")[0])
        assert found.repository
        assert target.startswith(f"/{found.repository}")


@given(st.dictionaries(refs, st.text(max_size=500), max_size=4), st.text(max_size=200))
def test_a_report_has_one_line_for_each_ref(reasons: dict[str, str], message: str) -> None:
    data = push_report(PushCapabilities(frozenset(["report-status"])), reasons, message)
    assert data is not None
    reader = PktLineReader()
    reader.feed(data)
    found = []
    while (line := reader.next_line()) is not None:
        found.append(line)
    assert len(found) == len(reasons) + 2
    assert all(line.count(b"\n") == 1 for line in found[:-1])
