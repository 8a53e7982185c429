"""Names of refs, as `git check-ref-format` wants them, and below `refs/` alone.

A name that git refuses, and that some server takes, would be a second spelling of a ref that the rules name.
"""

from __future__ import annotations

import re
from typing import Final

_REF: Final = re.compile(
    r"refs"
    r"(?:/"
    # A component: it neither begins with a dot nor ends with .lock, and holds neither .. nor @{
    r"(?!\.)(?:(?!\.\.|@\{)[^\x00-\x20\x7f~^:?*\[\\/])++"
    r"(?<!\.lock)"
    r")++(?<!\.)"
)


def is_ref_name(name: str) -> bool:
    """Tell whether this is a full ref name that git accepts."""
    return _REF.fullmatch(name) is not None
