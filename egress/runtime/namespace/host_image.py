"""Which parts of this machine a sandbox sees, where its image is `host`: programs, and what they need to run.

The whole of /usr and what is linked to it; of /etc what is true of every machine of its kind. Nothing else:
no home, no /var, no /opt, no /run. What a site writes into /etc for itself (keys, passwords, tokens of
package managers, who its users are) is not there, because only what is named here is. Pure.
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
"""Below /etc. Folders are shown as they are: none of these is a place for secrets."""
COVERED_FOLDERS: Final = ("/usr/local/etc",)
"""Where programs of a site's own have what is below /etc for others."""


def passwd(user: int, group: int) -> bytes:
    """The users that there are."""
    lines = [f"sandbox:x:{user}:{group}:sandbox:{HOME_FOLDER}:/bin/sh"]
    if user != 0:
        lines.insert(0, "root:x:0:0:root:/root:/bin/sh")
    if user != _NOBODY_ID:
        lines.append(f"nobody:x:{_NOBODY_ID}:{_NOBODY_ID}:nobody:/nonexistent:/bin/false")
    return _text(lines)


def groups(group: int) -> bytes:
    """The groups that there are."""
    lines = [f"sandbox:x:{group}:"]
    if group != 0:
        lines.insert(0, "root:x:0:")
    if group != _NOBODY_ID:
        lines.append(f"nogroup:x:{_NOBODY_ID}:")
    return _text(lines)


HOME_FOLDER: Final = "/home/sandbox"
_NOBODY_ID: Final = 65534
"""Whose everything is that belongs to nobody in the sandbox."""
NSSWITCH_FILE: Final = (
    b"passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n"
)
"""Where names are looked up."""


def hosts(hostname: str) -> bytes:
    """The names that no name server is asked for."""
    return _text(["127.0.0.1 localhost", f"127.0.1.1 {hostname}"])


def resolver(door: str) -> bytes:
    """There is one name server, it is near, and it answers at once or never."""
    return f"nameserver {door}\noptions timeout:2 attempts:2\n".encode()


def _text(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
