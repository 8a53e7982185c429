"""Check the certificate bundles named by variables: they decide which servers programs started here trust.

Programs behind the proxy must trust its authority, and an exported bundle does not renew itself. The proxy's
own trust does not depend on these variables; `roots` checks it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from egress.ca.authority import Authority
from egress.ca.bundle import certificates, private_roots
from egress.ca.issue import DAY_SECONDS
from egress.doctor.diagnosis import Diagnosis, counted, note, ok, warning
from egress.doctor.proxy_under_check import ProxyUnderCheck
from egress.errors import EgressError

MAX_BUNDLE_AGE: Final = 365 * DAY_SECONDS
"""A bundle of this age lacks new roots and keeps withdrawn ones."""

_EXPORT: Final = "egress ca export --bundle"
_OURS: Final = b"Egress "


@dataclass(frozen=True, slots=True)
class NamedBundle:
    """A file, and the variables that name it."""

    path: Path
    variables: tuple[str, ...]
    replaces: bool
    """At least one of the variables replaces all trusted certificates of a program."""

    @property
    def name(self) -> str:
        more = len(self.variables) - 1
        return self.variables[0] + (f" and {more} more" if more else "")

    @property
    def renewal(self) -> str:
        """Return the command that writes the bundle anew."""
        return f"`{_EXPORT} --force --out {shlex.quote(str(self.path))}`"


def check(setup: ProxyUnderCheck, authority: Authority | None, *, is_led_here: bool) -> Iterator[Diagnosis]:
    """Check every named file; `is_led_here` says that programs started here use the proxy."""
    found = list(_named(setup))
    if not found and is_led_here:
        yield warning(
            "bundles",
            "programs started here use the proxy, but no variable makes them trust its authority",
            f"`{_EXPORT} --out FILE` writes a bundle and lists the variables to set",
        )
    elif not found:
        yield ok("bundles", f"none named by {', '.join((*setup.replacing, *setup.adding))}")
    for named in found:
        yield _judged(setup, named, authority, is_led_here=is_led_here)


def _named(setup: ProxyUnderCheck) -> Iterator[NamedBundle]:
    """Yield every file once, in the order of the variables."""
    # Most setups name the same bundle in several variables: a single report is enough.
    names: dict[str, list[str]] = {}
    for name in (*setup.replacing, *setup.adding):
        if text := setup.environ.get(name):
            names.setdefault(text, []).append(name)
    for text, variables in names.items():
        yield NamedBundle(Path(text), tuple(variables), not set(setup.replacing).isdisjoint(variables))


def _judged(
    setup: ProxyUnderCheck, named: NamedBundle, authority: Authority | None, *, is_led_here: bool
) -> Diagnosis:
    name, path = named.name, named.path
    # `requests` accepts a folder of certificates, too: unusual, but no mistake.
    with suppress(OSError):
        if path.is_dir():
            return note(name, f"{path} is a folder, which is not checked")
    try:
        found = list(certificates(private_roots([path])))
    except EgressError as error:
        return warning(name, error.message, f"name a valid bundle: `{_EXPORT} --out FILE` creates one")
    # Compare bytes: the authorities of other proxies have similar names.
    ours = authority.certificate.public_bytes(Encoding.DER) if authority else None
    # Our authority first: a bundle may hold old ones of other proxies beside it.
    if ours in found:
        return _ours(named, len(found), int(setup.clock.now() - path.stat().st_mtime))
    if any(is_of_a_proxy(der) for der in found):
        return warning(name, f"{path} contains the authority of another proxy, or an old one", named.renewal)
    # Elsewhere such a bundle is right: most shells have no business with the proxy.
    if is_led_here:
        return warning(
            name,
            f"{path} lacks the authority of the proxy, which programs started here use",
            f"name a bundle that contains it: `{_EXPORT} --out FILE` creates one",
        )
    return note(name, f"{path} has {counted(len(found), 'certificate')}, without the authority of the proxy")


def _ours(named: NamedBundle, count: int, age: int) -> Diagnosis:
    """Judge a bundle that contains the authority of the proxy."""
    # Easily made by `egress ca export` without `--bundle`.
    if count == 1 and named.replaces:
        fact = f"{named.path} contains only the authority of the proxy: no public host is trusted"
        return warning(named.name, fact, named.renewal)
    if age > MAX_BUNDLE_AGE:
        fact = f"{named.path} is {age // DAY_SECONDS} days old, and public roots change"
        return warning(named.name, fact, named.renewal)
    return ok(
        named.name, f"{named.path} contains the authority of the proxy, among {counted(count, 'certificate')}"
    )


def is_of_a_proxy(der: bytes) -> bool:
    """Report whether a certificate belongs to any authority of Egress."""
    if _OURS not in der:
        # Fast path for public roots: some of them make the parser complain.
        return False
    try:
        subject = x509.load_der_x509_certificate(der).subject
        organisations = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
        titles = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except ValueError:
        return False
    return [item.value for item in organisations] == ["Egress"] and bool(titles)
