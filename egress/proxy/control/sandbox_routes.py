"""Adding and removing sandboxes over the control socket: what a sandbox runtime asks of a proxy that runs.

Whoever asks is the proxy's own user, and still everything that is said is checked: a runtime takes names from
people. The answer to an addition is what the sandbox is to hold, and nothing else of it: the certificate to
trust, its stand-ins, and its canaries with where each is planted. What they are made from comes along, and
comes back when the sandbox is added to another proxy: what was planted stays what is looked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import structlog

from egress.credentials.placeholder import MIN_KEY_BYTES
from egress.errors import EgressError
from egress.proxy.control.dynamic_sandboxes import DynamicSandboxes
from egress.proxy.control.server import Body, ControlReply, Routes
from egress.proxy.lanes.engine import ProxyEngine, SandboxCanary, ServedSandbox
from egress.types import Identity, parameters_of

_log = structlog.get_logger(__name__)

_REQUEST_KEYS: Final = frozenset({"name", "profile", "params", "seed"})
# Empty, or a key of full length in hexadecimal: a shorter key could be guessed.
_SEED_PATTERN: Final = re.compile(rf"(?:[0-9a-f]{{{2 * MIN_KEY_BYTES}}})?")


class SandboxRoutes:
    """The routes for sandboxes."""

    def __init__(
        self, engine: ProxyEngine, sandboxes: DynamicSandboxes | None, forgotten: Callable[[str], None]
    ) -> None:
        """Without `sandboxes` none can be added. `forgotten` hears of each that was removed."""
        self._engine = engine
        self._sandboxes = sandboxes
        self._forgotten = forgotten

    def routes(self) -> Routes:
        return {("POST", "/sandboxes"): self._add, ("DELETE", "/sandboxes/*"): self._remove}

    async def _add(self, body: Body) -> ControlReply:
        if self._sandboxes is None:
            return _not_here()
        asked = _read(body)
        if asked is None:
            hint = 'send {"name": "...", "profile": null}'
            return ControlReply(400, {"error": "this names no sandbox", "hint": hint})
        identity, seed = asked
        try:
            sandbox = self._sandboxes.add(identity, seed)
        except EgressError as error:
            return _refused(error)
        _log.info("sandbox.added", sandbox=identity.sandbox, profile=identity.profile)
        return ControlReply(201, self._holds(sandbox))

    async def _remove(self, body: Body) -> ControlReply:
        if self._sandboxes is None:
            return _not_here()
        name = str(body.get("name", ""))
        # Only added sandboxes: the sandbox of the settings cannot be removed over the socket.
        if name not in self._sandboxes:
            hint = f"added sandboxes: {', '.join(sorted(self._sandboxes)) or 'none'}"
            return ControlReply(404, {"error": "no added sandbox has this name", "hint": hint})
        try:
            cut = await self._sandboxes.remove(name)
        except EgressError as error:
            return _refused(error)
        # Forgotten after the removal: a later sandbox of this name starts without its revocations.
        self._forgotten(name)
        _log.info("sandbox.removed", sandbox=name, connections=cut)
        return ControlReply(200, {"name": name, "connections": cut})

    def _holds(self, sandbox: ServedSandbox) -> Body:
        stand_ins: dict[str, dict[str, str]] = {}
        for each in sandbox.placeholders(self._engine.policy).all:
            stand_ins.setdefault(each.secret, {})[each.like] = each.value
        return {
            "ca": sandbox.authority.certificate_pem.decode("ascii"),
            "placeholders": stand_ins,
            "canaries": [_planted(each) for each in sandbox.planted(self._engine.policy)],
            "seed": sandbox.canary_key.hex(),
        }


def _read(body: Body) -> tuple[Identity, bytes] | None:
    """A sandbox, and what canaries are made from; None for what is no such thing."""
    name, profile, seed = body.get("name"), body.get("profile"), body.get("seed", "")
    # Unknown keys are refused: a misspelt `profile` would otherwise mean the default profile.
    if not isinstance(name, str) or not isinstance(profile, str | None) or not body.keys() <= _REQUEST_KEYS:
        return None
    if not isinstance(seed, str) or not _SEED_PATTERN.fullmatch(seed):
        return None
    params = body.get("params", {})
    if not isinstance(params, dict) or not all(isinstance(value, str) for value in params.values()):
        return None
    return Identity(name, profile, parameters_of(params)), bytes.fromhex(seed)


def _planted(each: SandboxCanary) -> Body:
    """A canary, and where the runtime is to plant it."""
    canary = each.canary
    where: dict[str, object] = {"env": canary.env} if canary.env else {}
    if canary.file:
        where |= {"file": canary.file, "content": each.content}
    return {"name": canary.name, "value": each.value, **where}


def _refused(error: EgressError) -> ControlReply:
    return ControlReply(409, {"error": error.message, "hint": error.hint})


def _not_here() -> ControlReply:
    error = "no sandbox can be added to this proxy"
    return ControlReply(409, {"error": error, "hint": "start it with --handover"})
