"""Events of sandboxes, as they come."""

from __future__ import annotations

import json
import threading

import pytest

from egress.runtime.spec import Event
from tests.api_server.lab import ApiLab, RawConnection
from tests.fleet.memory_fleet import spec


def test_an_event_arrives_and_a_client_may_leave(lab: ApiLab) -> None:
    connection = RawConnection(str(lab.server.path))
    connection.request("GET", "/v1/events")
    response = connection.getresponse()
    assert response.readline() == b": events\n"
    lab.estate.fleet.create(spec())
    assert response.readline() == b"\n"
    assert response.readline() == b"event: sandbox\n"
    assert json.loads(response.readline().removeprefix(b"data: ")) == {"kind": "created", "sandbox": "one"}
    response.close()
    connection.close()


def test_a_client_that_reads_nothing_is_dropped_and_its_thread_ends(
    lab: ApiLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("egress.api_server.sandbox_events.MAX_WAITING_EVENTS", 10)
    connection = RawConnection(str(lab.server.path))
    connection.request("GET", "/v1/events")
    response = connection.getresponse()
    assert response.readline() == b": events\n"
    (reader,) = [each for each in threading.enumerate() if each.name == "egress-api-events"]
    (subscription,) = lab.estate.fleet._fanout._listeners
    # Each longer than the buffers of the kernel and of the connection together.
    for _ in range(50):
        subscription.tell(Event("created", "x" * 1_000_000))
    reader.join(10)
    assert not reader.is_alive()
    response.close()
    connection.close()
