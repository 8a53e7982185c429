"""The state of a running proxy, looked up for its metrics."""

from __future__ import annotations

from egress.proxy.control.status_lookup import look_up_status
from tests.proxy.control.test_service import Running, running

__all__ = ["running"]


async def test_what_is_open_and_what_expires_first_is_looked_up(running: Running) -> None:
    engine = running.stack.engine
    engine.metrics.flushed = engine.clock.monotonic() - 5
    found = look_up_status(
        engine,
        running.service._door,
        engine.policy,
        is_ready=True,
        began=1,
        loaded=2,
        reloads={"loaded": 3},
    )
    assert (found.began, found.loaded, found.reloads, found.is_ready) == (1, 2, {"loaded": 3}, True)
    assert found.sandboxes == len(engine.sandboxes)
    assert found.lanes == {"full": 0, "tunnel": 0}
    assert found.expiry == min(each.authority.not_after for each in engine.sandboxes.values())
    assert 5 <= found.audit.lag < 60
    assert found.available == {"tracker": True}
