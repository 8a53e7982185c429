"""The status of each sandbox: its counts, and its pod where a cluster has told of one."""

from __future__ import annotations

from pathlib import Path

from egress.proxy.control.sandbox_views import moment, sandbox_views
from egress.proxy.lanes.engine import ServedSandbox
from egress.types import Identity, Workload
from tests.proxy.injecting_proxy import certs
from tests.proxy.lab.proxy_stack import SANDBOX, ProxyStack

RULES = "version: 1\nhosts: {api.example.test: {}}\n"


async def test_sandboxes_are_shown_by_name_with_their_counts_and_pods(tmp_path: Path) -> None:
    async with ProxyStack(tmp_path, certs, RULES) as stack:
        identity = Identity("job", "reviewer", workload=Workload("agents", "job", "job-uid"))
        stack.engine.sandboxes["job"] = ServedSandbox(identity, stack.authority, bytes(32))
        job, own = sandbox_views(stack.engine, lambda name: {"listeners": [name]}, len, lambda _: 7)
        assert (job["name"], job["profile"], job["listeners"]) == ("job", "reviewer", ["job"])
        assert (job["connections"], job["grants"], job["carried"]) == (3, 7, 0)
        assert isinstance(job["workload"], dict)
        assert job["workload"]["pod_uid"] == "job-uid"
        assert own["name"] == SANDBOX
        assert "workload" not in own
        assert own["authority_until"] == moment(stack.authority.not_after)


def test_a_moment_is_written_in_utc() -> None:
    assert moment(1_772_357_400) == "2026-03-01T09:30:00Z"
