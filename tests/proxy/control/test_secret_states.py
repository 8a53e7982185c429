"""The states of secrets, asked over the control socket: names and causes, and no value."""

from __future__ import annotations

import json

from egress.proxy.control.server import ControlReply
from tests.proxy.control.test_service import SECRET, Running, running

__all__ = ["running"]


async def test_a_secret_is_pending_resolved_and_revoked(running: Running) -> None:
    async def state() -> str:
        answer: ControlReply = await running.ask("GET", "/secrets")
        assert SECRET not in json.dumps(answer.body)
        (found,) = json.loads(json.dumps(answer.body))["secrets"]
        assert (found["name"], found["source"]) == ("tracker", "file")
        return str(found["state"])

    engine = running.stack.engine
    await engine.secrets.warm(engine.policy.secrets.values())
    assert await state() == "resolved"
    await running.ask("POST", "/kill", name="tracker", kind="secret")
    assert await state() == "revoked"
    await running.ask("POST", "/kill", name="tracker", kind="secret", undo=True)
    assert await state() in ("pending", "resolved", "unavailable")
