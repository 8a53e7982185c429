"""One client: its handshake or its envelopes, its calls side by side, and their end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from egress.mcp.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, RpcError, RpcNotification
from egress.mcp.peer import MAX_CALLS, TOOLS, McpPeer
from tests.mcp.lab import ENVELOPE, LASTING, McpLab, asked, called, request, until_started

SECRET = "canary-Secret_0123456789"


async def handshake(peer: McpPeer, version: str = "2025-11-25") -> dict[str, Any]:
    answer = await asked(peer, request("initialize", protocolVersion=version, capabilities={}))
    result: dict[str, Any] = answer["result"]
    return result


async def code_of(peer: McpPeer, method: str, **params: object) -> int:
    answer = await asked(peer, request(method, **params))
    code: int = answer["error"]["code"]
    return code


async def test_a_handshake_comes_first_for_older_clients(lab: McpLab) -> None:
    peer = McpPeer(lab.tools)
    assert await code_of(peer, "tools/list") == INVALID_REQUEST
    assert (await asked(peer, request("ping")))["result"] == {}
    assert not peer.has_agreed
    result = await handshake(peer, "2025-03-26")
    assert (result["protocolVersion"], result["serverInfo"]["name"]) == ("2025-03-26", "egress")
    tools = (await asked(peer, request("tools/list")))["result"]["tools"]
    assert [each["name"] for each in tools] == list(TOOLS)


async def test_a_newer_client_says_its_version_each_time(lab: McpLab) -> None:
    peer = McpPeer(lab.tools)
    found = (await asked(peer, request("server/discover", _meta=dict(ENVELOPE))))["result"]
    assert "2026-07-28" in found["supportedVersions"]
    assert found["resultType"] == "complete"
    assert (await asked(peer, called("exec", command="true")))["result"]["isError"] is False
    assert await code_of(peer, "tools/list") == INVALID_REQUEST
    assert await code_of(peer, "ping", _meta=dict(ENVELOPE)) == METHOD_NOT_FOUND


async def test_what_it_does_not_know_is_an_error(lab: McpLab) -> None:
    peer = McpPeer(lab.tools)
    await handshake(peer)
    for method in ("resources/list", "prompts/list", "server/discover", "x" * 10_000, ""):
        assert await code_of(peer, method) == METHOD_NOT_FOUND
    assert await code_of(peer, "tools/list", cursor="x") == INVALID_PARAMS
    for name in ("no_such_tool", 1, None, ["exec"]):
        assert await code_of(peer, "tools/call", name=name, arguments={}) == INVALID_PARAMS
    assert (
        await code_of(peer, "tools/call", name="exec", arguments={}, _meta={"progressToken": []})
        == INVALID_PARAMS
    )
    peer.hear(RpcNotification("notifications/unknown", {}))
    peer.hear(RpcNotification("notifications/cancelled", {"requestId": {}}))


async def test_a_tool_that_fails_says_so_to_the_model(lab: McpLab) -> None:
    peer = McpPeer(lab.tools)
    for name, arguments, told in (
        ("read_file", {"path": "missing"}, "path.not_found: "),
        ("exec", {"command": [SECRET]}, "request.invalid: "),
        ("exec", "no object", "request.invalid: "),
    ):
        message = request("tools/call", name=name, arguments=arguments, _meta=dict(ENVELOPE))
        result = (await asked(peer, message))["result"]
        assert result["isError"] is True
        assert "structuredContent" not in result
        assert result["content"][0]["text"].startswith(told)
        assert "\n" in result["content"][0]["text"], "the cure is missing"
        assert SECRET not in str(result)


async def test_an_error_that_nobody_expected_repeats_nothing(
    lab: McpLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(SECRET)

    monkeypatch.setattr(lab.fleet, "spawn", fail)
    result = (await asked(McpPeer(lab.tools), called("exec", command="true")))["result"]
    assert result["isError"] is True
    assert SECRET not in str(result)


async def test_a_sandbox_that_is_gone_is_told(lab: McpLab) -> None:
    lab.fleet.remove("one")
    result = (await asked(McpPeer(lab.tools), called("exec", command="true")))["result"]
    assert result["content"][0]["text"].startswith("sandbox.not_found: ")


async def test_cancelling_a_request_ends_its_command_and_no_other(lab: McpLab) -> None:
    peer = McpPeer(lab.tools)
    first = peer.start(called("exec", 1, command=LASTING), print)
    second = peer.start(called("exec", "1", command="sleep 0.5; echo done"), print)
    await until_started(lab)
    peer.hear(RpcNotification("notifications/cancelled", {"requestId": 1}))
    with pytest.raises(asyncio.CancelledError):
        await first
    assert b"done" in await second
    statuses = [each.wait(30).exit_code for each in lab.runtime.started]
    assert sorted(status == 0 for status in statuses) == [False, True]
    assert not peer.is_busy


async def test_an_id_that_is_under_way_is_refused(lab: McpLab) -> None:
    peer = McpPeer(lab.tools)
    running = peer.start(called("exec", 1, command="sleep 0.5"), print)
    with pytest.raises(RpcError) as caught:
        peer.start(called("exec", 1, command="true"), print)
    assert (caught.value.code, caught.value.request_id) == (INVALID_REQUEST, 1)
    await running
    await peer.start(called("exec", 1, command="true"), print)


async def test_calls_have_a_bound(lab: McpLab) -> None:
    peer = McpPeer(lab.tools)
    running = [peer.start(called("exec", number, command=LASTING), print) for number in range(MAX_CALLS)]
    await until_started(lab, MAX_CALLS)
    result = (await asked(McpPeer(lab.tools), called("exec", command="true")))["result"]
    assert result["content"][0]["text"].startswith("request.busy: ")
    await peer.end()
    assert all(each.cancelled() for each in running)
    assert (await asked(McpPeer(lab.tools), called("exec", command="true")))["result"]["isError"] is False


async def test_progress_is_told_while_a_call_runs_and_to_those_who_ask(lab: McpLab) -> None:
    heard: list[bytes] = []
    meta = {**ENVELOPE, "progressToken": "p"}
    message = request("tools/call", name="exec", arguments={"command": "echo one; sleep 2.2"}, _meta=meta)
    await asked(McpPeer(lab.tools), message, heard)
    assert len(heard) >= 2
    assert b'"progressToken":"p"' in heard[0]
    assert b'"message":"one"' in heard[0]
    count = len(heard)
    await asyncio.sleep(1.2)
    assert len(heard) == count
