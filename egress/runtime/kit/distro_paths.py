"""Where the programs of a distribution look by themselves: files of the kit to be mounted over or laid there.

A target that the image does not have is made; nothing else reads it. One that is a link is followed, so a
file may be named twice, by the link of one release and the file of another.

Each group says by its target who reads it there; the documentation shows the same words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from egress.runtime.kit.paths import KitPaths


@dataclass(frozen=True, slots=True)
class Overmount:
    """One file of the kit that is to be seen at a second place, too."""

    source: str
    """Its path in the folder of the kit."""
    target: str


Readers = Mapping[str, str]
"""Who reads a file, by the path where it is looked for."""

BUNDLE_PATHS: Final[Readers] = MappingProxyType(
    {
        "/etc/ssl/certs/ca-certificates.crt": "Debian, Alpine, Arch: OpenSSL, Go, curl, GnuTLS",
        "/etc/ssl/cert.pem": "Alpine, Arch; OpenSSL as it is built by itself",
        "/etc/pki/tls/certs/ca-bundle.crt": "RHEL, Fedora",
        "/etc/pki/tls/cert.pem": "RHEL, Fedora: their OpenSSL",
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem": "RHEL, Fedora: the file behind both",
        "/etc/ssl/ca-bundle.pem": "SUSE",
        "/var/lib/ca-certificates/ca-bundle.pem": "SUSE: the file behind it",
        "/etc/ca-certificates/extracted/tls-ca-bundle.pem": "Arch: the file behind the first two",
    }
)
"""What the bundle replaces."""

TRUST_STORE_PATHS: Final[Readers] = MappingProxyType(
    {
        "/etc/ssl/certs/java/cacerts": "JDKs of Debian, Alpine, Arch",
        "/etc/pki/java/cacerts": "JDKs of RHEL, Fedora",
        "/etc/pki/ca-trust/extracted/java/cacerts": "RHEL, Fedora: the file behind it",
        "/var/lib/ca-certificates/java-cacerts": "JDKs of SUSE",
    }
)
"""What the trust store replaces: the one that JDKs of the distribution are linked to."""

ANCHOR_PATHS: Final[Readers] = MappingProxyType(
    {
        "/usr/local/share/ca-certificates/egress.crt": "Debian, Alpine: `update-ca-certificates`",
        "/etc/pki/ca-trust/source/anchors/egress.pem": "RHEL, Fedora: p11-kit, for GnuTLS and NSS",
        "/etc/pki/trust/anchors/egress.pem": "SUSE: p11-kit",
        "/etc/ca-certificates/trust-source/anchors/egress.pem": "Arch: p11-kit",
    }
)
"""Where a bundle is made anew from: beside what is there, the certificate alone."""

CHROMIUM_PATHS: Final[Readers] = MappingProxyType(
    {
        "/etc/chromium/policies/managed/egress.json": "Chromium",
        "/etc/opt/chrome/policies/managed/egress.json": "Google Chrome",
        "/etc/opt/chrome_for_testing/policies/managed/egress.json": "Chrome for Testing, of Playwright",
    }
)
"""The policy of Chromium: a file of its own beside those of the image."""

FIREFOX_PATHS: Final[Readers] = MappingProxyType({"/etc/firefox/policies/policies.json": "Firefox"})
"""The policy of Firefox, which has one file: what the image says there is not read."""

APT_PATHS: Final[Readers] = MappingProxyType({"/etc/apt/apt.conf.d/99egress": "apt behind `sudo`"})
"""For apt behind `sudo`, which drops variables. It is read behind what a variable names, and so it holds."""


def readers_by_file(folder: KitPaths) -> dict[str, Readers]:
    """What each file of the kit is seen as besides, for a kit in this folder."""
    return {
        folder.bundle: BUNDLE_PATHS,
        folder.trust_store: TRUST_STORE_PATHS,
        folder.certificate: ANCHOR_PATHS,
        folder.chromium: CHROMIUM_PATHS,
        folder.firefox: FIREFOX_PATHS,
        folder.apt: APT_PATHS,
    }


def overmounts(folder: KitPaths) -> tuple[Overmount, ...]:
    """All of them, for a kit in this folder."""
    return tuple(
        Overmount(source, target) for source, targets in readers_by_file(folder).items() for target in targets
    )
