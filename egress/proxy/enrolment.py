"""Adding and removing sandboxes over the control socket: what a sandbox runtime asks of a proxy that runs.

Whoever asks is the proxy's own user, and still everything that is said is checked: a runtime takes names from
people. The answer to an addition is what the sandbox is to hold, and nothing else of it: the certificate to
trust, and its stand-ins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from egress.errors import EgressError
from egress.proxy.control import Body, Reply, Routes
from egress.proxy.engine import Engine, Sandbox
from egress.proxy.sandboxes import Sandboxes

_log = structlog.get_logger(__name__)

_KEYS: Final = frozenset({"name", "profile"})


class Enrolment:
    """The routes for sandboxes."""

    def __init__(self, engine: Engine, sandboxes: Sandboxes | None, forgotten: Callable[[str], None]) -> None:
        """Without `sandboxes` none can be added. `forgotten` hears of each that was removed."""
        self._engine = engine
        self._sandboxes = sandboxes
        self._forgotten = forgotten

    def routes(self) -> Routes:
        return {("POST", "/sandboxes"): self._add, ("DELETE", "/sandboxes/*"): self._remove}

    async def _add(self, body: Body) -> Reply:
        if self._sandboxes is None:
            return _not_here()
        name, profile = body.get("name"), body.get("profile")
        if not isinstance(name, str) or not isinstance(profile, str | None) or not body.keys() <= _KEYS:
            hint = 'send {"name": "...", "profile": null}'
            return Reply(400, {"error": "this names no sandbox", "hint": hint})
        try:
            sandbox = self._sandboxes.add(name, profile)
        except EgressError as error:
            return _refused(error)
        _log.info("sandbox.added", sandbox=name, profile=profile)
        return Reply(201, self._holds(sandbox))

    async def _remove(self, body: Body) -> Reply:
        if self._sandboxes is None:
            return _not_here()
        name = str(body.get("name", ""))
        if name not in self._sandboxes:
            hint = f"those that were added are: {', '.join(sorted(self._sandboxes)) or 'none'}"
            return Reply(404, {"error": "there is no sandbox of this name that was added", "hint": hint})
        try:
            cut = await self._sandboxes.remove(name)
        except EgressError as error:
            return _refused(error)
        self._forgotten(name)
        _log.info("sandbox.removed", sandbox=name, connections=cut)
        return Reply(200, {"name": name, "connections": cut})

    def _holds(self, sandbox: Sandbox) -> Body:
        stand_ins: dict[str, dict[str, str]] = {}
        for each in sandbox.placeholders(self._engine.policy).all:
            stand_ins.setdefault(each.secret, {})[each.like] = each.value
        return {
            "ca": sandbox.authority.certificate_pem.decode("ascii"),
            "placeholders": stand_ins,
            "canaries": {each.secret: each.value for each in sandbox.planted(self._engine.policy)},
        }


def _refused(error: EgressError) -> Reply:
    return Reply(409, {"error": error.message, "hint": error.hint})


def _not_here() -> Reply:
    error = "no sandbox can be added to this proxy"
    return Reply(409, {"error": error, "hint": "start it with --handover"})
