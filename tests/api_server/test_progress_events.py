"""Calls that take a while tell their progress, and end with the result of the plain call."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from egress.api.schema import PortSettings
from egress.api_server import progress_events as module
from egress.api_server.progress_events import progress_events
from egress.runtime.errors import SpecError
from egress.runtime.stages import note_stage
from tests.api_server.lab import ApiLab

EVENTS = {"accept": "text/event-stream"}


def _events(data: bytes) -> list[tuple[str, Any]]:
    blocks = [block.split(b"\n") for block in data.split(b"\n\n") if block]
    return [(name[7:].decode(), json.loads(said[6:])) for name, said in blocks]


def _asked(lab: ApiLab, method: str, target: str, body: object = None) -> list[tuple[str, Any]]:
    answer = lab.ask(method, target, body, EVENTS)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    return _events(answer.body)


@pytest.mark.parametrize(("method", "name"), [("PUT", "one"), ("POST", "")])
def test_a_sandbox_is_created_with_progress(lab: ApiLab, method: str, name: str) -> None:
    target = f"/v1/sandboxes/{name}".rstrip("/")
    *progress, (kind, made) = _asked(lab, method, target, {"image": "any", "labels": {"a": "b"}})
    assert kind == "result"
    assert {each[0] for each in progress} <= {"progress"}
    found = lab.ask("GET", f"/v1/sandboxes/{made['name']}").body
    assert {**found, "idle": 0} == {**made, "idle": 0}


def test_a_failure_is_a_problem(lab: ApiLab) -> None:
    lab.running("one")
    *_, (kind, said) = _asked(lab, "PUT", "/v1/sandboxes/one", {"image": "any", "timeout": 5})
    assert (kind, said["type"]) == ("problem", "sandbox.differs")
    *_, (kind, said) = _asked(lab, "POST", "/v1/sandboxes/none/start")
    assert (kind, said["type"]) == ("problem", "sandbox.not_found")
    *_, (kind, said) = _asked(lab, "PUT", "/v1/snapshots/first", {"sandbox": "one"})
    assert (kind, said["type"]) == ("problem", "unsupported")
    *_, (kind, said) = _asked(lab, "POST", "/v1/sandboxes/one/git", {"url": "no url"})
    assert (kind, said["type"]) == ("problem", "spec.invalid")


def test_what_is_no_request_is_refused_before_any_event(lab: ApiLab) -> None:
    answer = lab.ask("PUT", "/v1/sandboxes/one", {"colour": "red"}, EVENTS)
    assert (answer.status, answer.body["type"]) == (400, "request.invalid")


def test_each_stage_is_told_and_each_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PROGRESS_SECONDS", 0.01)
    go = threading.Event()

    def work() -> PortSettings:
        note_stage("packing")
        go.wait(30)
        note_stage("saving")
        return PortSettings(ports=(80,))

    async def read() -> list[bytes]:
        found = []
        async for piece in progress_events(lambda: asyncio.to_thread(work)):
            found.append(piece)
            if len(found) == 4:
                go.set()
        return found

    events = _events(b"".join(asyncio.run(read())))
    assert [name for name, _ in events[:4]] == ["progress"] * 4
    assert "packing" in {said["stage"] for _, said in events[:4]}
    assert events[-1] == ("result", {"ports": [80]})


def test_a_client_that_leaves_does_not_stop_the_work() -> None:
    go, done = threading.Event(), threading.Event()

    def work() -> None:
        note_stage("saving")
        go.wait(30)
        done.set()
        raise SpecError("nobody is told")

    async def leave() -> None:
        events = progress_events(lambda: asyncio.to_thread(work))
        assert b"saving" in await anext(events)
        await events.aclose()  # type: ignore[attr-defined]
        go.set()
        assert await asyncio.to_thread(done.wait, 30)

    asyncio.run(leave())
