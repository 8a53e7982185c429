"""One call that may write: what is sent, what counts as an answer, and what an error may say."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import trustme

from egress.cluster import api_call
from egress.cluster.api_call import ApiRefusedError, CallTimeouts, Method, call
from egress.errors import UnreadableError
from tests.cluster.fake_api_server import FakeApiServer, Json, running, whole

PODS = "/api/v1/namespaces/agents/pods"
QUICK = CallTimeouts(connect=10, answer=0.2)
CANARY = "made-up-value-of-a-secret"


@pytest.mark.parametrize(
    ("method", "status", "kind"),
    [("POST", 201, "application/json"), ("PATCH", 200, "application/merge-patch+json"), ("DELETE", 200, "")],
)
async def test_a_call_sends_its_object_once(tmp_path: Path, method: Method, status: int, kind: str) -> None:
    body: Json | None = {"kind": "Pod", "metadata": {"name": "one"}} if kind else None
    server = FakeApiServer(raw=whole(status, {"kind": "Pod"}))
    async with running(tmp_path, server) as api:
        assert await asyncio.to_thread(call, api, method, PODS, body) == {"kind": "Pod"}
    (head,) = server.heads
    assert head.startswith(f"{method} {PODS} HTTP/1.1\r\n")
    assert (f"Content-Type: {kind}\r\n" in head) is bool(kind)
    assert [json.loads(each) for each in server.bodies] == ([body] if body else [])


async def test_a_refusal_has_its_status_and_the_reason_of_the_server(tmp_path: Path) -> None:
    said = {"reason": "AlreadyExists", "message": 'pods "one"\x1b[31m\n already exists', "code": 409}
    server = FakeApiServer(raw=whole(409, said))
    async with running(tmp_path, server) as api:
        with pytest.raises(
            ApiRefusedError, match=r'answers 409 to POST .*: pods "one"\[31m already'
        ) as raised:
            await asyncio.to_thread(call, api, "POST", PODS, {})
    assert (raised.value.status, raised.value.reason) == (409, "AlreadyExists")


async def test_a_value_that_the_server_refuses_is_not_quoted(tmp_path: Path) -> None:
    cause = {"field": "data[key]", "reason": "FieldValueInvalid", "message": f'Invalid value: "{CANARY}"'}
    said = {"reason": "Invalid", "message": f'Invalid value: "{CANARY}"', "details": {"causes": [cause]}}
    server = FakeApiServer(raw=whole(422, said))
    async with running(tmp_path, server) as api:
        with pytest.raises(ApiRefusedError) as raised:
            await asyncio.to_thread(call, api, "POST", PODS, {"data": {"key": CANARY}})
    assert "data[key] (FieldValueInvalid)" in raised.value.message
    assert CANARY not in f"{raised.value!r} {raised.value.message} {raised.value.hint}"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"no HTTP\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + b" " * (1 << 20),
    ],
)
async def test_an_answer_without_a_whole_object_is_none(
    tmp_path: Path, raw: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_call, "MAX_ANSWER_BYTES", 1 << 19)
    async with running(tmp_path, FakeApiServer(raw=raw)) as api:
        with pytest.raises(UnreadableError):
            await asyncio.to_thread(call, api, "GET", PODS)


async def test_a_silent_server_is_given_up(tmp_path: Path) -> None:
    async with running(tmp_path, FakeApiServer(is_silent=True)) as api:
        with pytest.raises(UnreadableError, match="did not answer"):
            await asyncio.to_thread(call, api, "GET", PODS, None, QUICK)


async def test_nothing_is_sent_to_a_server_of_another_authority(tmp_path: Path) -> None:
    server = FakeApiServer()
    async with running(tmp_path, server) as api:
        assert isinstance(api.authority, Path)
        trustme.CA().cert_pem.write_to_path(str(api.authority))
        with pytest.raises(UnreadableError, match="did not answer"):
            await asyncio.to_thread(call, api, "POST", PODS, {})
    assert (server.requests, server.bodies) == ([], [])
