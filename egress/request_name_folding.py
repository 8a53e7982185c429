"""Fold the names of headers, parameters and cookies: names that some server reads as one become equal.

A sandbox must not put its own value beside a credential under a name that the upstream reads as the same. So
a credential's slot is cleared of all names with the same folding, and no two credentials of a request may
have slots that fold alike. Servers differ; the most lenient one counts.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

MAX_PARTS: Final = 500
"""Parameters or cookies of a request that names are looked for in, where a rule asks for that. Servers read
different numbers of them, PHP and Django 1,000; and folding thousands keeps all other requests waiting."""
NAME_MARK: Final = re.compile(r"[!#$%&'*+.^_`|~]")
"""Characters of a header name beside letters, digits and `-`: CGI turns all of them into `_`."""
# PHP turns `.`, `[` and blanks in a parameter name into `_`.
_PHP_FOLDING: Final = str.maketrans("_.[ ", "----")
_BRACKETS: Final = "[]"
_WIDE_ESCAPE: Final = re.compile(r"%u([0-9a-f]{4})")
"""The `%uXXXX` escape of ASP.NET, beside the usual two digits."""


def fold_header(name: str) -> str:
    """Return the common spelling of all header names that a server may read as this name."""
    return NAME_MARK.sub("-", name.lower())


def fold_parameter(name: str) -> str:
    """Fold a decoded query parameter: case, surrounding blanks, a NUL and `[...]` do not count.

    If brackets enclose the whole name, as in `[name]`, parsers such as Express and Rack read the inner text.
    """
    # Each step follows a known parser: %u of ASP.NET, NUL of C, brackets of Rack, marks of PHP.
    name = name.lower()
    if "%u" in name:
        # Lowered a second time: `%u0041` brings an upper-case letter back.
        name = _WIDE_ESCAPE.sub(lambda found: chr(int(found[1], 16)), name).lower()
    name = name.partition("\0")[0].strip()
    if "]" in name:
        name = re.split(r"[\[\]]", name.lstrip(_BRACKETS), maxsplit=1)[0].strip()
    return name.translate(_PHP_FOLDING)


def fold_cookie(name: str) -> str:
    """Fold a cookie name, which PHP once percent-decoded."""
    return fold_parameter(unquote(name.replace("+", " "), "latin-1") if "%" in name or "+" in name else name)
