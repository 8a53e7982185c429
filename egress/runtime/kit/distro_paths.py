"""The paths at which programs of a distribution search: files of the kit are mounted over or placed there.

A target that the image lacks is created, and not read by other programs. A target that is a symlink is
followed, so a file may be listed twice, by one release's link and another release's file.

Each target names the programs that read it; the documentation shows the same words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from egress.runtime.kit.paths import KitPaths


@dataclass(frozen=True, slots=True)
class Overmount:
    """A file of the kit that also appears at a second path."""

    source: str
    """The file's path in the folder of the kit."""
    target: str


Readers = Mapping[str, str]
"""The programs that read a file, by its path."""

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
"""The paths that the bundle replaces."""

TRUST_STORE_PATHS: Final[Readers] = MappingProxyType(
    {
        "/etc/ssl/certs/java/cacerts": "JDKs of Debian, Alpine, Arch",
        "/etc/pki/java/cacerts": "JDKs of RHEL, Fedora",
        "/etc/pki/ca-trust/extracted/java/cacerts": "RHEL, Fedora: the file behind it",
        "/var/lib/ca-certificates/java-cacerts": "JDKs of SUSE",
    }
)
"""The paths that the Java trust store replaces: JDKs of the distribution link to them."""

ANCHOR_PATHS: Final[Readers] = MappingProxyType(
    {
        "/usr/local/share/ca-certificates/egress.crt": "Debian, Alpine: `update-ca-certificates`",
        "/etc/pki/ca-trust/source/anchors/egress.pem": "RHEL, Fedora: p11-kit, for GnuTLS and NSS",
        "/etc/pki/trust/anchors/egress.pem": "SUSE: p11-kit",
        "/etc/ca-certificates/trust-source/anchors/egress.pem": "Arch: p11-kit",
    }
)
"""Source folders of the tools that rebuild bundles: the certificate alone, beside the others."""

CHROMIUM_PATHS: Final[Readers] = MappingProxyType(
    {
        "/etc/chromium/policies/managed/egress.json": "Chromium",
        "/etc/opt/chrome/policies/managed/egress.json": "Google Chrome",
        "/etc/opt/chrome_for_testing/policies/managed/egress.json": "Chrome for Testing, of Playwright",
    }
)
"""The policy of Chromium: an additional file beside the image's."""

FIREFOX_PATHS: Final[Readers] = MappingProxyType({"/etc/firefox/policies/policies.json": "Firefox"})
"""The policy of Firefox: the only file, so the image's policy is not read."""

APT_PATHS: Final[Readers] = MappingProxyType({"/etc/apt/apt.conf.d/99egress": "apt behind `sudo`"})
"""For apt behind `sudo`, which drops variables. It is read last, so it wins."""


def readers_by_file(folder: KitPaths) -> dict[str, Readers]:
    """The readers of each file of a kit in this folder, by path."""
    return {
        folder.bundle: BUNDLE_PATHS,
        folder.trust_store: TRUST_STORE_PATHS,
        folder.certificate: ANCHOR_PATHS,
        folder.chromium: CHROMIUM_PATHS,
        folder.firefox: FIREFOX_PATHS,
        folder.apt: APT_PATHS,
    }


def overmounts(folder: KitPaths) -> tuple[Overmount, ...]:
    """The overmounts of a kit in this folder."""
    # Every path for every image: the distribution of an image is known only when it runs.
    return tuple(
        Overmount(source, target) for source, targets in readers_by_file(folder).items() for target in targets
    )
