"""A terminal is shown again: its modes are followed, and nothing begins in a sequence."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as some

from egress.fleet.terminal_replay import (
    MAX_REPLAY_BYTES,
    TerminalModes,
    find_boundary,
    make_replay,
)

PARTS = some.sampled_from(
    [b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?25l", b"\x1b[?1;2004h", b"x", b"\n", b"\x1b", b"\x1bc"]
)
ALTERNATE = b"\x1b[?1049h"


def modes_of(*pieces: bytes) -> TerminalModes:
    modes = TerminalModes()
    for piece in pieces:
        modes.feed(piece)
    return modes


@given(some.lists(PARTS, max_size=20).map(b"".join), some.lists(some.integers(1, 9), max_size=20))
def test_the_cut_does_not_matter(data: bytes, sizes: list[int]) -> None:
    pieces, rest = [], data
    for size in sizes:
        pieces.append(rest[:size])
        rest = rest[size:]
    assert modes_of(*pieces, rest).setting == modes_of(data).setting


@given(some.binary(max_size=300), some.binary(max_size=300))
def test_any_bytes_are_followed(one: bytes, two: bytes) -> None:
    modes = modes_of(one, two)
    replay = make_replay(one + two, modes, is_whole=False)
    # What is set again is set back, and following a replay leads to the same modes.
    assert modes_of(modes.setting).setting == modes.setting
    assert modes_of(modes.setting, modes.restoring).restoring == b""
    assert len(replay) <= len(one + two) + 400


def test_modes_are_those_that_were_set_last() -> None:
    modes = modes_of(b"\x1b[?1049h\x1b[?25l\x1b[?1h text \x1b[?2004h", b"\x1b[?1l\x1b[?9999h\x1b[?2004l")
    assert modes.setting == b"\x1b[?1049h\x1b[?1l\x1b[?25l\x1b[?2004l"
    assert modes.restoring == b"\x1b[?25h\x1b[?1049l"
    modes.feed(b"\x1bc\x1b[?1000h")
    assert modes.setting == b"\x1b[?1000h"


def test_the_screen_of_an_editor_is_shown_long_after_it_was_opened() -> None:
    modes = modes_of(b"\x1b[?1049h\x1b[?25l", *[b"line\r\n" * 1000] * 100)
    replay = make_replay(b"ne\r\n" + b"line\r\n" * 100, modes, is_whole=False)
    begin, end = replay.index(ALTERNATE), replay.index(b"\x1b[2J")
    assert begin < end
    assert replay[end + 4 :] == b"line\r\n" * 100


def test_output_begins_at_a_line_or_a_sequence() -> None:
    for cut, rest in (
        (b"[31mred\nnext", b"next"),
        (b"1;31mred\x1b[0mnext", b"\x1b[0mnext"),
        (b"\xbc\xbcx", b""),
    ):
        assert cut[find_boundary(cut) :] == rest
    whole = "grün\n".encode()
    assert make_replay(whole, TerminalModes(), is_whole=True).endswith(b"\x1b[2J" + whole)


def test_only_the_newest_output_is_shown() -> None:
    replay = make_replay(b"a\n" * MAX_REPLAY_BYTES, TerminalModes(), is_whole=True)
    assert len(replay) < MAX_REPLAY_BYTES + 100


def test_a_program_that_writes_nothing_but_sequences_costs_little() -> None:
    piece = b"\x1b[?25l\x1b[?25h" * 5000 + ALTERNATE
    modes = TerminalModes()
    began = time.thread_time()
    for _ in range(200):
        modes.feed(piece)
    # 12 MB; each sequence alone would take seconds.
    assert time.thread_time() - began < 2
    assert modes.setting == ALTERNATE + b"\x1b[?25h"
