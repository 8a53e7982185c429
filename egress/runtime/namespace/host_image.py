"""The parts of this machine that a sandbox of the image `host` sees: programs, and their needs.

All of /usr with its top-level links, and settings in /etc that are equal on all machines of a kind. Neither
/home, /var, /opt nor /run. Settings of a site in /etc (keys, passwords, tokens of package managers, user
names) are left out, because only the entries named here are shown. Pure.
"""

from __future__ import annotations

from typing import Final

IMAGE_NAME: Final = "host"
PROGRAM_FOLDERS: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SHOWN_SETTINGS: Final = (
    *("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "timezone", "locale.alias"),
    *("ssl/certs", "ssl/openssl.cnf", "ca-certificates", "ca-certificates.conf", "crypto-policies"),
    *("pki/tls/certs", "pki/tls/openssl.cnf", "pki/ca-trust/extracted", "pki/java"),
    *("os-release", "debian_version", "lsb-release", "redhat-release", "alpine-release"),
    *("services", "protocols", "rpc", "ethertypes", "gai.conf", "host.conf", "mime.types", "magic"),
    *("magic.mime", "terminfo", "inputrc", "bash.bashrc", "profile.d", "profile", "fonts", "xml", "sgml"),
    *("java-11-openjdk", "java-17-openjdk", "java-21-openjdk", "java-25-openjdk", "perl", "groff"),
)
"""Entries of /etc. Folders are shown whole: none of these is meant for secrets."""
COVERED_FOLDERS: Final = ("/usr/local/etc",)
"""Folders in which locally installed programs keep settings like those in /etc."""


NSSWITCH_FILE: Final = (
    b"passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n"
)
"""The contents of nsswitch.conf."""


def hosts(hostname: str) -> bytes:
    """The names that need no name server."""
    return _text(["127.0.0.1 localhost", f"127.0.1.1 {hostname}"])


def resolver(door: str) -> bytes:
    """resolv.conf with the door as only name server. It answers at once or never: timeouts are short."""
    return f"nameserver {door}\noptions timeout:2 attempts:2\n".encode()


def _text(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
