"""Clones of repositories into a sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from egress.api.schema import CloneSettings, CloneView
from egress.api_server.call import ApiCall
from egress.sandbox.git import Git

if TYPE_CHECKING:
    from egress.api_server.call import BlockingHandler


def _clone(call: ApiCall) -> CloneView:
    body: CloneSettings = call.body
    made = Git(call.place).clone(
        body.url, body.path, branch=body.branch, depth=body.depth, timeout=body.timeout
    )
    return CloneView(path=made.path, commit=made.commit)


GIT_CALLS: dict[str, BlockingHandler] = {"clone": _clone}
"""Handlers by the names of their operations."""
