"""What the process was started with: the only module that reads the environment.

It hands values out; it must not keep, print or interpret secrets among them. Whoever needs a part of
the environment is given it as an argument. The settings of the proxy itself stand in
`egress.proxy.settings`: every command loads this file, and few need that one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from egress.errors import UnreadableError


def read_environment() -> Mapping[str, str]:
    """Return the environment as it is now: a copy, so that nothing done to it has an effect."""
    return dict(os.environ)


def is_plain_output(environ: Mapping[str, str]) -> bool:
    """Whether the user asked for output without colour: by `NO_COLOR`, or by a terminal that has none."""
    return bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"


# Where a user's files live ----------------------------------------------------------------------


def config_dir(environ: Mapping[str, str]) -> Path:
    """Return the folder in which the user's own rules stand; it may not exist."""
    return _base(environ, "XDG_CONFIG_HOME", ".config") / "egress"


def state_dir(environ: Mapping[str, str]) -> Path:
    """Return the folder for what outlives the process: the audit log, the authority, what is trusted."""
    own = environ.get("EGRESS_STATE_DIR")
    return Path(own) if own else _base(environ, "XDG_STATE_HOME", ".local/state") / "egress"


def runtime_dir(environ: Mapping[str, str]) -> Path:
    """Return the folder for what ends with the process: the control socket."""
    own = environ.get("EGRESS_RUNTIME_DIR")
    if own:
        return Path(own)
    given = environ.get("XDG_RUNTIME_DIR", "")
    # A relative path there is to be ignored: it would mean another folder after each `cd`.
    return Path(given) / "egress" if given.startswith("/") else state_dir(environ) / "run"


def _base(environ: Mapping[str, str], variable: str, below_home: str) -> Path:
    given = environ.get(variable, "")
    if given.startswith("/"):
        return Path(given)
    home = environ.get("HOME", "")
    if not home.startswith("/"):
        raise UnreadableError("this user has no home directory", f"set HOME or {variable} to a whole path")
    return Path(home) / below_home
