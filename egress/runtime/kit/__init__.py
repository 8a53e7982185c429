"""The trust kit: makes programs in a sandbox trust its authority, and use the proxy behind the door.

`make_kit` returns plain values: files, overmounts and variables. The runtime writes the files read-only,
mounts some of them over the paths that the image's programs read, and sets the variables before the first
process starts: many programs read them once. Both halves are needed. Programs with bundled roots read only
variables, and others read only the distribution's bundle.

This package writes no file, connects nowhere and verifies nothing. Only certificates enter: a kit must not
see a key.

Known limits. A program that pins a key or certificate, or that compiles in its roots and reads no variable,
does not trust the authority: its host needs `intercept: never`. Browsers get a policy; Firefox's replaces the
image's policy in /etc. Programs on NSS other than browsers keep roots in the user's home, and are not
reached. A variable cannot override a program's own code: a program that names its roots or its proxy itself
goes its own way, and the network stops it. While the distribution's bundle is mounted over, the tool that
rebuilds it cannot replace it, and prints an error; the certificate also lies in that tool's source folder,
for runtimes that copy instead of mounting.
"""

from __future__ import annotations

from egress.runtime.kit.distro_paths import Overmount
from egress.runtime.kit.kit import Kit, KitFile, make_kit
from egress.runtime.proxy_address import ProxyAddress

__all__ = ["Kit", "KitFile", "Overmount", "ProxyAddress", "make_kit"]
