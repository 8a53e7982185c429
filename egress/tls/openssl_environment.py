"""Environment variables of OpenSSL, which the proxy refuses to run with.

A configuration named there changes protocol versions and ciphers of every connection, and loads libraries
into the process. Only `contexts` may set protocol versions and ciphers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from egress.errors import UsageError

MUST_BE_UNSET: Final = ("OPENSSL_CONF", "OPENSSL_MODULES")


def check_environment(environ: Mapping[str, str]) -> None:
    """Raise `UsageError` where a variable is set that OpenSSL follows; an empty one says nothing to it."""
    for name in MUST_BE_UNSET:
        if environ.get(name):
            raise UsageError(
                f"{name} is set, and OpenSSL would be configured by it instead of by Egress",
                f"Unset {name}; set it for other programs alone.",
            )
