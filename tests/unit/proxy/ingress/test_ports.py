"""The engine has what the door asks of it, by name and by type."""

from __future__ import annotations

from dataclasses import fields

from egress.proxy.ingress.ports import IngressEngine
from egress.proxy.lanes.engine import ProxyEngine


def as_the_door_sees_it(engine: ProxyEngine) -> IngressEngine:
    """The type checker holds this to be true."""
    return engine


def test_the_engine_has_everything_that_the_door_asks_for() -> None:
    asked = {name for name in vars(IngressEngine) if not name.startswith("_")}
    assert asked
    assert asked <= {field.name for field in fields(ProxyEngine)} | vars(ProxyEngine).keys()
