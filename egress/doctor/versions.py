"""The versions of Python and of the packages that security hangs on.

The floors say what is known to be wrong below them; a test holds them to the requirements of the package.
It reads what is installed and imports none of it, so it can still speak when one of them is broken.
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
    """The first release of a package that is good, and what is wrong with those before it."""

    package: str
    least: Release
    before: str


FLOORS: Final = (
    VersionFloor(
        "mitmproxy",
        (12, 2, 3),
        "this release has published flaws, or other insides than Egress is made for (GHSA-527g-3w9m-29hv)",
    ),
    VersionFloor(
        "cryptography", (46, 0, 6), "it passes certificates that name constraints forbid (CVE-2026-34073)"
    ),
    VersionFloor(
        "pyOpenSSL", (26,), "a mistake in a TLS callback counts as consent, so it fails open (CVE-2026-27448)"
    ),
    VersionFloor(
        "h2", (4, 3), "one HTTP/2 request can become two on the way to the upstream (CVE-2025-57804)"
    ),
    VersionFloor("certifi", (2026, 10, 18), "it trusts roots below which a published key signs for any host"),
)
CARRIES_A_KEY: Final = (12, 3)
"""The first release of mitmproxy that has the key of a public authority among its files."""
TOO_NEW: Final = {"mitmproxy": (13,)}
PYTHON: Final = ((3, 12), (3, 13))
"""The oldest release that is good, and the newest that was tried."""

_RELEASE = re.compile(r"(\d{1,9}(?:\.\d{1,9}){0,5})(?:\.post\d+)?(?:\+[\w.]+)?", re.ASCII)


def check() -> Iterator[Diagnosis]:
    """Look at Python and at every package with a floor."""
    yield python(sys.version_info[:3])
    for floor in FLOORS:
        yield package(floor, installed(floor.package))


def python(version: Release) -> Diagnosis:
    """Judge a release of Python."""
    least, newest = PYTHON
    if version[:2] < least:
        return fault(
            "python",
            f"{_text(version)} gets packages that are too old",
            f"use Python {_text(least)} or newer",
        )
    if version[:2] > newest:
        return warning(
            "python",
            f"{_text(version)} is newer than what Egress was tried with",
            f"use Python {_text(newest)} where something behaves oddly",
        )
    return ok("python", _text(version))


def installed(name: str) -> str | None:
    """The version of a package, as its metadata has it; None where there is none."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def package(floor: VersionFloor, found: str | None) -> Diagnosis:
    """Judge the version of a package."""
    name, most = floor.package, TOO_NEW.get(floor.package)
    bounds = f"{name}>={_text(floor.least)}" + (f",<{_text(most)}" if most else "")
    fix = f"`python -m pip install --upgrade '{bounds}'`"
    if found is None:
        return fault(name, "it is not installed", fix)
    release = released(found)
    if release is None:
        return warning(name, "its version is no plain release, so nobody can say what it lacks", fix)
    if release < floor.least:
        return fault(name, f"{_text(release)}: {floor.before}", fix)
    if most and release >= most:
        return warning(name, f"{_text(release)} is newer than what Egress is made for", fix)
    if name == "mitmproxy" and release >= CARRIES_A_KEY:
        return warning(
            name,
            f"{_text(release)} has a published key of a public authority among its files, kept off here",
            f"`python -m pip install '{name}<{_text(CARRIES_A_KEY)}'`",
        )
    return ok(name, _text(release))


def released(version: str) -> Release | None:
    """The numbers of a final release; None for anything else."""
    match = _RELEASE.fullmatch(version)
    return None if match is None else tuple(int(number) for number in match[1].split("."))


def _text(release: Release) -> str:
    return ".".join(map(str, release))
