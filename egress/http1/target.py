"""The four forms of a request target, told apart strictly.

The target stays as it is: no decoding, no dot segments, no case folding. Rules judge paths; what is
refused here has no valid form at all.
"""

from __future__ import annotations

import re
from typing import Final

from egress.errors import WireError
from egress.http1.events import Form
from egress.http1.grammar import AUTHORITY

# A query straight behind the authority is refused: readers differ on where the host ends in it.
_ABSOLUTE: Final = re.compile(rf"(?i:https?)://({AUTHORITY})(?:/[\x21-\x7e]*+)?+")
_HOST_PORT: Final = re.compile(rf"(?=[^:\[]++:|\[[^\]]++\]:){AUTHORITY}")
_HOST: Final = re.compile(AUTHORITY)


def read_target(method: str, target: str) -> tuple[Form, str]:
    """Return the form of `target` and the authority it names (`""` for origin and asterisk form).

    Both come out of `REQUEST_LINE`, which has looked at every character.
    Raises WireError where the form is none of the four, or not the one the method calls for.
    """
    if method == "CONNECT":
        return "authority", _read_connect(target)
    if target[0] == "/":
        return "origin", ""
    if target == "*":
        if method == "OPTIONS":
            return "asterisk", ""
        raise WireError("Only OPTIONS may have the target `*`.")
    found = _ABSOLUTE.fullmatch(target)
    if found is None:
        raise WireError("The request target has no valid form.", "Use a path, or a full http or https URL.")
    return "absolute", found[1]


def _read_connect(target: str) -> str:
    if _HOST_PORT.fullmatch(target) is None:
        raise WireError("The target of CONNECT is not host:port.")
    return target


def is_authority(text: str) -> bool:
    """Tell whether `text` may stand in Host: a name or address, maybe a port, nothing else."""
    return _HOST.fullmatch(text) is not None
