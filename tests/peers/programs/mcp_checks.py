"""Drives `egress mcp` with the client of the `mcp` package, unchanged.

    python mcp_checks.py stdio MODE WORD...     starts this command, and talks to it
    python mcp_checks.py http MODE URL          talks to a server, with the token in MCP_TOKEN

MODE is `legacy`, for a handshake, or `auto`, for the newest version. Prints what was found as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx2
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client


def transport(kind: str, words: list[str]) -> AbstractAsyncContextManager[Any]:
    found: AbstractAsyncContextManager[Any]
    if kind == "stdio":
        env = {name: os.environ[name] for name in os.environ if name != "MCP_TOKEN"}
        found = stdio_client(StdioServerParameters(command=words[0], args=words[1:], env=env))
        return found
    headers = {"Authorization": f"Bearer {os.environ['MCP_TOKEN']}"}
    found = streamable_http_client(words[0], http_client=httpx2.AsyncClient(headers=headers, timeout=60))
    return found


async def call(client: Client, name: str, **arguments: object) -> dict[str, Any]:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result
    found: dict[str, Any] = result.structured_content
    assert json.loads(result.content[0].text) == found
    return found


async def refusal(client: Client, name: str, **arguments: object) -> str:
    result = await client.call_tool(name, arguments)
    assert result.is_error, result
    return str(result.content[0].text)


async def commands(client: Client) -> None:
    done = await call(client, "exec", command="pwd; echo careful >&2; exit 3")
    assert done == {
        "exit_code": 3,
        "stdout": "/workspace\n",
        "stderr": "careful\n",
        "timed_out": False,
        "truncated": False,
    }
    assert (await call(client, "exec", command="tr a-z A-Z", input="shout"))["stdout"] == "SHOUT"
    late = await call(client, "exec", command="echo begun; sleep 60", timeout=0.5)
    assert (late["exit_code"], late["timed_out"], late["stdout"]) == (124, True, "begun\n")
    large = await call(
        client, "exec", command="echo first; head -c 5000000 /dev/zero | tr '\\0' x; echo; echo last"
    )
    assert large["truncated"], large
    assert len(large["stdout"]) < 70_000
    assert large["stdout"].startswith("first\n")
    assert large["stdout"].endswith("\nlast\n")


async def credentials(client: Client) -> None:
    """An API that wants a token gets it, and the sandbox does not hold it."""
    done = await call(
        client, "exec", command=f"curl -s {os.environ['API']}/v1/user; env; cat ~/.* 2>/dev/null"
    )
    assert '"login": "demo"' in done["stdout"], done
    assert os.environ["TOKEN_END"] not in done["stdout"]


async def files(client: Client) -> None:
    await call(client, "write_file", path="deep/note.txt", content="grün\n")
    assert await call(client, "read_file", path="deep/note.txt") == {
        "content": "grün\n",
        "size": 6,
        "next_offset": None,
    }
    part = await call(client, "read_file", path="deep/note.txt", offset=1, limit=1)
    assert (part["content"], part["next_offset"]) == ("r", 2)
    await call(client, "write_file", path="deep/bytes", content="AAH/", encoding="base64")
    assert (await call(client, "read_file", path="deep/bytes", encoding="base64"))["content"] == "AAH/"
    await call(client, "make_folder", path="deep/er")
    await call(client, "rename", path="deep/bytes", target="deep/er/moved")
    listed = await call(client, "list_folder", path="deep")
    assert [(each["name"], each["kind"]) for each in listed["entries"]] == [
        ("er", "folder"),
        ("note.txt", "file"),
    ]
    await call(client, "remove", path="deep", recursive=True)
    assert (await refusal(client, "read_file", path="deep/note.txt")).startswith("path.not_found: ")


async def processes(client: Client) -> None:
    started = await call(client, "start_process", command="echo ready; exec sleep 600")
    said: dict[str, Any] = {"text": ""}
    while not said["text"]:
        said = await call(client, "read_process", id=started["id"])
    assert (said["text"], said["state"], said["next_offset"]) == ("ready\n", "running", 6), said
    assert started["id"] in [each["id"] for each in (await call(client, "list_processes"))["processes"]]
    assert (await call(client, "stop_process", id=started["id"]))["state"] == "ended"


async def previews(client: Client) -> None:
    shown = await call(client, "expose_port", port=8000)
    assert shown["url"].startswith("http"), shown
    assert await call(client, "list_previews") == {"previews": [shown]}
    await call(client, "unexpose_port", port=8000)
    assert await call(client, "list_previews") == {"previews": []}


async def mistakes(client: Client) -> None:
    """A mistake is told to the model, with its cure, and the connection goes on."""
    assert "Expected `str`" in await refusal(client, "exec", command=1)
    assert "unknown field `comand`" in await refusal(client, "exec", command="true", comand="x")
    assert "see the input schema" in await refusal(client, "exec")
    assert (await refusal(client, "stop_process", id="0000")).startswith("process.not_found: ")
    try:
        await client.call_tool("no_such_tool", {})
    except Exception as error:  # noqa: BLE001
        assert "no tool has this name" in str(error), repr(error)
    else:
        raise AssertionError("a tool that does not exist was called")


async def progress(client: Client) -> None:
    heard: list[tuple[float, str | None]] = []

    async def hear(done: float, _total: float | None, message: str | None) -> None:
        heard.append((done, message))

    arguments = {"command": "echo one; sleep 2.5; echo two"}
    await client.call_tool("exec", arguments, progress_callback=hear)
    assert len(heard) >= 2, heard
    assert heard == sorted(heard)
    assert heard[0][1] == "one", heard


async def cancellation(client: Client) -> None:
    running = asyncio.ensure_future(client.call_tool("exec", {"command": "exec sleep 4243"}))
    look = "grep -l 424[3] /proc/[0-9]*/cmdline 2>/dev/null | wc -l"

    async def is_there(wanted: str) -> None:
        for _ in range(200):
            if (await call(client, "exec", command=look))["stdout"].strip() == wanted:
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"not {wanted}")

    await is_there("1")
    running.cancel()
    await is_there("0")


async def side_by_side(client: Client) -> None:
    began = time.monotonic()
    waits = [client.call_tool("exec", {"command": "sleep 1"}) for _ in range(6)]
    await asyncio.gather(*waits)
    assert time.monotonic() - began < 5


CHECKS = (
    commands,
    credentials,
    files,
    processes,
    previews,
    mistakes,
    progress,
    cancellation,
    side_by_side,
)


async def main(kind: str, mode: str, words: list[str]) -> None:
    failures: dict[str, str] = {}
    async with Client(transport(kind, words), mode=mode) as client:
        tools = (await client.list_tools()).tools
        for check in CHECKS:
            try:
                await asyncio.wait_for(check(client), 120)
            except Exception as error:  # noqa: BLE001
                failures[check.__name__] = repr(error)
        print(
            json.dumps(
                {
                    "failures": failures,
                    "version": client.protocol_version,
                    "server": client.server_info.name if client.server_info else None,
                    "instructions": client.instructions,
                    "tools": {each.name: each.annotations.model_dump() for each in tools},
                }
            )
        )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
