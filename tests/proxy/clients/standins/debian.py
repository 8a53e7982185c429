"""A stand-in for a Debian archive with one package, `tiny` 1.0, and the configuration of an apt of one's own.

The archive is not signed: whether apt checks signatures is nothing that a proxy has to do with.
"""

from __future__ import annotations

import hashlib

from tests.proxy.clients.standins.static_files import CREDENTIAL, Files
from tests.proxy.clients.standins.tarball import tar

CONTROL = """\
Package: tiny
Version: 1.0
Architecture: all
Maintainer: lab <lab@example.test>
Description: nothing much
"""
APART = """\
Dir "{home}";
Dir::State::status "{home}/var/lib/dpkg/status";
Dir::Log "{home}";
APT::Architecture "amd64";
APT::Architectures {{ "amd64"; }};
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "0";
DPkg::Options {{ "--root={home}"; "--force-not-root"; "--log={home}/dpkg.log"; }};
DPkg::Path "{home}:/usr/sbin:/usr/bin:/sbin:/bin";
"""
"""What keeps an apt away from the one of the system: all of its files are at home."""
FOLDERS = (
    *("etc/apt/apt.conf.d", "etc/apt/preferences.d", "var/lib/apt/lists/partial"),
    *("var/cache/apt/archives/partial", "var/lib/dpkg/info", "var/lib/dpkg/updates"),
    "usr/share",
)


def sources(url: str) -> str:
    """The line of `sources.list` for the archive at a URL."""
    return f"deb [trusted=yes] {url} stable main\n"


def archive(at: str, ballast: bytes) -> Files:
    """The files below a path; `ballast` is what the package installs, as /usr/share/tiny."""
    package = deb(ballast)
    index = f"{CONTROL}Filename: pool/tiny.deb\nSize: {len(package)}\nSHA256: {_digest(package)}\n".encode()
    place = "main/binary-amd64/Packages"
    release = (
        f"Label: {CREDENTIAL}\nSuite: stable\nCodename: stable\nDate: Sat, 01 Jan 2000 00:00:00 UTC\n"
        "Architectures: amd64\nComponents: main\n"
        f"SHA256:\n {_digest(index)} {len(index)} {place}\n"
    )
    stable = f"{at}/dists/stable"
    return {
        f"{stable}/Release": release.encode(),
        f"{stable}/{place}": index,
        f"{at}/pool/tiny.deb": package,
    }


def deb(ballast: bytes) -> bytes:
    """A package: an `ar` archive of a version and two tar archives, none of them compressed."""
    members = {
        "debian-binary": b"2.0\n",
        "control.tar": tar({"./control": CONTROL.encode()}),
        "data.tar": tar({"./usr/share/tiny": ballast}),
    }
    made = b"!<arch>\n"
    for name, content in members.items():
        made += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode()
        made += content + b"\n" * (len(content) % 2)
    return made


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
