"""The command that replaces an authority, whole, for hints.

A hint is copied. One that leaves out which authority is meant destroys the key of another one, so the state
folder and the sandbox are always written out. Nothing is rotated here.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path


def rotate_command(
    path: Path, *, constrain: bool = False, rules: Sequence[Path] = (), profile: str | None = None
) -> str:
    """Return the command for the authority in the file `path`, which is `ca/NAME.pem` in a state folder.

    Args:
        path: the file of a `Store`.
        constrain: whether the new one is to sign for the hosts of the rules alone.
        rules: the rules of the proxy; where they are not known, the command says FILE.
        profile: that of the sandbox.
    """
    folder = path.absolute().parent.parent
    words = ["egress", "ca", "rotate", "--state-dir", str(folder), "--sandbox", path.stem]
    if constrain:
        words.append("--constrain")
        for file in rules or (Path("FILE"),):
            words += ["--rules", str(file.absolute() if rules else file)]
        words += ["--profile", profile] if profile else []
    return shlex.join(words)
