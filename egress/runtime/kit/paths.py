"""The paths of the kit's files inside the sandbox: one folder, with a name for each file.

Variables and configuration files contain these paths, so they are defined only here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from egress.errors import UsageError

# Spaces separate the options of a JVM, colons the folders of PHP; quotes and dollars are special in most
# files.
_PLAIN_PATH: Final = re.compile(r"(?:/\.?[A-Za-z0-9_][A-Za-z0-9._-]*)+")


@dataclass(frozen=True, slots=True)
class KitPaths:
    """The folder of the kit inside the sandbox. Raises `UsageError` for a path that is not plain."""

    path: str

    def __post_init__(self) -> None:
        if not _PLAIN_PATH.fullmatch(self.path):
            raise UsageError(
                "the folder of the kit is not a plain absolute path",
                "use letters, digits, dots, - and _, as in /etc/egress",
            )

    @property
    def certificate(self) -> str:
        """The authority's certificate alone, for programs that add it to their roots."""
        return f"{self.path}/ca.pem"

    @property
    def bundle(self) -> str:
        """Public roots and the authority's certificate, for programs that replace their roots."""
        return f"{self.path}/bundle.pem"

    @property
    def hashed(self) -> str:
        """A folder with the authority's certificate under the name that OpenSSL searches for."""
        return f"{self.path}/certs"

    @property
    def trust_store(self) -> str:
        return f"{self.path}/truststore.p12"

    @property
    def wgetrc(self) -> str:
        return f"{self.path}/wgetrc"

    @property
    def apt(self) -> str:
        return f"{self.path}/apt.conf"

    @property
    def php(self) -> str:
        """A folder of settings: PHP reads all files in it that end in `.ini`."""
        return f"{self.path}/php"

    @property
    def maven(self) -> str:
        return f"{self.path}/maven-settings.xml"

    @property
    def chromium(self) -> str:
        return f"{self.path}/chromium.json"

    @property
    def firefox(self) -> str:
        return f"{self.path}/firefox.json"
