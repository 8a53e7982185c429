"""A warm pool of a chart's namespace, whose members ask from their start, or do something else."""

from __future__ import annotations

from typing import Final

from tests.cluster.agent_sandbox.controller import AgentSandbox
from tests.cluster.installed_chart import InstalledChart
from tests.cluster.running_cluster import Json

RULES_OF_TEMPLATE: Final = {
    "ingress": [],
    "egress": [{"to": [{"podSelector": {"matchLabels": {"app": "egress-proxy"}}}]}],
}


class WarmPool:
    """The pool, with its template and that one's policy."""

    def __init__(
        self,
        claims: AgentSandbox,
        gateway: InstalledChart,
        name: str,
        annotations: dict[str, str] | None = None,
        command: list[str] | None = None,
    ) -> None:
        self._claims, self._gateway = claims, gateway
        pod = gateway.asking(name)
        pod["metadata"]["annotations"] = annotations or {}
        if command:
            pod["spec"]["containers"][0]["command"] = command
        self.template = claims.template(name, pod, networkPolicy=RULES_OF_TEMPLATE)
        claims.policy(self.template)
        self.pool = claims.pool(name, self.template)

    def member(self) -> Json:
        """Add a member, and wait until its pod is ready."""
        found = self._claims.member(self.pool, self.template)
        self._gateway.cluster.until_ready(self._gateway.namespace, found["metadata"]["name"])
        return found
