"""The number of chains that `started` lines tell: a register that was put back or deleted is found by it.

Works on the bytes of lines; whoever relies on the number has to verify the lines. No value of a sandbox can
pass for the field, since a quote within a value is escaped.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from egress.audit import files
from egress.audit.quick_verify import read_batches

_MARK: Final = b'"event":"started"'
_LINE = re.compile(
    rb'^\{"seq":[0-9]+,"time":"[^"]*",(?:"run":"[^"]*",)?"event":"started"(?:,.*?"chains":([0-9]{1,9})\b)?',
    re.MULTILINE,
)


def counts_in(data: bytes) -> list[int]:
    """Return the number that each `started` line tells, in order; 0 for a line of an older version."""
    # Nearly no piece of a log has such a line, and looking for the mark is quick.
    return [int(found[1] or 0) for found in _LINE.finditer(data)] if _MARK in data else []


def newest_count(chain: Path) -> int:
    """Return the number in the newest `started` line of a chain; 0 without any. Raises `OSError`."""
    for number in reversed(files.numbers(chain)):
        with (chain / files.name(number)).open("rb") as file:
            found = [count for data in read_batches(file) for count in counts_in(data)]
        if found:
            return found[-1]
    return 0
