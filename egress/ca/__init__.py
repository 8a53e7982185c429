"""Certificate authorities: who signs what clients see, and whom clients and the proxy trust.

It must not know mitmproxy or OpenSSL contexts: it makes keys, certificates and bundles, nothing else.
"""

from __future__ import annotations

from egress.ca.authority import Authority
from egress.ca.bundle import merged_bundle, public_roots
from egress.ca.constraints import Constraints
from egress.ca.issue import Leaf
from egress.ca.store import DEFAULT_NAME, AuthorityStore

__all__ = [
    "DEFAULT_NAME",
    "Authority",
    "AuthorityStore",
    "Constraints",
    "Leaf",
    "merged_bundle",
    "public_roots",
]
