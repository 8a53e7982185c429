"""What the process was started with: the only module that reads the environment.

It hands values out; it must not keep, print or interpret secrets among them. Whoever needs a part of
the environment is given it as an argument.
"""

from __future__ import annotations

import os
from collections.abc import Mapping


def environment() -> Mapping[str, str]:
    """Return the environment as it is now: a copy, so that nothing done to it has an effect."""
    return dict(os.environ)


def is_plain(environ: Mapping[str, str]) -> bool:
    """Whether the user asked for output without colour: by `NO_COLOR`, or by a terminal that has none."""
    return bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
