"""Damage with a plan: rows are dropped, doubled, swapped and spliced, names exchanged, bytes made odd.

What knows the structure of its input calls `rows` and `names`; `scratch` is for what is left. Everything
follows from the chance that is passed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from tests.attack.lab.names import ADDRESSES, API, EVIL, OTHER, SCOPED
from tests.faults.seeded_random import SeededRandom

ODD: Final = (
    b"\r", b"\n", b"\r\n", b"\0", b" ", b"\t", b":", b",", b";", b"=", b'"', b"\x7f", b"\x80", b"\xff",
    b"%00",
    b"%2e", b"%2f", b"..", b"/", b"//", b"\\", b"@", b"#", b"?", b"[", b"]", b"0", b"-1", b"+5", b"0x",
    b"\x0b",
    b"\xc0\xae", b"\xe2\x80\xae", b"\xe3\x80\x82", b"chunked", b"\x1b[31m", b"\r\n\r\n", b"A" * 300, b"close",
    b"999999999999999999999", b"\x16\x03\x01", b"PRI * HTTP/2.0",
)  # fmt: skip

HOSTS: Final = tuple(sorted(name.encode() for name in ADDRESSES if "*" not in name))
NAMES: Final = (
    API.encode(), SCOPED.encode(), OTHER.encode(), EVIL.encode(), b"below." + EVIL.encode(),
    b"behind.evil.test",
    b"x.any.good.test", b"any.good.test", b"API.GOOD.TEST", b"api.good.test.", b"api.good.test.evil.test",
    b"evilapi.good.test", b"api.good.test@evil.test", b"127.0.0.1", b"169.254.169.254", b"[::1]",
    b"localhost",
    b"2852039166", b"0x7f.1", b"[::ffff:10.0.0.1]", b"xn--pi-8ka.good.test", b"api%2egood.test",
    b"a" * 64 + b".x",
    b"api.good.test\0.evil.test", b"mitm.it", b"egress", b"", b"xn--a9999999999999999999998ka.good.test",
    b"*.any.good.test", b"_x.any.good.test",
)  # fmt: skip
"""Of the allowed and of the denied; a mutation puts one in the place of another."""


def scratch(chance: SeededRandom, data: bytes, times: int = 1) -> bytes:
    """Change a few bytes: insert odd ones, delete, flip, double or cut off."""
    made = bytearray(data)
    for _ in range(times):
        at = chance.randrange(len(made) + 1)
        match chance.randrange(7):
            case 0 | 1:
                made[at:at] = chance.one_of(ODD)
            case 2:
                del made[at : at + chance.one_of((1, 1, 2, 5, 40))]
            case 3 if made:
                made[at % len(made)] ^= 1 << chance.randrange(8)
            case 4:
                made[at : at + 1] = chance.one_of(ODD)
            case 5:
                size = chance.one_of((1, 4, 30))
                made[at:at] = made[at : at + size]
            case _:
                if chance.randrange(4) == 0:
                    del made[at:]
                else:
                    made[at : at + 1] = bytes([chance.randrange(256)])
    return bytes(made)


def rows[T](chance: SeededRandom, items: Sequence[T], spare: Sequence[T], times: int = 1) -> list[T]:
    """Drop, double, swap, move or add items; `spare` are those that can be added."""
    made = list(items)
    for _ in range(times):
        at = chance.randrange(len(made) + 1)
        match chance.randrange(6):
            case 0:
                del made[at : at + 1]
            case 1:
                made[at:at] = made[at : at + 1]
            case 2 if len(made) > 1:
                one, other = chance.randrange(len(made)), chance.randrange(len(made))
                made[one], made[other] = made[other], made[one]
            case 3 if made:
                made.insert(at, made.pop(chance.randrange(len(made))))
            case _ if spare:
                made.insert(at, chance.one_of(spare))
            case _:
                pass
    return made


def names(chance: SeededRandom, data: bytes) -> bytes:
    """Put another host in the place of one that stands there."""
    present = [name for name in HOSTS if name in data]
    if not present:
        return data
    return data.replace(chance.one_of(present), chance.one_of(NAMES), chance.one_of((1, 1, -1)))


def cut(chance: SeededRandom, data: bytes) -> tuple[bytes, ...]:
    """The same bytes in other writes; mostly in one."""
    match chance.randrange(8):
        case 0:
            size = chance.one_of((1, 2, 3, 7, 64))
            # A thousand writes of one byte say no more than a hundred.
            size = max(size, len(data) // 100 + 1)
            return tuple(data[at : at + size] for at in range(0, len(data), size))
        case 1 | 2 if len(data) > 1:
            edges = chance.places(len(data), chance.one_of((1, 2, 5)))
            return tuple(data[a:b] for a, b in pairwise(edges))
        case _:
            return (data,) if data else ()
