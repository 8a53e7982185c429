"""Shows a terminal to a client that comes later: its newest output, begun where no sequence is cut.

A program switches modes of a terminal, such as the second screen of an editor, long before the output that is
kept. So these modes are followed, and set before the output is sent again. The content of the screen is not
modelled: the program draws it anew when the size changes, and a shell shows its lines again.
"""

from __future__ import annotations

import re
from typing import Final

MAX_REPLAY_BYTES: Final = 256 * 1024
"""The newest output that a client gets when it attaches."""
_MODES: Final = frozenset({1, 7, 12, 25, 47, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 1047, 1049, 2004})
"""Private modes that are followed: keys, wrapping, cursor, mouse, screens and pasting."""
_SET_BY_DEFAULT: Final = frozenset({7, 25})
_SCREEN_MODES: Final = frozenset({47, 1047, 1049})
_BEGIN: Final = b"\x1b[?"
_FULL_RESET: Final = b"\x1bc"
_SEQUENCE: Final = re.compile(rb"\x1b\[\?([0-9;]{1,60})([hl])")
_MAX_SEQUENCE_BYTES: Final = 64
_MAX_SEQUENCES: Final = 64
"""Sequences of one piece that are read: a program that writes more of them costs no more."""
_BOUNDARY: Final = re.compile(rb"\n|(?=\x1b)")
_SOFT_RESET: Final = b"\x1b[!p"
_CLEAR: Final = b"\x1b[0m\x1b[H\x1b[2J"


class TerminalModes:
    """The private modes of a terminal, as the output has set them."""

    def __init__(self) -> None:
        self._modes: dict[int, bool] = {}
        self._held = b""
        """The end of the last piece, if a sequence may have begun in it."""

    def feed(self, piece: bytes) -> None:
        """Read the next bytes of the output."""
        data = self._held + piece
        begin = data.rfind(_FULL_RESET)
        if begin >= 0:
            self._modes.clear()
        # From the end, so that a piece that is full of sequences costs as much as one that is not.
        at = len(data)
        found: list[int] = []
        while len(found) < _MAX_SEQUENCES and (at := data.rfind(_BEGIN, max(begin, 0), at)) >= 0:
            found.append(at)
        for start in reversed(found):
            self._apply(data, start)
        last = data.rfind(b"\x1b", max(0, len(data) - _MAX_SEQUENCE_BYTES))
        self._held = b"" if last < 0 or _SEQUENCE.match(data, last) else data[last:]

    @property
    def has_own_screen(self) -> bool:
        """Whether the program draws on a screen of its own, as an editor does."""
        return any(self._modes.get(mode, False) for mode in _SCREEN_MODES)

    @property
    def setting(self) -> bytes:
        """The sequences that set these modes, screens first: a switch of screens restores others."""
        order = sorted(self._modes, key=lambda mode: (mode not in _SCREEN_MODES, mode))
        return b"".join(_sequence(mode, is_set=self._modes[mode]) for mode in order)

    @property
    def restoring(self) -> bytes:
        """The sequences that set every changed mode back, screens last."""
        changed = [mode for mode, is_set in self._modes.items() if is_set != (mode in _SET_BY_DEFAULT)]
        order = sorted(changed, key=lambda mode: (mode in _SCREEN_MODES, mode))
        return b"".join(_sequence(mode, is_set=mode in _SET_BY_DEFAULT) for mode in order)

    def _apply(self, data: bytes, start: int) -> None:
        sequence = _SEQUENCE.match(data, start)
        if sequence is None:
            return
        for number in sequence[1].split(b";"):
            if number and int(number) in _MODES:
                self._modes[int(number)] = sequence[2] == b"h"


def make_replay(output: bytes, modes: TerminalModes, *, is_whole: bool) -> bytes:
    """Return what shows a terminal again; `is_whole` says that the output begins where the program did."""
    newest = output[-MAX_REPLAY_BYTES:]
    if len(newest) < len(output) or not is_whole:
        newest = newest[find_boundary(newest) :]
    return _SOFT_RESET + modes.setting + _CLEAR + newest


def find_boundary(output: bytes) -> int:
    """Return where output that was cut can begin: after a line, or before a sequence; else at its end."""
    found = _BOUNDARY.search(output)
    return len(output) if found is None else found.end()


def _sequence(mode: int, *, is_set: bool) -> bytes:
    return _BEGIN + b"%d%c" % (mode, b"h" if is_set else b"l")
