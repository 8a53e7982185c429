"""The review page: the audit log in a browser. It only reads, and needs the extra `ui`.

Sandboxes and upstreams chose the values that the page shows, so every value is printed as text and none is
trusted. The package uses `egress.review` only and must not reach the proxy or a sandbox.
"""

from egress.review.index_pool import IndexPool
from egress.ui.app import make
from egress.ui.chain_watch import ChainWatch
from egress.ui.guard import RequestGuard
from egress.ui.login import LoginSession

__all__ = ["ChainWatch", "IndexPool", "LoginSession", "RequestGuard", "make"]
