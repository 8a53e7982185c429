"""Sandboxes that are added to a running Egress, each in a room of its own; and how its operator asks it.

    with boxes(lab, proxy, "one", "two") as (one, two):
        one.ask(API, request(API))

A box is asked like a proxy: its listener was opened inside its room and handed over, and it trusts its own
authority alone. The naive proxy knows nothing of the kind: there every box is the one sandbox that it has.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import override

from tests.attack.lab.client import Answer
from tests.attack.lab.lab import Lab
from tests.attack.lab.network import Room
from tests.attack.lab.proxies import LISTEN, Egress, Proxy


class AddedSandbox(Proxy):
    """One sandbox of a proxy that has several."""

    def __init__(self, owner: Egress, room: Room, name: str, given: dict[str, object]) -> None:
        # No sniffer: what goes out goes out of the room of the proxy.
        self.room = room
        self.owner = owner
        self.box = name
        self.folder = owner.folder
        self.wire = owner.wire
        self.name, self.patience = owner.name, owner.patience
        self.lines, self.clients = owner.lines, {}
        self.process = None
        self._ca = str(given["ca"]).encode()
        self._given = given

    @override
    def argv(self) -> list[str]:
        raise AssertionError("a box is no process")

    @override
    def is_ready(self) -> bool:
        return True

    @property
    @override
    def ca_pem(self) -> bytes:
        return self._ca

    @override
    def stand_in(self) -> str:
        stand_ins = self._given["placeholders"]
        assert isinstance(stand_ins, dict)
        return str(stand_ins["shapes"]["openai"])

    @override
    def expects(self, answer: Answer, *wanted: tuple[int, str]) -> None:
        self.owner.expects(answer, *wanted)

    def hand_over(self, place: tuple[str, int] = LISTEN, kind: str = "proxy") -> None:
        """Open a listener inside the room, and give it to the proxy."""
        sock = self.room.listen(*place)
        with sock:
            message = {"sandbox": self.box, "kind": kind, "port": place[1], "name": f"{self.box}-{kind}"}
            reply = hand_over(self.owner, message, sock)
        assert reply["ok"], reply


def hand_over(proxy: Egress, message: dict[str, object], *socks: socket.socket) -> dict[str, object]:
    """Say something to the hand-over socket; its reply, `{}` where it hangs up."""
    with socket.socket(socket.AF_UNIX) as talk:
        talk.settimeout(10)
        talk.connect(str(proxy.runtime / "doors" / "handover.sock"))
        socket.send_fds(talk, [json.dumps(message).encode() + b"\n"], [sock.fileno() for sock in socks])
        with talk.makefile("rb") as lines:
            found = json.loads(lines.readline() or b"{}")
    assert isinstance(found, dict)
    return found


def control(proxy: Egress, method: str, path: str, **body: object) -> tuple[int, dict[str, object]]:
    """Ask the control socket."""
    status, data = control_raw(proxy, method, path, json.dumps(body).encode() if body else b"")
    found = json.loads(data)
    assert isinstance(found, dict)
    return status, found


def control_raw(proxy: Egress, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """The same, byte for byte."""
    asking = http.client.HTTPConnection("egress")
    asking.sock = socket.socket(socket.AF_UNIX)
    asking.sock.settimeout(20)
    try:
        asking.sock.connect(str(proxy.runtime / "control.sock"))
        asking.request(method, path, body or None)
        response = asking.getresponse()
        return response.status, response.read()
    finally:
        asking.close()


@contextmanager
def boxes(lab: Lab, proxy: Proxy, *names: str, profile: str | None = None) -> Iterator[tuple[Proxy, ...]]:
    """Boxes by these names, for as long as that."""
    if not isinstance(proxy, Egress):
        yield (proxy,) * len(names)
        return
    made = [add_box(lab, proxy, name, profile) for name in names]
    try:
        yield tuple(made)
    finally:
        for box in made:
            control(proxy, "DELETE", f"/sandboxes/{box.box}")


def add_box(lab: Lab, proxy: Egress, name: str, profile: str | None = None) -> AddedSandbox:
    """Add a sandbox, with a listener where those of all proxies are."""
    status, given = control(proxy, "POST", "/sandboxes", name=name, profile=profile)
    assert status == 201, given
    box = AddedSandbox(proxy, lab.network.room(f"{name} of {proxy.room.name}"), name, given)
    box.hand_over()
    return box
