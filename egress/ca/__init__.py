"""Certificate authorities: keys, certificates, and the bundles that clients and the proxy trust.

Must not know mitmproxy or OpenSSL contexts.
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
