"""Addresses that options of `egress up` name for a port: an address and a number, and never a name."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final

from egress.errors import UsageError
from egress.proxy.setting_values import ListenAddress

_ADDRESS_FORM: Final = re.compile(
    r"(?:\[(?P<long>[^\[\]]+)\]|(?P<short>[0-9.]+)):(?P<port>[0-9]{1,5})", re.ASCII
)


def read_listen_address(flag: str, text: str) -> ListenAddress:
    """Read `127.0.0.1:8700` or `[::1]:8700`. Raises `UsageError`, which names the option."""
    found = _ADDRESS_FORM.fullmatch(text)
    try:
        address = ip_address(found["long"] or found["short"]) if found else None
    except ValueError:
        address = None
    # Names are left out on purpose: whatever they resolve to could be open to everybody. Port 0 would be
    # another one after each start, and unknown to clients.
    if found is None or address is None or not 0 < int(found["port"]) <= 65535:
        raise UsageError(f"{flag} needs an address and a port", "write it like 127.0.0.1:8700 or [::1]:8700")
    return ListenAddress(str(address), int(found["port"]))
