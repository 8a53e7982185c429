"""Adding and removing sandboxes over the control socket of a proxy that runs, with listeners handed over."""

from __future__ import annotations

import asyncio
import json
import socket
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from egress.proxy.ingress.listener import listen
from tests.proxy.injecting_proxy import NAME, SECRET, certs, made
from tests.proxy.lab.certificates import trusting
from tests.proxy.lab.client import connect
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.serve_process import ServeProcess


@pytest.fixture
async def upstream() -> AsyncIterator[RawUpstream]:
    async with RawUpstream(certs.good(NAME)) as upstream:
        yield upstream


@pytest.fixture
def served(tmp_path: Path, upstream: RawUpstream) -> Iterator[ServeProcess]:
    served = made(tmp_path, upstream)
    served.arguments.append("--handover")
    with served:
        yield served


def place(served: ServeProcess) -> Path:
    return served.runtime / "doors" / "handover.sock"


def hand_over(served: ServeProcess, name: str) -> tuple[int, dict[str, object]]:
    """What the door of a sandbox does; returns the port and the reply."""
    with listen("127.0.0.3", 0) as sock, socket.socket(socket.AF_UNIX) as to:
        to.settimeout(20)
        to.connect(str(place(served)))
        port = int(sock.getsockname()[1])
        message = {"sandbox": name, "kind": "proxy", "port": port, "name": f"{name}-proxy"}
        socket.send_fds(to, [json.dumps(message).encode() + b"\n"], [sock.fileno()])
        return port, json.loads(to.makefile("rb").readline())


def boxes(served: ServeProcess) -> dict[str, dict[str, object]]:
    found: list[dict[str, object]] = served.ask("GET", "/status")[1]["sandboxes"]  # type: ignore[assignment]
    return {str(box["name"]): box for box in found}


async def test_a_sandbox_is_added_served_and_removed(served: ServeProcess, upstream: RawUpstream) -> None:
    status, given = await asyncio.to_thread(served.ask, "POST", "/sandboxes", name="box")
    assert (status, sorted(given)) == (201, ["ca", "canaries", "placeholders", "seed"])
    port, reply = await asyncio.to_thread(hand_over, served, "box")
    assert reply == {"ok": True, "error": ""}
    trust = trusting(str(given["ca"]).encode(), ("http/1.1",))
    async with await connect(("", upstream.port), NAME, trust, proxy=("127.0.0.3", port)) as peer:
        assert (await peer.get("/echo", f"{NAME}:{upstream.port}")).status == 200
        assert boxes(served)["box"]["listeners"] == ["box-proxy"]
    assert SECRET.encode() in upstream.links[0].heads[0]
    status, answer = await asyncio.to_thread(served.ask, "DELETE", "/sandboxes/box")
    assert (status, answer["name"]) == (200, "box")
    with pytest.raises(OSError, match="Connect call failed"):
        await connect(("", upstream.port), NAME, trust, proxy=("127.0.0.3", port))
    assert list(boxes(served)) == ["default"]
    assert [served.records(kind)[0]["sandbox"] for kind in ("sandbox.added", "sandbox.removed")] == [
        "box"
    ] * 2


async def test_the_socket_lies_alone_in_a_folder_of_its_own(served: ServeProcess) -> None:
    """So that a door can be given that folder, and the control socket is not in it."""
    folder = place(served).parent
    assert [each.name for each in folder.iterdir()] == ["handover.sock"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(place(served).stat().st_mode) == 0o600
    assert str(place(served)) in "\n".join(served.out)
    assert (await asyncio.to_thread(served.ask, "POST", "/stop"))[0] == 200
    assert await asyncio.to_thread(served.ended) == 0
    assert not place(served).exists()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"name": 1}, 400),
        ({"name": "box", "profile": 1}, 400),
        ({"name": "box", "colour": "red"}, 400),
        ({"name": "box", "seed": 1}, 400),
        ({"name": "box", "seed": "00"}, 400),
        ({"name": "box", "seed": "g" * 64}, 400),
        ({"name": "box", "seed": "0" * 63}, 400),
        ({"name": "Box"}, 409),
        ({"name": "default"}, 409),
        ({"name": "box", "profile": "gardening"}, 409),
    ],
)
def test_what_cannot_be_added_is_told_with_its_cure(
    served: ServeProcess, body: dict[str, object], status: int
) -> None:
    got, answer = served.ask("POST", "/sandboxes", **body)
    assert got == status
    assert answer["error"]
    assert answer["hint"]
    assert list(boxes(served)) == ["default"]


def test_canaries_come_with_where_they_are_planted_and_come_again(served: ServeProcess) -> None:
    served.write(
        served.rules.read_text()
        + """\
canaries:
  both: {like: aws, env: KEY, file: ~/.env, text: "KEY={value}"}
  alone: {like: uuid, file: /tmp/a}
  nowhere: {like: hex32}
"""
    )
    assert served.ask("POST", "/reload")[0] == 200
    _, given = served.ask("POST", "/sandboxes", name="box")
    found: list[dict[str, str]] = given["canaries"]  # type: ignore[assignment]
    one, other, none = (each["value"] for each in found)
    assert found == [
        {"name": "both", "value": one, "env": "KEY", "file": "~/.env", "content": f"KEY={one}"},
        {"name": "alone", "value": other, "file": "/tmp/a", "content": other},
        {"name": "nowhere", "value": none},
    ]
    served.ask("DELETE", "/sandboxes/box")
    _, again = served.ask("POST", "/sandboxes", name="box", seed=given["seed"])
    assert (again["canaries"], again["seed"]) == (given["canaries"], given["seed"])
    assert again["ca"] != given["ca"]
    served.ask("DELETE", "/sandboxes/box")
    _, fresh = served.ask("POST", "/sandboxes", name="box")
    assert fresh["seed"] != given["seed"]


@pytest.mark.parametrize("name", ["default", "nobody", "..", "Box"])
def test_what_was_not_added_is_not_removed(served: ServeProcess, name: str) -> None:
    assert served.ask("DELETE", f"/sandboxes/{name}")[0] == 404
    assert list(boxes(served)) == ["default"]


def test_another_way_to_ask_is_told_which_one_there_is(served: ServeProcess) -> None:
    status, answer = served.ask("GET", "/sandboxes/box")
    assert (status, answer["error"]) == (405, "use DELETE")


async def test_a_sandbox_that_was_killed_can_be_removed_and_its_name_is_free(served: ServeProcess) -> None:
    for _ in range(2):
        assert served.ask("POST", "/sandboxes", name="box")[0] == 201
        assert served.ask("POST", "/kill", name="box")[0] == 200
        # Its listeners are kept, and nobody serves them.
        assert (await asyncio.to_thread(hand_over, served, "box"))[1]["ok"] is True
        assert boxes(served)["box"]["listeners"] == []
        assert served.ask("DELETE", "/sandboxes/box")[0] == 200
        assert served.ask("GET", "/status")[1]["killed"]["sandbox"] == []  # type: ignore[index]
    assert served.ask("POST", "/sandboxes", name="box")[0] == 201
    assert (await asyncio.to_thread(hand_over, served, "box"))[1]["ok"] is True


def test_without_a_word_none_can_be_added(tmp_path: Path, upstream: RawUpstream) -> None:
    with made(tmp_path, upstream) as served:
        for method, path in (("POST", "/sandboxes"), ("DELETE", "/sandboxes/box")):
            status, answer = served.ask(method, path, name="box")
            assert (status, answer["hint"]) == (409, "start it with --handover")
        assert not place(served).exists()
