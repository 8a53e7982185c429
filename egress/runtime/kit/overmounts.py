"""Where the programs of a distribution look by themselves: files of the kit to be mounted over or laid there.

A target that the image does not have is made; nothing else reads it. One that is a link is followed, so a
file may be named twice, by the link of one release and the file of another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from egress.runtime.kit.folder import Folder


@dataclass(frozen=True, slots=True)
class Overmount:
    """One file of the kit that is to be seen at a second place, too."""

    source: str
    """Its path in the folder of the kit."""
    target: str


BUNDLES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Alpine, Arch; what Go, curl and GnuTLS are built to read
    "/etc/ssl/cert.pem",  # Alpine, Arch; the place of OpenSSL's own builds
    "/etc/pki/tls/certs/ca-bundle.crt",  # RHEL, Fedora
    "/etc/pki/tls/cert.pem",  # RHEL, Fedora: what their OpenSSL reads
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  # RHEL, Fedora: the file behind both
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/var/lib/ca-certificates/ca-bundle.pem",  # SUSE: the file behind it
    "/etc/ca-certificates/extracted/tls-ca-bundle.pem",  # Arch: the file behind the first two
)
"""What the bundle replaces."""

TRUST_STORES: Final = (
    "/etc/ssl/certs/java/cacerts",  # Debian, Alpine, Arch
    "/etc/pki/java/cacerts",  # RHEL, Fedora
    "/etc/pki/ca-trust/extracted/java/cacerts",  # RHEL, Fedora: the file behind it
    "/var/lib/ca-certificates/java-cacerts",  # SUSE
)
"""What the trust store replaces: the one that JDKs of the distribution are linked to."""

ANCHORS: Final = (
    "/usr/local/share/ca-certificates/egress.crt",  # Debian, Alpine
    "/etc/pki/ca-trust/source/anchors/egress.pem",  # RHEL, Fedora: read by p11-kit, for GnuTLS and NSS
    "/etc/pki/trust/anchors/egress.pem",  # SUSE: the same
    "/etc/ca-certificates/trust-source/anchors/egress.pem",  # Arch: the same
)
"""Where a bundle is made anew from: beside what is there, the certificate alone."""

APT: Final = "/etc/apt/apt.conf.d/99egress"
"""For apt behind `sudo`, which drops variables. It is read behind what a variable names, and so it holds."""


def overmounts(folder: Folder) -> tuple[Overmount, ...]:
    """All of them, for a kit in this folder."""
    return (
        *(Overmount(folder.bundle, target) for target in BUNDLES),
        *(Overmount(folder.trust_store, target) for target in TRUST_STORES),
        *(Overmount(folder.certificate, target) for target in ANCHORS),
        Overmount(folder.apt, APT),
    )
