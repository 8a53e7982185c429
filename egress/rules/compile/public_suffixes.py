"""Suffixes below which anybody can register names, such as `co.uk`."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from egress.rules.language.hosts import HostPattern

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList


def is_over_public_suffix(pattern: HostPattern) -> bool:
    """Report whether a wildcard covers names that strangers can register."""
    return bool(pattern.stars) and _suffixes().is_public(pattern.suffix)


@cache
def _suffixes() -> PublicSuffixList:
    from publicsuffixlist import PublicSuffixList  # noqa: PLC0415 - the list is long

    # Only names in the list count: an unknown top-level domain is likely to be an internal one.
    return PublicSuffixList(accept_unknown=False)
