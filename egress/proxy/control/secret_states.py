"""The states of secrets over the control socket: names, kinds of sources and causes, and never a value."""

from __future__ import annotations

from egress.proxy.control.revocation import Revocations
from egress.proxy.control.rule_warnings import unscrubbed_secrets
from egress.proxy.control.server import Body, ControlReply, Routes
from egress.proxy.lanes.engine import ProxyEngine


class SecretStates:
    """The route for the states of secrets."""

    def __init__(self, engine: ProxyEngine, revocations: Revocations) -> None:
        self._engine = engine
        self._revocations = revocations

    def routes(self) -> Routes:
        return {("GET", "/secrets"): self._states}

    async def _states(self, _: Body) -> ControlReply:
        # The rules as they were loaded: those in force do not name what is revoked.
        policy, resolver = self._revocations.policy, self._engine.secrets
        specs = policy.secrets.values()
        failed = {each.name: each for each in resolver.unavailable(specs, unscrubbed_secrets(policy))}
        ages, revoked = resolver.ages(specs), self._revocations.all()["secret"]
        found: list[dict[str, object]] = []
        for spec in sorted(specs, key=lambda each: each.name):
            fault = failed.get(spec.name)
            state = "unavailable" if fault else "resolved" if spec.name in ages else "pending"
            found.append(
                {
                    "name": spec.name,
                    "source": spec.scheme,
                    "state": "revoked" if spec.name in revoked else state,
                    "age": ages.get(spec.name),
                    "cause": fault.cause if fault else "",
                    "hint": fault.cure if fault else "",
                }
            )
        return ControlReply(200, {"secrets": found})
