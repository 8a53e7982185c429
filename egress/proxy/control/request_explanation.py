"""Explanations over the control socket: what the policy in force would do with a request.

The policy is the one that decides real requests, with its grants and revocations. Nothing is sent, resolved,
counted or recorded.
"""

from __future__ import annotations

from collections.abc import Mapping

from egress.errors import UsageError
from egress.proxy.control.server import Body, ControlReply, Routes
from egress.proxy.lanes.engine import ProxyEngine
from egress.rules.compile.asked_request import asked_head
from egress.rules.compile.rule_tests import describe_decision
from egress.rules.decide.explain import Explanation, explain
from egress.types import GrantRef, Identity


class RequestExplanations:
    """The route for explanations."""

    def __init__(self, engine: ProxyEngine) -> None:
        self._engine = engine

    def routes(self) -> Routes:
        return {("POST", "/explain"): self._for_profile, ("POST", "/explain/*"): self._for_sandbox}

    async def _for_sandbox(self, body: Body) -> ControlReply:
        served = self._engine.sandboxes.get(str(body.get("name", "")))
        if served is None:
            return ControlReply(404, {"error": "no sandbox has this name", "hint": "see `egress status`"})
        return self._answer(served.identity, {key: body[key] for key in body.keys() - {"name"}})

    async def _for_profile(self, body: Body) -> ControlReply:
        profile = body.get("profile")
        identity = Identity("explain", profile if isinstance(profile, str) else None)
        return self._answer(identity, {key: body[key] for key in body.keys() - {"profile"}})

    def _answer(self, identity: Identity, body: Mapping[str, object]) -> ControlReply:
        # Imported here: a proxy that nobody asks does not load the values of the API.
        import msgspec  # noqa: PLC0415

        from egress.api.policy_schema import RequestSettings  # noqa: PLC0415

        try:
            asked = msgspec.convert(body, RequestSettings)
            head = asked_head(asked.method, asked.url, asked.headers.items(), websocket=asked.websocket)
        except msgspec.ValidationError:
            return ControlReply(400, {"error": "this is no request", "hint": 'send {"url": "https://..."}'})
        except UsageError as error:
            return ControlReply(400, {"error": error.message, "hint": error.hint})
        policy, now = self._engine.policy, self._engine.clock.now()
        # Requests of all sandboxes wait meanwhile, so nothing is searched that the answer does not have.
        return ControlReply(200, _fields(explain(policy, identity, head, now, finds_near=False)))


def _fields(found: Explanation) -> dict[str, object]:
    decision = found.decision
    return {
        "verdict": decision.verdict.value,
        "code": decision.code,
        "outcome": describe_decision(decision),
        "rule": str(decision.rule) if decision.rule else None,
        "delegation": decision.rule.delegation if isinstance(decision.rule, GrantRef) else None,
        "profile": found.profile,
        "inject": [each.secret for each in found.injected],
        "observed": decision.observed,
        "place": str(decision.place) if decision.place else None,
        "considered": [
            {
                "rule": str(each.ref),
                "kind": each.kind.value,
                "fits": each.fits,
                "misses": each.misses,
                "place": str(each.ref.place),
            }
            for each in found.considered
        ],
    }
