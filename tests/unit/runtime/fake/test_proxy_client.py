"""The proxy in memory."""

from __future__ import annotations

import threading

import pytest

from egress.runtime.errors import SandboxExistsError
from egress.runtime.fake import FakeProxyClient
from egress.runtime.proxy_client import PlantedCanary


def test_names_are_taken_until_they_are_dismissed() -> None:
    gateway = FakeProxyClient({"tracker": {"openai": "x"}})
    admission = gateway.admit("one", "coding")
    assert (admission.name, admission.placeholders) == ("one", {"tracker": {"openai": "x"}})
    with pytest.raises(SandboxExistsError):
        gateway.admit("one")
    gateway.hand_over("one", ())
    gateway.dismiss("one")
    gateway.dismiss("one")
    assert gateway.admit("one").authority != gateway.admit("two").authority


def test_canaries_come_with_what_they_are_made_from() -> None:
    canary = PlantedCanary("decoy", "value", env="KEY")
    gateway = FakeProxyClient(canaries=(canary,))
    first = gateway.admit("one")
    assert first.canaries == (canary,)
    gateway.dismiss("one")
    assert gateway.admit("one", seed=first.seed).seed == first.seed


def test_it_never_ends_by_itself() -> None:
    meeting = FakeProxyClient().open_liveness()
    waiting = threading.Thread(target=meeting.wait)
    waiting.start()
    assert waiting.is_alive()
    meeting.close()
    waiting.join(30)
    assert not waiting.is_alive()
