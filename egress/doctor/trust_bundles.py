"""The bundles that variables of the environment name: whom programs that are started here trust.

Programs that go through the proxy have to trust its authority, and a bundle that was exported once is not
renewed by itself. What the proxy trusts does not hang on these variables; that is looked at in `roots`.
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
from egress.doctor.proxy_setup import ProxySetup
from egress.errors import EgressError

MAX_BUNDLE_AGE: Final = 365 * DAY_SECONDS
"""A bundle of this age lacks roots that came since, and has some that went."""

_EXPORT: Final = "egress ca export --bundle"
_OURS: Final = b"Egress "


@dataclass(frozen=True, slots=True)
class NamedBundle:
    """A file, and the variables that name it."""

    path: Path
    variables: tuple[str, ...]
    replaces: bool
    """One of them at least names everything a program trusts."""

    @property
    def name(self) -> str:
        more = len(self.variables) - 1
        return self.variables[0] + (f" and {more} more" if more else "")

    @property
    def renewal(self) -> str:
        """The command that writes it anew."""
        return f"`{_EXPORT} --force --out {shlex.quote(str(self.path))}`"


def check(patient: ProxySetup, authority: Authority | None, *, is_led_here: bool) -> Iterator[Diagnosis]:
    """Look at every file that is named; `is_led_here` says that programs started here use the proxy."""
    found = list(_named(patient))
    if not found and is_led_here:
        yield warning(
            "bundles",
            "programs that are started here are led to the proxy, and none is told to trust its authority",
            f"`{_EXPORT} --out FILE` writes a bundle, and says which variables are to name it",
        )
    elif not found:
        yield ok("bundles", f"none is named here by {', '.join((*patient.replacing, *patient.adding))}")
    for named in found:
        yield _judged(patient, named, authority, is_led_here=is_led_here)


def _named(patient: ProxySetup) -> Iterator[NamedBundle]:
    """Every file once, in the order of the variables."""
    names: dict[str, list[str]] = {}
    for name in (*patient.replacing, *patient.adding):
        if text := patient.environ.get(name):
            names.setdefault(text, []).append(name)
    for text, variables in names.items():
        yield NamedBundle(Path(text), tuple(variables), not set(patient.replacing).isdisjoint(variables))


def _judged(
    patient: ProxySetup, named: NamedBundle, authority: Authority | None, *, is_led_here: bool
) -> Diagnosis:
    name, path = named.name, named.path
    with suppress(OSError):
        if path.is_dir():
            return note(name, f"{path} is a folder, which was not looked into")
    try:
        found = list(certificates(private_roots([path])))
    except EgressError as error:
        return warning(name, error.message, f"name a sound one: `{_EXPORT} --out FILE` makes it")
    ours = authority.certificate.public_bytes(Encoding.DER) if authority else None
    if ours in found:
        return _ours(named, len(found), int(patient.clock.now() - path.stat().st_mtime))
    if any(is_of_a_proxy(der) for der in found):
        return warning(
            name, f"{path} has the authority of a proxy, and not that of this one as it is now", named.renewal
        )
    if is_led_here:
        return warning(
            name,
            f"{path} lacks the authority of the proxy, to which programs that are started here are led",
            f"name a bundle with it: `{_EXPORT} --out FILE` makes one",
        )
    return note(name, f"{path} has {counted(len(found), 'certificate')}, without the authority of the proxy")


def _ours(named: NamedBundle, count: int, age: int) -> Diagnosis:
    """A bundle with the authority of the proxy in it."""
    if count == 1 and named.replaces:
        fact = f"{named.path} has the authority of the proxy and nothing else: no public host is trusted"
        return warning(named.name, fact, named.renewal)
    if age > MAX_BUNDLE_AGE:
        fact = f"{named.path} was made {age // DAY_SECONDS} days ago, and public roots change"
        return warning(named.name, fact, named.renewal)
    return ok(
        named.name, f"{named.path} has the authority of the proxy, among {counted(count, 'certificate')}"
    )


def is_of_a_proxy(der: bytes) -> bool:
    """Whether a certificate is that of an authority of Egress, this one or another."""
    if _OURS not in der:
        # Nearly all: the public roots are not taken apart, some of which a reader would complain about.
        return False
    try:
        subject = x509.load_der_x509_certificate(der).subject
        organisations = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
        titles = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except ValueError:
        return False
    return [item.value for item in organisations] == ["Egress"] and bool(titles)
