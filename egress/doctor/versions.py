"""Check the versions of Python and of the packages that security depends on.

A floor states the flaw of older releases; a test compares the floors with the requirements of the package.
Only metadata is read and no package imported, so the check works even if one of them is broken.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Final

from egress.doctor.diagnosis import Diagnosis, fault, ok, warning

Release = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class VersionFloor:
    """The first good release of a package, and the flaw of those before."""

    package: str
    least: Release
    before: str


# Each floor names an advisory or a flaw, so that a reader can check whether it matters.
FLOORS: Final = (
    VersionFloor(
        "mitmproxy",
        (12, 2, 3),
        "this release has published flaws, or internals that Egress does not support (GHSA-527g-3w9m-29hv)",
    ),
    VersionFloor(
        "cryptography", (46, 0, 6), "it accepts certificates that name constraints forbid (CVE-2026-34073)"
    ),
    VersionFloor(
        "pyOpenSSL",
        (26,),
        "an exception in a TLS callback counts as success, so it fails open (CVE-2026-27448)",
    ),
    VersionFloor(
        "h2", (4, 3), "one HTTP/2 request can become two on the way to the upstream (CVE-2025-57804)"
    ),
    VersionFloor(
        "certifi", (2026, 10, 18), "it trusts roots with a published key, which can sign for any host"
    ),
)
CARRIES_A_KEY: Final = (12, 3)
"""The first release of mitmproxy that ships the key of a public authority."""
# mitmproxy changes its internals in major releases, and Egress depends on some of them.
TOO_NEW: Final = {"mitmproxy": (13,)}
PYTHON: Final = ((3, 12), (3, 13))
"""The oldest supported release, and the newest tested release."""

# Pre-releases do not match: no list of flaws mentions them.
_RELEASE = re.compile(r"(\d{1,9}(?:\.\d{1,9}){0,5})(?:\.post\d+)?(?:\+[\w.]+)?", re.ASCII)


def check() -> Iterator[Diagnosis]:
    """Check Python and every package with a floor."""
    yield python(sys.version_info[:3])
    for floor in FLOORS:
        yield package(floor, installed(floor.package))


def python(version: Release) -> Diagnosis:
    """Judge a release of Python."""
    least, newest = PYTHON
    # Older releases of Python only resolve to outdated packages.
    if version[:2] < least:
        return fault(
            "python",
            f"{_text(version)} only gets outdated packages",
            f"use Python {_text(least)} or newer",
        )
    if version[:2] > newest:
        return warning(
            "python",
            f"{_text(version)} is newer than any version Egress was tested with",
            f"use Python {_text(newest)} if anything misbehaves",
        )
    return ok("python", _text(version))


def installed(name: str) -> str | None:
    """Return the version of a package from its metadata; None if it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def package(floor: VersionFloor, found: str | None) -> Diagnosis:
    """Judge the version of a package."""
    name, too_new = floor.package, TOO_NEW.get(floor.package)
    bounds = f"{name}>={_text(floor.least)}" + (f",<{_text(too_new)}" if too_new else "")
    fix = f"`python -m pip install --upgrade '{bounds}'`"
    if found is None:
        return fault(name, "not installed", fix)
    # Pre-releases and local builds cannot be compared with a floor.
    release = released(found)
    if release is None:
        return warning(name, "not a plain release, so its flaws are unknown", fix)
    if release < floor.least:
        return fault(name, f"{_text(release)}: {floor.before}", fix)
    if too_new and release >= too_new:
        return warning(name, f"{_text(release)} is newer than any version Egress supports", fix)
    if name == "mitmproxy" and release >= CARRIES_A_KEY:
        return warning(
            name,
            f"{_text(release)} ships a published key of a public authority; Egress blocks its use",
            f"`python -m pip install '{name}<{_text(CARRIES_A_KEY)}'`",
        )
    return ok(name, _text(release))


def released(version: str) -> Release | None:
    """Return the numbers of a final release; None for any other version."""
    match = _RELEASE.fullmatch(version)
    return None if match is None else tuple(int(number) for number in match[1].split("."))


def _text(release: Release) -> str:
    return ".".join(map(str, release))
