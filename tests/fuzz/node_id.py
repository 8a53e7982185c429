"""Ids of GitHub's objects for the fuzzer: made right, then damaged, and compared with a lenient reader."""

from __future__ import annotations

import base64
import binascii
from typing import Final

from egress.inspect.graphql.github.node_id import NodeIdError, Part, read_node_id, write_node_id
from tests.faults.seeded_random import SeededRandom
from tests.fuzz import mutate
from tests.fuzz.sample import Sample

_PREFIXES: Final = ("R", "I", "PR", "PRRC", "REF", "U", "BOT", "PVT", "O", "XX")


def make_node_id(chance: SeededRandom) -> Sample:
    """An id of either form, sometimes scratched."""
    if chance.randrange(4) == 0:
        kind = chance.one_of(("Repository", "Issue", "User"))
        text = base64.b64encode(f"0{len(kind)}:{kind}{chance.randrange(10**9)}".encode())
    else:
        parts: list[Part] = [
            chance.one_of((0, 0, 0, 1)),
            chance.randrange(2 ** chance.one_of((7, 8, 32, 64))),
        ]
        parts += [b"r" * chance.one_of((0, 5, 31, 32, 40)) for _ in range(chance.one_of((0, 1, 1, 2)))]
        text = write_node_id(chance.one_of(_PREFIXES), tuple(parts)).encode()
    if chance.randrange(2):
        text = mutate.scratch(chance, text, chance.one_of((1, 1, 2)))
    return Sample("graphql.node-id", mutate.cut(chance, text))


def check_node_id(sample: Sample) -> None:
    """What is read is what a lenient reader sees, in the one spelling of it."""
    text = b"".join(sample.client).decode("latin-1")
    try:
        found = read_node_id(text)
    except NodeIdError:
        return
    prefix, mark, packed = text.partition("_")
    if not mark:
        data = base64.b64decode(text)
        assert data == b"010:Repository%d" % found.repository, "another id is read so"
        assert base64.b64encode(data).decode() == text, "it has two spellings"
        return
    try:
        data = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
    except binascii.Error:
        raise AssertionError("what is no base64 is read") from None
    assert base64.urlsafe_b64encode(data).rstrip(b"=").decode() == packed, "it has two spellings"
    assert found.prefix == prefix, "another type is read"
    number = int.from_bytes(data[3 : 3 + (1 << (data[2] - 0xCC))], "big") if data[2] >= 0xCC else data[2]
    assert found.repository in (0, number), "another repository is read"
