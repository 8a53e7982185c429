"""Check the roots for upstreams: recent public roots without refused ones, and private roots.

Loads the roots like the proxy. Also checks the origin of the public roots: some systems silently replace the
pinned bundle of this package by their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import certifi

from egress.ca.bundle import REFUSED_ROOTS, certificates, private_roots, public_roots
from egress.ca.issue import DAY_SECONDS
from egress.doctor.diagnosis import Diagnosis, fault, from_error, ok, warning
from egress.doctor.proxy_under_check import ProxyUnderCheck
from egress.doctor.validity import load, validity
from egress.errors import EgressError

MAX_ROOTS_AGE: Final = 180 * DAY_SECONDS
"""Bundles appear every month or two; older ones lack withdrawals."""
UPGRADE: Final = "`python -m pip install --upgrade certifi`"

_DATED = re.compile(r"(20\d\d)\.(\d{1,2})\.(\d{1,2})", re.ASCII)


def check(setup: ProxyUnderCheck) -> Iterator[Diagnosis]:
    """Check the public roots, then every file of private ones."""
    yield from _public(setup.clock.now())
    for path in setup.values.upstream_ca:
        yield _private(path, setup.clock.now())


def _public(now: int) -> Iterator[Diagnosis]:
    place, package = Path(certifi.where()).resolve(), Path(certifi.__file__).resolve().parent
    # Some distributions patch `certifi.where()` to return the system's own file.
    if not place.is_relative_to(package):
        yield fault(
            "certifi",
            f"it returns {place}, which is not its own bundle: it may contain withdrawn roots",
            "install certifi from the package index, in its own virtual environment",
        )
    try:
        count = sum(1 for _ in certificates(public_roots()))
    except EgressError as error:
        yield from_error("public roots", error)
        return
    # The version of certifi is its release day, so the age is known without a network.
    released = made_at(certifi.__version__)
    age = (now - released) // DAY_SECONDS if released is not None else -1
    if age * DAY_SECONDS > MAX_ROOTS_AGE:
        yield warning("public roots", f"{count} of certifi {certifi.__version__}, {age} days old", UPGRADE)
    else:
        old = f", {age} days old" if age >= 0 else ""
        yield ok("public roots", f"{count} of certifi {certifi.__version__}{old}")
    yield ok("refused roots", f"absent: {', '.join(name.decode() for name in REFUSED_ROOTS)}")


def _private(path: Path, now: int) -> Diagnosis:
    name = str(path)
    try:
        found = [validity(load(der)) for der in certificates(private_roots([path]))]
    except EgressError as error:
        return from_error(name, error)
    # The narrowest validity counts: an upstream may need any of the certificates.
    begins, ends = max(first for first, _ in found), min(last for _, last in found)
    if ends <= now:
        return warning(name, f"a certificate in it expired on {_day(ends)}", "replace it by the new one")
    if begins > now:
        return warning(
            name, f"a certificate in it is not valid before {_day(begins)}", "check the clock, then the file"
        )
    return ok(name, f"private roots: {len(found)}, the first expires on {_day(ends)}")


def made_at(version: str) -> int | None:
    """Return the release day of certifi as UTC seconds; None if its version is no date."""
    match = _DATED.fullmatch(version)
    try:
        return int(datetime(*map(int, match.groups()), tzinfo=UTC).timestamp()) if match else None  # type: ignore[arg-type, misc]
    except ValueError:
        return None


def _day(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"
