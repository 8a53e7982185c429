"""Requests to the bridge, at a port over sandboxes in memory."""

from __future__ import annotations

import http.client
import json
from contextlib import closing
from dataclasses import replace
from typing import Any

from egress.api_server.bridge_sandboxes import NAME_PREFIX
from tests.api_server.port_lab import TOKEN, PortLab

RIGHT = f"Bearer {TOKEN}"


class BridgeLab:
    """One sandbox of the bridge, and requests about it."""

    def __init__(self, port: PortLab, prefix: str = "") -> None:
        self.port = port
        self.prefix = prefix
        fleet = port.estate.fleet
        # The image of `egress up`, since the client names none.
        fleet.about = replace(fleet.about, kind="docker", image="any")
        status, answer = self.ask("POST", "")
        assert status == 200, answer
        self.id: str = answer["id"]

    @property
    def name(self) -> str:
        """The name of its sandbox in the fleet."""
        return f"{NAME_PREFIX}{self.id}"

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        return self.port.ask(method, f"{self.prefix}/v1/sandbox{path}", body, Authorization=RIGHT, **headers)

    def about(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """A request about its sandbox."""
        return self.ask(method, f"/{self.id}{path}", body, **headers)

    def run(self, *argv: str) -> str:
        """Run a command, and return its events."""
        connection = http.client.HTTPConnection(self.port.at.host, self.port.at.port, timeout=30)
        with closing(connection):
            body = json.dumps({"argv": argv, "timeout_ms": 20_000})
            path = f"{self.prefix}/v1/sandbox/{self.id}/exec"
            connection.request("POST", path, body, {"Authorization": RIGHT})
            response = connection.getresponse()
            text = response.read().decode()
            assert (response.status, response.headers["content-type"]) == (
                200,
                "text/event-stream; charset=utf-8",
            ), text
            return text

    def is_there(self) -> bool:
        return self.name in {each.name for each in self.port.estate.fleet.list()}
