"""What the door hands to a lane."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from egress.exchange import Destination
from egress.proxy.lanes.connection import AdmittedConnection
from egress.rules.decide.decision import decide_host
from egress.types import Identity
from tests.unit.rules.rule_samples import NOW, policy

RULES = policy("hosts: {api.example.com: {}}")
WHO = Identity("box")


def test_a_destination_that_is_fixed_stays_what_it_is() -> None:
    """Everything behind the door uses it; nothing behind the door may change it."""
    to = Destination("https", "api.example.com", 443)
    admitted = AdmittedConnection(
        id="c1",
        identity=WHO,
        listener="test",
        entry="connect",
        destination=to,
        decision=decide_host(RULES, WHO, to.host, to.port, NOW, scheme=to.scheme),
        policy=RULES,
    )
    for name, value in {"destination": Destination("https", "evil.example", 443), "identity": WHO}.items():
        with pytest.raises(FrozenInstanceError):
            setattr(admitted, name, value)
    with pytest.raises(FrozenInstanceError):
        setattr(to, "host", "evil.example")  # noqa: B010 - the type says so too
    assert admitted.hello is None
