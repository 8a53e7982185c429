"""The vendors' own libraries behind budgets: streams pass, denials are understood, waits are kept."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from egress.budgets.ledger import JournalEntry
from egress.inspect.llm.usage import LlmApi
from egress.proxy.clock import SystemClock
from egress.rules.decide.budget_spec import HOUR, BudgetUnit
from tests.peers.fetched import HERE, PROGRAMS
from tests.proxy.clients.cache import Fetched, python_environment
from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.proxy_stack import NAME, ProxyStack
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.test_budgets import EVENTS, JSON, SSE, Lab, answering, rules, until
from tests.unit.inspect.llm.answers import CONVERSE, GEMINI_SSE, sse

pytestmark = pytest.mark.timeout(600)
LOCK: Final = HERE / "model_sdks.lock"
SDKS: Final = Fetched("model-sdks", (LOCK,), functools.partial(python_environment, LOCK), tool=sys.version)
CERTS = Certificates()
PROGRAM_TIMEOUT: Final = 120

MESSAGE: Final[dict[str, object]] = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "m-x",
    "content": [],
    "stop_reason": None,
}
STREAM = sse(
    (
        "message_start",
        {
            "type": "message_start",
            "message": {
                **MESSAGE,
                "usage": {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 1},
            },
        },
    ),
    (
        "content_block_start",
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    ),
    (
        "content_block_delta",
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}},
    ),
    ("content_block_stop", {"type": "content_block_stop", "index": 0}),
    (
        "message_delta",
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 40}},
    ),
    ("message_stop", {"type": "message_stop"}),
)
WHOLE = json.dumps(
    {
        **MESSAGE,
        "content": [{"type": "text", "text": "Hello"}],
        "usage": {"input_tokens": 3, "output_tokens": 4},
    }
).encode()


def chunk(**more: object) -> dict[str, object]:
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m-x", **more}


CHAT = sse(
    ("", chunk(choices=[{"index": 0, "delta": {"role": "assistant", "content": "Hello"}}])),
    ("", chunk(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])),
    ("", chunk(choices=[], usage={"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16})),
    ("", "[DONE]"),
)
RESPONSE = {
    "id": "r",
    "object": "response",
    "created_at": 1,
    "model": "m-x",
    "output": [],
    "tools": [],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
}
RESPONSES = sse(
    ("response.created", {"type": "response.created", "sequence_number": 0, "response": RESPONSE}),
    (
        "response.completed",
        {
            "type": "response.completed",
            "sequence_number": 1,
            "response": {**RESPONSE, "usage": {"input_tokens": 12, "output_tokens": 30, "total_tokens": 42}},
        },
    ),
)


@pytest.fixture
def sdks(request: pytest.FixtureRequest) -> None:
    """That they were fetched."""
    SDKS.require(request)


async def called(stack: ProxyStack, upstream: RawUpstream, api: str, model: str = "m-x") -> dict[str, Any]:
    """Make a call by the library of the vendor, through the proxy; return what it says."""
    env = {
        "PATH": os.defpath,
        "HOME": str(stack.folder),
        "HTTPS_PROXY": stack.url,
        "SSL_CERT_FILE": str(stack.write_ca()),
        "AWS_CA_BUNDLE": str(stack.write_ca()),
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    program = await asyncio.create_subprocess_exec(
        SDKS.folder / "venv/bin/python", "-P", PROGRAMS / "model_calls.py",
        api, f"https://{NAME}:{upstream.port}", model, "50",
        env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(program.communicate(), PROGRAM_TIMEOUT)
    assert program.returncode == 0, err.decode()
    found: dict[str, Any] = json.loads(out)
    return found


@dataclass(frozen=True)
class Conversation:
    """A call by a library, the answer of the vendor, and what the library makes of it."""

    call: str
    api: LlmApi
    path: str
    answer: bytes
    kind: str
    said: dict[str, object]
    tokens: int


CONVERSATIONS = [
    Conversation(
        "anthropic",
        "anthropic",
        "/v1/messages",
        STREAM,
        SSE,
        {"text": "Hello", "output": 40, "cached": 90},
        140,
    ),
    Conversation(
        "anthropic-whole", "anthropic", "/v1/messages", WHOLE, JSON, {"text": "Hello", "output": 4}, 7
    ),
    Conversation(
        "openai-chat", "openai-chat", "/v1/chat/completions", CHAT, SSE, {"text": "Hello", "usages": 0}, 16
    ),
    Conversation(
        "openai-responses",
        "openai-responses",
        "/v1/responses",
        RESPONSES,
        SSE,
        {"types": ["response.created", "response.completed"]},
        42,
    ),
    Conversation(
        "gemini",
        "gemini",
        "/v1/models/m-x:streamGenerateContent",
        GEMINI_SSE,
        SSE,
        {"text": "xxxx", "output": 30},
        100,
    ),
    Conversation(
        "bedrock-converse",
        "bedrock-converse",
        "/model/m-x/converse-stream",
        CONVERSE,
        EVENTS,
        {"usage": {"inputTokens": 11, "outputTokens": 22, "cacheReadInputTokens": 3}},
        36,
    ),
]


@pytest.mark.parametrize("each", CONVERSATIONS, ids=lambda each: each.call)
async def test_a_call_of_each_library_is_counted(sdks: None, tmp_path: Path, each: Conversation) -> None:
    async with RawUpstream(CERTS.good(NAME)) as upstream:
        upstream.handle(each.path, answering(each.answer, each.kind))
        async with ProxyStack(
            tmp_path, CERTS, rules(upstream.port, each.api, "tokens: 100000/hour")
        ) as stack:
            assert await called(stack, upstream, each.call) == each.said
            assert 100_000 - Lab(stack, upstream).left == each.tokens


@pytest.mark.parametrize(
    ("call", "api", "error"),
    [
        ("anthropic", "anthropic", "PermissionDeniedError"),
        ("openai-chat", "openai-chat", "PermissionDeniedError"),
        ("openai-responses", "openai-responses", "PermissionDeniedError"),
        ("gemini", "gemini", "ClientError"),
        ("bedrock-converse", "bedrock-converse", "AccessDeniedException"),
    ],
)
async def test_vector_19_a_denial_is_understood_and_not_tried_again(
    sdks: None, tmp_path: Path, call: str, api: LlmApi, error: str
) -> None:
    async with (
        RawUpstream(CERTS.good(NAME)) as upstream,
        ProxyStack(tmp_path, CERTS, rules(upstream.port, api, "tokens: 10/total")) as stack,
    ):
        other = await called(stack, upstream, call, "other")
        assert other["error"] == error
        assert "No rule allows this model." in other["message"]
        empty = await called(stack, upstream, call)
        assert empty["error"] == error
        assert "budget agents" in empty["message"]
        codes = [line["code"] for line in stack.exchanges()]
        assert codes == ["llm.model", "llm.budget"], "a denied call came again"
        assert upstream.links == []


class SteppedClock(SystemClock):
    """A clock that stands two seconds before a full minute, until it is moved."""

    def __init__(self) -> None:
        self.at = SystemClock.now(self) // 60 * 60 + 58

    def now(self) -> int:
        return self.at


@pytest.mark.parametrize(
    ("call", "path", "answer"),
    [("anthropic", "/v1/messages", STREAM), ("openai-chat", "/v1/chat/completions", CHAT)],
)
async def test_vector_19_a_budget_that_reopens_soon_is_waited_for(
    sdks: None, tmp_path: Path, call: LlmApi, path: str, answer: bytes
) -> None:
    clock = SteppedClock()
    async with RawUpstream(CERTS.good(NAME)) as upstream:
        upstream.handle(path, answering(answer, SSE))
        limit = "tokens: 1000/hour"
        async with ProxyStack(tmp_path, CERTS, rules(upstream.port, call, limit), clock=clock) as stack:
            # Spent within a minute whose last second leaves the window when the clock has made two steps.
            unit: BudgetUnit = "tokens"
            buckets = ((unit, HOUR, (((clock.at + 2 - HOUR) // 60 - 1, 990),)),)
            stack.engine.ledger.apply(
                JournalEntry("account", accounts=(("agents", "test"),), buckets=buckets)
            )
            calling = asyncio.create_task(called(stack, upstream, call))
            await until(lambda: bool(stack.exchanges()))
            clock.at += 2
            assert (await calling).get("text") == "Hello"
            assert [line["code"] for line in stack.exchanges()] == ["llm.budget", "rule.allowed"]
