"""Write the constant headers of an entry into a request head."""

from __future__ import annotations

from dataclasses import replace

from egress.credentials.header import without_header
from egress.types import Head, Headers


def with_set_headers(head: Head, wanted: Headers) -> Head:
    """Return the head with these headers, in place of all that a server may read as one of them."""
    if not wanted:
        return head
    headers = head.headers
    for name, _ in wanted:
        headers = without_header(headers, name)
    return replace(head, headers=(*headers, *wanted))
