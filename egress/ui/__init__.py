"""The review page: the audit log in a browser. It only reads, and needs the extra `ui`.

What it shows was chosen by sandboxes and upstreams, so everything is text and nothing is believed. It
knows no proxy and no sandbox: it stands on `egress.review` alone.
"""

from egress.ui.app import make
from egress.ui.chain_watch import ChainWatch
from egress.ui.guard import RequestGuard
from egress.ui.index_pool import IndexPool
from egress.ui.session import LoginSession

__all__ = ["ChainWatch", "IndexPool", "LoginSession", "RequestGuard", "make"]
