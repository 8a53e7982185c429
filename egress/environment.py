"""The process environment: the only module that reads it.

Returns values; must not keep, print or interpret secrets among them. Callers pass the parts of the
environment on as arguments. The settings of the proxy are in `egress.proxy.settings`: every command loads
this module, and few need those.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from egress.errors import UnreadableError


def read_environment() -> Mapping[str, str]:
    """Return the current environment as a copy, so that changing it has no effect."""
    return dict(os.environ)


def is_plain_output(environ: Mapping[str, str]) -> bool:
    """Report whether output must have no colour: by `NO_COLOR`, or for a terminal without colours."""
    return bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"


def is_dumb_terminal(environ: Mapping[str, str]) -> bool:
    """Report whether a terminal cannot redraw a line: it is `dumb`, or of an unknown kind."""
    return environ.get("TERM", "") in ("", "dumb")


# Folders of the user ----------------------------------------------------------------------------


def config_dir(environ: Mapping[str, str]) -> Path:
    """Return the folder of the user's own rules; it may not exist."""
    return _base(environ, "XDG_CONFIG_HOME", ".config") / "egress"


def state_dir(environ: Mapping[str, str]) -> Path:
    """Return the folder for data that outlives the process: the audit log, the authority, trusted files."""
    own = environ.get("EGRESS_STATE_DIR")
    return Path(own) if own else _base(environ, "XDG_STATE_HOME", ".local/state") / "egress"


def audit_dir(environ: Mapping[str, str]) -> Path:
    """Return the folder of the audit log."""
    own = environ.get("EGRESS_AUDIT_DIR")
    return Path(own) if own else state_dir(environ) / "audit"


def runtime_dir(environ: Mapping[str, str]) -> Path:
    """Return the folder for data that ends with the process: the control socket."""
    own = environ.get("EGRESS_RUNTIME_DIR")
    if own:
        return Path(own)
    given = environ.get("XDG_RUNTIME_DIR", "")
    # The specification ignores a relative path: it would mean another folder after each `cd`.
    return Path(given) / "egress" if given.startswith("/") else state_dir(environ) / "run"


def _base(environ: Mapping[str, str], variable: str, below_home: str) -> Path:
    given = environ.get(variable, "")
    if given.startswith("/"):
        return Path(given)
    home = environ.get("HOME", "")
    if not home.startswith("/"):
        raise UnreadableError(
            "this user has no home directory", f"set HOME or {variable} to an absolute path"
        )
    return Path(home) / below_home
