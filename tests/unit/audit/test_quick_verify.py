"""Many lines at once: sound is what the slow way calls sound, and nothing else."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.audit.chain import MAX_LINE_BYTES, ZERO_MAC, Chain, is_authentic, parse_line
from egress.audit.quick_verify import CHUNK, BatchVerifier, is_plain, read_batches, split_lines
from tests.unit.audit.sample import KEY, NAME, check, files, opened

BODIES = st.lists(
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30), min_size=1, max_size=6
)


def made(bodies: list[str]) -> list[bytes]:
    chain = Chain(KEY)
    return [chain.seal("2026-03-01T09:30:00.000123Z", f'"x":"{body}"')[:-1] for body in bodies]


@given(BODIES)
def test_lines_of_the_chain_follow_and_end_with_the_mac_of_the_last(bodies: list[str]) -> None:
    chain = Chain(KEY)
    texts = [chain.seal("2026-03-01T09:30:00.000123Z", f'"x":"{body}"')[:-1] for body in bodies]
    assert BatchVerifier(KEY).last_mac(ZERO_MAC, texts) == chain.mac


@given(BODIES, st.integers(0, 10**6), st.integers(1, 255))
def test_one_changed_byte_anywhere_is_found(bodies: list[str], at: int, byte: int) -> None:
    data = b"\n".join(made(bodies))
    at %= len(data)
    changed = data[:at] + bytes([data[at] ^ byte]) + data[at + 1 :]
    assert BatchVerifier(KEY).last_mac(ZERO_MAC, changed.split(b"\n")) is None


@pytest.mark.parametrize("spelling", ["upper", "short", "long"])
def test_a_mac_in_another_spelling_is_none(spelling: str) -> None:
    (line,) = made(["a"])
    mac = line[-66:-2]
    other = {"upper": mac.upper(), "short": mac[:-1], "long": mac + b"0"}[spelling]
    changed = line[:-66] + other + line[-2:]
    assert BatchVerifier(KEY).last_mac(ZERO_MAC, [changed]) is None
    found = parse_line(changed)
    assert found is None or not is_authentic(Chain(KEY), ZERO_MAC, found)


@given(st.lists(st.sampled_from([b"a\n", b"bb\r\n", b"\n", b"c" * 2000 + b"\n"]), max_size=9), st.booleans())
def test_a_file_comes_in_pieces_that_are_the_file(parts: list[bytes], is_open: bool) -> None:
    data = b"".join(parts) + (b"rest" if is_open else b"")
    pieces = list(read_batches(io.BytesIO(data)))
    assert b"".join(pieces) == data
    assert b"".join(part for piece in pieces for part in split_lines(piece)) == data


def test_what_is_too_long_comes_in_parts() -> None:
    data = b"a\n" + b"x" * (2 * CHUNK) + b"\nb\n"
    pieces = list(read_batches(io.BytesIO(data)))
    assert b"".join(pieces) == data
    assert max(map(len, (part for piece in pieces for part in split_lines(piece)))) <= MAX_LINE_BYTES
    short = b"x" * (MAX_LINE_BYTES + 5) + b"\n"
    assert list(map(len, split_lines(short))) == [MAX_LINE_BYTES, 6, 0][:2]


def test_a_piece_with_a_gap_or_an_open_end_is_not_plain() -> None:
    assert is_plain(b"a\n")
    assert not is_plain(b"a")
    assert not is_plain(b'{"seq":1,"event":"gap","x"}\n')


def test_a_log_of_many_pieces_is_verified_to_its_end(tmp_path: Path) -> None:
    sink = opened(tmp_path, rotate_at=1 << 21)
    for _ in range(8000):
        sink.refusal(NAME)
        sink._folder._windows.clear()
    sink.close()
    verified = check(tmp_path)
    assert verified.is_sound
    assert verified.lines == 8000 + len(files(tmp_path)) - 1
    file = files(tmp_path)[0]
    data = file.read_bytes()
    file.write_bytes(data[:1_500_000].replace(b"evil.example", b"good.example", 1) + data[1_500_000:])
    assert [(fault.file, fault.line) for fault in check(tmp_path).faults] == [("audit-000001.jsonl", 1)]
