"""The trust kit: what makes the programs of a sandbox trust its authority and take the way through the door.

`make_kit` returns plain values: files, overmounts and variables. Whoever starts the sandbox lays the files
down read-only, mounts some of them over the places where the image's own programs look, and sets the
variables before the first process begins: many programs read them once. Neither half is enough. Programs
that bring roots of their own look only at variables, and others only at the bundle of the distribution.

Nothing here writes, asks or verifies anything, and only certificates come in: a kit has no access to a key.

Known limits. A program that pins a key or a certificate, or that has its roots compiled in and reads no
variable, does not trust the authority: its host needs `intercept: never`. Browsers are told by a policy; the
one of Firefox takes the place of what an image has in /etc. Programs on NSS that are no browser keep their
roots in the home of whoever starts them, and are not told. A variable cannot turn a program's own code
around: one that names its roots or its proxy itself goes its own way, and the network sees to where that
ends. Where the bundle of the distribution is mounted over, the tool that would write it anew cannot replace
it, and says so; the certificate lies where that tool takes it from as well, for runtimes that copy instead of
mounting.
"""

from __future__ import annotations

from egress.runtime.kit.distro_paths import Overmount
from egress.runtime.kit.kit import Kit, KitFile, make_kit
from egress.runtime.kit.proxy_address import ProxyAddress

__all__ = ["Kit", "KitFile", "Overmount", "ProxyAddress", "make_kit"]
