"""Lock the network of this pod, and prove from inside that the lock holds."""

from __future__ import annotations

import errno
import socket
from typing import Final

from egress.errors import ContentError
from egress.netlock.netlink import apply_batch
from egress.netlock.ruleset import lock_messages

_DIAL_SECONDS: Final = 2.0
_OUTSIDE: Final = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
"""Addresses of documentation, which nobody has: without a lock they stay silent."""
_PORT: Final = 9
_NO_WAY: Final = frozenset({errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
"""A network without an address of a family needs no lock for it."""


def lock_network(proxy_user: int) -> None:
    """Let only this user leave the network. Raises `UnreadableError`, and `ContentError` where it fails."""
    apply_batch(lock_messages(proxy_user))
    for family, address in _OUTSIDE:
        _prove_refused(family, address)


def _prove_refused(family: socket.AddressFamily, address: str) -> None:
    """Dial an address outside of this network: the lock refuses at once, and nothing else does."""
    reason = "the connection was opened"
    try:
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.settimeout(_DIAL_SECONDS)
            sock.connect((address, _PORT))
    except TimeoutError:
        reason = "nobody refused it"
    except OSError as error:
        if error.errno == errno.ECONNREFUSED or (family is socket.AF_INET6 and error.errno in _NO_WAY):
            return
        reason = error.strerror or "it failed in another way"
    raise ContentError(
        f"the lock does not hold: a connection to {address} was not refused at once ({reason})",
        "another rule of this network decides before the lock does: remove it, or use a gateway of its own",
    )
