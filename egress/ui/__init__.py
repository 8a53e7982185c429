"""The review page: the audit log in a browser. It only reads, and needs the extra `ui`.

What it shows was chosen by sandboxes and upstreams, so everything is text and nothing is believed. It
knows no proxy and no sandbox: it stands on `egress.review` alone.
"""

from egress.ui.app import make
from egress.ui.chain import Watch
from egress.ui.desk import Desk
from egress.ui.guard import Guard
from egress.ui.session import Session

__all__ = ["Desk", "Guard", "Session", "Watch", "make"]
