# What type checkers see of `egress.ca`: each name is loaded when it is first asked for.

from egress.ca.authority import Authority
from egress.ca.bundle import merged_bundle, public_roots
from egress.ca.constraints import Constraints
from egress.ca.issue import Leaf
from egress.ca.store import AuthorityStore, new_authority_file

__all__ = [
    "Authority",
    "AuthorityStore",
    "Constraints",
    "Leaf",
    "merged_bundle",
    "new_authority_file",
    "public_roots",
]
