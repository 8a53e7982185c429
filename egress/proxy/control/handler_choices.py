"""Handlers over the control socket: the owner of a sandbox chooses among those that are loaded.

A choice never takes the place of a handler that the rule file names. It is recorded before it counts, and
ends with the sandbox or the proxy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import msgspec

from egress.api.handler_schema import ChosenHandler, HandlerSettings
from egress.errors import EgressError, UsageError
from egress.proxy.control.server import Body, ControlReply, Routes
from egress.proxy.lanes.engine import ProxyEngine
from egress.rules.decide.outbound import NO_CHOICE, HandlerChoice
from egress.rules.language.hosts import HostError, parse_host_pattern
from egress.rules.language.report import did_you_mean
from egress.types import HandlerUse

MAX_CALLER_CHARS: Final = 256
MAX_PARAM_CHARS: Final = 16_384

_NO_SANDBOX: Final = ControlReply(404, {"error": "no sandbox has this name", "hint": "look at GET /status"})


class _RefusedChoiceError(UsageError):
    """A choice that names something that is not there."""


class HandlerChoices:
    """What the control socket says about handlers."""

    def __init__(self, engine: ProxyEngine) -> None:
        self._engine = engine

    def routes(self) -> Routes:
        return {("GET", "/handlers/*"): self._show, ("POST", "/handlers/*"): self._choose}

    async def _show(self, body: Body) -> ControlReply:
        name = str(body.get("name", ""))
        return ControlReply(200, self._view(name)) if name in self._engine.sandboxes else _NO_SANDBOX

    async def _choose(self, body: Body) -> ControlReply:
        name = str(body.get("name", ""))
        if name not in self._engine.sandboxes:
            return _NO_SANDBOX
        try:
            given = {key: value for key, value in body.items() if key not in ("name", "by")}
            choice = self._choice(msgspec.convert(given, HandlerSettings))
        except msgspec.ValidationError as error:
            return ControlReply(
                400, {"error": f"this is no choice of handlers: {error}", "hint": "send by_host"}
            )
        except _RefusedChoiceError as refusal:
            return ControlReply(409, {"error": refusal.message, "hint": refusal.hint})
        try:
            # First, so that no handler is asked by a choice that is not on record.
            self._record(name, choice, str(body.get("by", ""))[:MAX_CALLER_CHARS])
        except EgressError as error:
            return ControlReply(503, {"error": error.message, "hint": error.hint})
        self._engine.set_handlers(name, choice)
        return ControlReply(200, self._view(name))

    def _choice(self, asked: HandlerSettings) -> HandlerChoice:
        by_host = {}
        for host, handler in asked.by_host.items():
            try:
                pattern = parse_host_pattern(host)
            except HostError as error:
                raise _RefusedChoiceError(f"{host!r}: {error.message}", error.hint) from None
            by_host[pattern] = self._use(handler)
        return HandlerChoice(by_host, None if asked.catch_all is None else self._use(asked.catch_all))

    def _use(self, asked: ChosenHandler) -> HandlerUse:
        outbound = self._engine.policy.outbound
        if asked.use not in outbound.bodies:
            known = (
                did_you_mean(asked.use, outbound.names)
                if outbound.names
                else "name their file with --handlers"
            )
            raise _RefusedChoiceError(f"no handler {asked.use!r} is loaded", known)
        params = json.dumps(asked.params, sort_keys=True, ensure_ascii=False)
        if len(params) > MAX_PARAM_CHARS:
            raise _RefusedChoiceError(
                f"the parameters have more than {MAX_PARAM_CHARS} characters", "shorten them"
            )
        return HandlerUse(asked.use, params)

    def _view(self, name: str) -> dict[str, object]:
        outbound = self._engine.policy.outbound
        choice = outbound.chosen.get(name, NO_CHOICE)
        return {
            "loaded": list(outbound.names),
            "by_host": {str(host): _shown(use) for host, use in choice.by_host.items()},
            "catch_all": None if choice.catch_all is None else _shown(choice.catch_all),
        }

    def _record(self, name: str, choice: HandlerChoice, by: str) -> None:
        # Names alone: a parameter may be anything.
        said = [f"{host}: {use.name}" for host, use in choice.by_host.items()]
        said += [] if choice.catch_all is None else [f"all others: {choice.catch_all.name}"]
        engine = self._engine
        masked = engine.secrets.all_needles().mask(by.encode("utf-8", "replace")).data.decode()
        engine.audit.event(
            "handlers.chosen",
            sandbox=name,
            change=", ".join(said) or "none",
            by=masked,
            policy=engine.policy.digest,
        )
        engine.audit.flush()


def _shown(use: HandlerUse) -> Mapping[str, object]:
    return {"use": use.name, "params": json.loads(use.params)}
