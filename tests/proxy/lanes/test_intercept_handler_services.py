"""What the handlers of a lane share: the lane has it, and its bounds leave time for each step."""

from __future__ import annotations

from egress.proxy.lanes.intercept_handler import InterceptServices
from egress.proxy.lanes.intercept_lane import InterceptLane
from egress.proxy.lanes.intercept_limits import InterceptLimits


def takes(lane: InterceptServices) -> InterceptServices:
    return lane


def test_the_full_lane_is_what_its_handlers_expect() -> None:
    """Held by the type checker; here that the names are there at run time too."""
    names = {name for name in dir(InterceptServices) if not name.startswith("_")}
    instance = {"guard", "limits", "options", "tls"}
    assert {name for name in names if not hasattr(InterceptLane, name)} <= instance
    assert callable(takes)


def test_an_upstream_has_longer_to_prove_itself_than_to_be_dialled() -> None:
    limits = InterceptLimits()
    assert limits.upstream_open > limits.dial > 0
