"""Pushes and packs for the fuzzer: made right, then damaged, and read in pieces and whole."""

from __future__ import annotations

from typing import Final

from egress.errors import WireError
from egress.inspect.git.fast_forward import ForwardProof
from egress.inspect.git.pack_commits import Commit, PackCommits
from egress.inspect.git.pkt_line import FLUSH_PKT, pkt_line
from egress.inspect.git.push_request import PushReader, PushRequest, RefCommand
from egress.inspect.git.ref_name import is_ref_name
from egress.inspect.git.refusal_report import push_report
from tests.faults.seeded_random import SeededRandom
from tests.fuzz import mutate
from tests.fuzz.sample import Sample
from tests.unit.inspect.git.git_bytes import BLOB, COMMIT, OFS_DELTA, TAG, ZERO, A, B, C, commit, pack, packed

_REFS: Final = (
    "refs/heads/main", "refs/heads/agent/x", "refs/heads/agent/PACK", "refs/tags/v1", "refs/heads/a..b",
    "HEAD", "refs/heads/agent/x.lock", "refs/for/main%topic=x",
)  # fmt: skip
_CAPABILITIES: Final = (
    "", " report-status-v2 side-band-64k object-format=sha1 agent=git/2.39.5", "report-status",
    "report-status push-options atomic", "object-format=sha256 report-status", "push-cert=x",
)  # fmt: skip
_SPARE_LINES: Final = (
    FLUSH_PKT, b"0001", b"0004", b"PACK", pkt_line(b"push-cert\0report-status"), pkt_line(b"ci.skip\n"),
    pkt_line(f"shallow {C}".encode()), pkt_line(f"{A} {B} refs/heads/main\0atomic".encode()),
)  # fmt: skip


def make_push(chance: SeededRandom) -> Sample:
    """Commands, options and a pack."""
    commands = [
        f"{chance.one_of((ZERO, A))} {chance.one_of((ZERO, B, B, C))} {ref}".encode()
        for ref in chance.sample(_REFS[: chance.one_of((4, 4, len(_REFS)))], chance.one_of((1, 1, 2, 3)))
    ]
    commands[0] += b"\0" + chance.one_of(_CAPABILITIES[: chance.one_of((3, 3, 6))]).encode()
    tail = chance.one_of((_pack(chance), _pack(chance), b"", FLUSH_PKT))
    lines = mutate.rows(chance, [*map(pkt_line, commands), FLUSH_PKT], _SPARE_LINES, chance.randrange(3))
    data = b"".join(lines) + tail
    if chance.randrange(3) == 0:
        data = mutate.scratch(chance, data, chance.one_of((1, 1, 3)))
    return Sample("git.push", mutate.cut(chance, data))


def check_push(sample: Sample) -> None:
    """However it is cut, it is the same push or the same refusal, and refuses in lines of its own."""
    data = b"".join(sample.client)
    whole = _read_push((data,))
    assert _read_push(sample.client) == whole, "how it is cut changes what is read"
    found, commands = whole
    for command in commands:
        assert is_ref_name(command.ref), "a ref that git does not know"
        assert f"{command.old} {command.new} {command.ref}".encode() in data, (
            "a command that does not stand there"
        )
    if isinstance(found, PushRequest):
        push_report(found.capabilities, {command.ref: "no" for command in commands}, "no")


def _read_push(pieces: tuple[bytes, ...]) -> tuple[PushRequest | str, tuple[RefCommand, ...]]:
    reader = PushReader()
    try:
        for piece in pieces:
            if (found := reader.feed(piece)) is not None:
                return found, reader.commands
        return reader.end(), reader.commands
    except WireError as error:
        return error.message, reader.commands


def _pack(chance: SeededRandom) -> bytes:
    made = [commit(A)]
    for _ in range(chance.randrange(4)):
        made.append(commit(chance.one_of(made).oid, *chance.sample((A, B, C), chance.randrange(2))))
    objects = [packed(COMMIT, each.content) for each in made]
    spare = (packed(TAG, b"object"), packed(BLOB, b"blob"), packed(OFS_DELTA, b"x"), packed(COMMIT, b"tree "))
    return pack(mutate.rows(chance, objects, spare, chance.randrange(3)))


def make_pack(chance: SeededRandom) -> Sample:
    """A pack alone."""
    data = _pack(chance)
    if chance.randrange(2):
        data = mutate.scratch(chance, data, chance.one_of((1, 1, 3)))
    return Sample("git.pack", mutate.cut(chance, data))


def check_pack(sample: Sample) -> None:
    """However it is cut, the same commits are found, and they prove the same."""
    data = b"".join(sample.client)
    whole = _read_pack((data,))
    assert _read_pack(sample.client) == whole, "how it is cut changes what is found"
    if whole:
        # The last one follows what it names, whatever else the pack holds.
        last = whole[-1]
        for parent in last.parents:
            proof = ForwardProof([RefCommand("refs/heads/x", parent, last.oid)])
            proof.feed(data)
            assert not proof.unproven, "a commit does not follow its parent"


def _read_pack(pieces: tuple[bytes, ...]) -> list[Commit]:
    reader = PackCommits()
    return [found for piece in pieces for found in reader.feed(piece)]
