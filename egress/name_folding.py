"""Names that some server takes for one another.

A sandbox must not be able to put a value of its own beside a credential under a name that the upstream
reads as the same: so the slot of a credential is emptied of all of these, and no two credentials of one
request may stand in slots that are alike. Servers differ; what counts is the loosest of them.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

NAME_MARK: Final = re.compile(r"[!#$%&'*+.^_`|~]")
"""What a header's name may hold beside letters, digits and `-`: CGI makes one and the same of all of it."""
_PHP_FOLDING: Final = str.maketrans("_.[ ", "----")
_BRACKETS: Final = "[]"
_WIDE_ESCAPE: Final = re.compile(r"%u([0-9a-f]{4})")
"""How ASP.NET lets a character be written, beside the two digits of everybody else."""


def fold_header(name: str) -> str:
    """The spelling of a header's name that all names have in common which are read as it."""
    return NAME_MARK.sub("-", name.lower())


def fold_parameter(name: str) -> str:
    """The same for a decoded parameter of a query: case, blanks around it, a NUL and `[...]` do not count.

    Where brackets are the whole of it, as in `[name]`, those of Express and of Rack read what is inside.
    """
    name = name.lower()
    if "%u" in name:
        name = _WIDE_ESCAPE.sub(lambda found: chr(int(found[1], 16)), name).lower()
    name = name.partition("\0")[0].strip()
    if "]" in name:
        name = re.split(r"[\[\]]", name.lstrip(_BRACKETS), maxsplit=1)[0].strip()
    return name.translate(_PHP_FOLDING)


def fold_cookie(name: str) -> str:
    """The same for a cookie, whose name PHP once took for percent-encoded."""
    return fold_parameter(unquote(name.replace("+", " "), "latin-1") if "%" in name or "+" in name else name)
