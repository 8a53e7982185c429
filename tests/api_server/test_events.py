"""Events of sandboxes, as they come."""

from __future__ import annotations

import json

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
