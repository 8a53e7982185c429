"""Names that some server takes for one another.

A sandbox must not be able to put a value of its own beside a credential under a name that the upstream
reads as the same: so the slot of a credential is emptied of all of these, and no two credentials of one
request may stand in slots that are alike. Servers differ; what counts is the loosest of them.
"""

from __future__ import annotations

import re
from typing import Final

MARK: Final = re.compile(r"[!#$%&'*+.^_`|~]")
"""What a header's name may hold beside letters, digits and `-`: CGI makes one and the same of all of it."""
_OF_PHP: Final = str.maketrans("_.[ ", "----")


def header(name: str) -> str:
    """The spelling of a header's name that all names have in common which are read as it."""
    return MARK.sub("-", name.lower())


def parameter(name: str) -> str:
    """The same for a decoded parameter of a query: case, blanks around it, a NUL and `[...]` do not count."""
    name = name.partition("\0")[0].strip().lower()
    array, _, rest = name.partition("[")
    if array and "]" in rest:
        name = array.rstrip()
    return name.translate(_OF_PHP)


def cookie(name: str) -> str:
    """The same for a cookie."""
    return parameter(name)
