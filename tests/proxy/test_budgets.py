"""Budgets in a whole proxy: what reaches the vendor, what comes back, what the ledger and the log hold."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import brotli  # type: ignore[import-untyped]  # compiled, and without stubs
import pytest
import zstandard

from egress.budgets.budget_desk import OUTPUT_TOKENS_PER_SECOND
from egress.inspect.llm.input_estimate import STORED_INPUT_TOKENS
from egress.inspect.llm.usage import LlmApi
from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.handlers import Handler
from tests.proxy.lab.http1 import Response
from tests.proxy.lab.http2 import Http2Client
from tests.proxy.lab.proxy_stack import NAME, ProxyStack
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.lab.upstream_request import UpstreamRequest
from tests.unit.inspect.llm.answers import (
    ANTHROPIC,
    CHAT_CHUNKS,
    CHAT_DONE,
    CHAT_USAGE,
    CONVERSE,
    GEMINI_ARRAY,
    GEMINI_SSE,
    INVOKE,
    RESPONSES,
)

CERTS = Certificates()
JSON = "application/json"
SSE = "text/event-stream"
EVENTS = "application/vnd.amazon.eventstream"
PATHS: dict[LlmApi, str] = {
    "anthropic": "/v1/messages",
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "openai-embeddings": "/v1/embeddings",
    "gemini": "/v1beta/models/m-x:streamGenerateContent",
    "bedrock-converse": "/model/m-x/converse-stream",
    "bedrock-invoke": "/model/m-x/invoke-with-response-stream",
}
# A dollar for a million tokens sent, two for a million that come back: micro-cents are easy to see.
SENT, MADE = 100, 200


def rules(
    port: int, api: LlmApi = "anthropic", limit: str = "usd: 5/hour", more: str = "", **llm: object
) -> str:
    fields = {"api": api, "models": ["m-*"], "max_output": 16_000, "budget": "agents", **llm}
    given = {name: value for name, value in fields.items() if value is not None}
    return f"""
version: 1
budgets:
  agents: {{{limit}}}
prices:
  date: "2026-11-20"
  models:
    - {{match: "*", per_million: {{input: 1, cache_read: 0.1, output: 2}}}}
hosts:
  {NAME}:
    ports: [{port}]
    addresses: [127.0.0.1/32]
    allow:
      - {{id: calls, llm: {json.dumps(given)}}}
{more}"""


def wire(path: str, body: object, host: str = NAME, extra: str = "") -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n{extra}"
    return f"{head}content-length: {len(data)}\r\n\r\n".encode() + data


def answering(body: bytes, kind: str, coding: str = "") -> Handler:
    async def handler(visit: UpstreamRequest) -> None:
        await visit.body()
        await visit.answer(body, (("content-encoding", coding),) if coding else (), kind=kind)

    return handler


class Lab:
    """A vendor behind a proxy with one budget."""

    def __init__(self, stack: ProxyStack, upstream: RawUpstream) -> None:
        self.stack = stack
        self.upstream = upstream

    async def ask(self, path: str, body: object, extra: str = "") -> Response:
        async with await self.stack.visit(self.upstream) as peer:
            return await peer.request(wire(path, body, f"{NAME}:{self.upstream.port}", extra))

    def facts(self) -> dict[str, object]:
        line = self.stack.exchanges()[-1]
        found = line["facts"]
        assert isinstance(found, dict)
        return found

    @property
    def left(self) -> int:
        engine = self.stack.engine
        budget = engine.policy.budgets["agents"]
        unit = budget.limits[0].unit
        room = engine.ledger.room([(budget, "test")], unit, engine.clock.now())
        assert room is not None
        return room

    @property
    def reserved(self) -> int:
        engine = self.stack.engine
        states = list(engine.ledger.states(engine.policy.budgets.values(), engine.clock.now()))
        return max((state.reserved for state in states), default=0)


@pytest.mark.parametrize(
    ("api", "body", "answer", "kind", "cost"),
    [
        (
            "anthropic",
            {"model": "m-x", "max_tokens": 50, "stream": True},
            ANTHROPIC,
            SSE,
            10 * SENT + 9 * SENT + 40 * MADE,
        ),
        (
            "openai-chat",
            {"model": "m-x", "max_tokens": 50, "stream": True},
            CHAT_CHUNKS + CHAT_USAGE + CHAT_DONE,
            SSE,
            40 * SENT + 6 * SENT + 7 * MADE,
        ),
        (
            "openai-responses",
            {"model": "m-x", "max_output_tokens": 50, "stream": True},
            RESPONSES,
            SSE,
            12 * SENT + 30 * MADE,
        ),
        (
            "openai-embeddings",
            {"model": "m-x", "input": "x"},
            b'{"usage": {"prompt_tokens": 9}}',
            JSON,
            9 * SENT,
        ),
        ("gemini", {"generationConfig": {"maxOutputTokens": 50}}, GEMINI_SSE, SSE, 50 * SENT + 50 * MADE),
        ("gemini", {"generationConfig": {"maxOutputTokens": 50}}, GEMINI_ARRAY, JSON, 50 * SENT + 50 * MADE),
        (
            "bedrock-converse",
            {"inferenceConfig": {"maxTokens": 50}},
            CONVERSE,
            EVENTS,
            11 * SENT + 3 * SENT // 10 + 22 * MADE,
        ),
        ("bedrock-invoke", {"max_tokens": 50}, INVOKE, EVENTS, 8 * SENT + 9 * MADE),
        (
            "anthropic",
            {"model": "m-x", "max_tokens": 50},
            b'{"usage": {"input_tokens": 3, "output_tokens": 4}}',
            JSON,
            3 * SENT + 4 * MADE,
        ),
    ],
    ids=[
        "anthropic",
        "chat",
        "responses",
        "embeddings",
        "gemini",
        "gemini-array",
        "converse",
        "invoke",
        "whole",
    ],
)
async def test_each_api_is_counted_and_passes_unchanged(
    tmp_path: Path, api: LlmApi, body: object, answer: bytes, kind: str, cost: int
) -> None:
    async with RawUpstream(CERTS.good(NAME)) as upstream:
        upstream.handle(PATHS[api], answering(answer, kind))
        async with ProxyStack(tmp_path, CERTS, rules(upstream.port, api)) as stack:
            lab = Lab(stack, upstream)
            before = lab.left
            response = await lab.ask(PATHS[api], body)
            facts = lab.facts()
            wanted = CHAT_CHUNKS + CHAT_DONE if api == "openai-chat" else answer
            assert (response.status, response.body) == (200, wanted)
            assert (before - lab.left, lab.reserved, facts["llm_cost"]) == (cost, 0, cost)
            assert response.header("egress-budget") in ("agents; left=99%", "agents; left=98%")
            assert (facts["body"], facts["llm_models"], facts["llm_budget"]) == (
                f"llm.{api}",
                "m-x",
                "agents",
            )


async def test_vector_7_the_vendor_is_asked_for_the_usage_and_the_client_sees_none_of_it(
    tmp_path: Path,
) -> None:
    whole = CHAT_CHUNKS + CHAT_USAGE + CHAT_DONE

    async def bit_by_bit(visit: UpstreamRequest) -> None:
        await visit.body()
        await visit.begin("200 OK", (("transfer-encoding", "chunked"),), SSE)
        for at in range(0, len(whole), 7):
            await visit.chunk(whole[at : at + 7])
        await visit.end_chunks()

    async with RawUpstream(CERTS.good(NAME)) as upstream:
        upstream.handle(PATHS["openai-chat"], bit_by_bit)
        async with ProxyStack(tmp_path, CERTS, rules(upstream.port, "openai-chat")) as stack:
            lab = Lab(stack, upstream)
            asked = {
                "model": "m-x",
                "max_tokens": 50,
                "stream": True,
                "stream_options": {"include_usage": False},
            }
            response = await lab.ask(PATHS["openai-chat"], asked)
            assert response.body == CHAT_CHUNKS + CHAT_DONE
            sent = json.loads(upstream.requests[-1].body)
            assert sent == {**asked, "stream_options": {"include_usage": True}}
            asks = {**asked, "stream_options": {"include_usage": True}}
            assert (await lab.ask(PATHS["openai-chat"], asks)).body == whole
            assert upstream.requests[-1].body == json.dumps(asks).encode()


@pytest.mark.parametrize("seconds", [0, 3])
async def test_vector_8_a_client_that_leaves_is_charged_the_input_and_what_it_may_have_made(
    tmp_path: Path, seconds: int
) -> None:
    seen = ANTHROPIC[: ANTHROPIC.index(b"event: message_delta")]

    async def endless(visit: UpstreamRequest) -> None:
        await visit.body()
        await visit.begin("200 OK", (("transfer-encoding", "chunked"),), SSE)
        await visit.chunk(seen)
        await visit.channel.wait_or_end(upstream.released)

    async with RawUpstream(CERTS.good(NAME)) as upstream:
        upstream.handle("/v1/messages", endless)
        async with ProxyStack(tmp_path, CERTS, rules(upstream.port)) as stack:
            lab = Lab(stack, upstream)
            before, began = lab.left, stack.engine.clock.now()
            stack.engine.budgets.now = lambda: began
            async with await stack.visit(upstream) as peer:
                body = {"model": "m-x", "max_tokens": 5000, "stream": True}
                await peer.send(wire("/v1/messages", body, f"{NAME}:{upstream.port}"))
                assert (await peer.head()).status == 200
                await peer.channel.some(10)
                assert lab.reserved > 5000 * MADE
                stack.engine.budgets.now = lambda: began + seconds
            await until(lambda: not lab.reserved)
            made = max(-(-len("text_deltaHello") // 4), seconds * OUTPUT_TOKENS_PER_SECOND)
            assert before - lab.left == 10 * SENT + 9 * SENT + made * MADE
            assert lab.facts()["llm_usage"] == "partial"


async def test_an_answer_of_gemini_whose_fields_the_client_selects_is_never_asked_for(
    tmp_path: Path,
) -> None:
    """The answer would state the tokens of the prompt alone, and thousands of tokens would cost nothing."""
    path = "/v1beta/models/m-x:generateContent"
    partial = b'{"candidates": [{}], "usageMetadata": {"promptTokenCount": 1}}'
    async with RawUpstream(CERTS.good(NAME)) as upstream:
        upstream.handle(path, answering(partial, JSON))
        async with ProxyStack(tmp_path, CERTS, rules(upstream.port, "gemini")) as stack:
            lab = Lab(stack, upstream)
            asked = {"generationConfig": {"maxOutputTokens": 50}}
            mask = "candidates,usageMetadata/promptTokenCount"
            for target, extra in (
                (f"{path}?fields={mask}", ""),
                (f"{path}?alt=json&%24fields={mask}", ""),
                (path, f"X-Goog-FieldMask: {mask}\r\n"),
            ):
                refused = await lab.ask(target, asked, extra)
                assert (refused.status, refused.header("egress-denied")) == (400, "llm.shape")
            assert upstream.links == []
            assert (await lab.ask(f"{path}?alt=json", asked)).status == 200


async def test_stored_conversations_at_once_do_not_share_one_rest(tmp_path: Path) -> None:
    """Ten words beside the id of a conversation may cost as much as all that a model takes."""

    async def slow(visit: UpstreamRequest) -> None:
        await visit.body()
        await visit.channel.wait_or_end(upstream.released)
        await visit.answer(b'{"usage": {"input_tokens": 190000, "output_tokens": 1}}', kind=JSON)

    path = PATHS["openai-responses"]
    limit = f"tokens: {5 * STORED_INPUT_TOKENS // 2}/hour"
    async with RawUpstream(CERTS.good(NAME)) as upstream:
        upstream.handle(path, slow)
        async with ProxyStack(
            tmp_path, CERTS, rules(upstream.port, "openai-responses", limit=limit)
        ) as stack:
            lab = Lab(stack, upstream)
            asked = {"model": "m-x", "max_output_tokens": 50, "previous_response_id": "resp_1"}
            calls = [asyncio.create_task(lab.ask(path, asked)) for _ in range(5)]
            await until(lambda: sum(task.done() for task in calls) == 3)
            await upstream.until(lambda: len(upstream.requests) == 2)
            whole = asyncio.create_task(lab.ask(path, {"model": "m-x", "max_output_tokens": 50}))
            await upstream.until(lambda: len(upstream.requests) == 3)
            upstream.released.set()
            assert sorted([(await task).status for task in calls]) == [200] * 2 + [429] * 3
            assert (await whole).status == 200
            assert lab.left >= 0


async def test_a_dearer_mode_without_a_price_is_denied(tmp_path: Path) -> None:
    async with RawUpstream(CERTS.good(NAME)) as upstream:
        upstream.handle("/v1/messages", answering(b'{"usage": {"output_tokens": 1}}', JSON))
        async with ProxyStack(tmp_path, CERTS, rules(upstream.port)) as stack:
            lab = Lab(stack, upstream)
            asked = {"model": "m-x", "max_tokens": 50}
            for more in ({"speed": "fast"}, {"service_tier": "priority"}):
                refused = await lab.ask("/v1/messages", {**asked, **more})
                assert refused.header("egress-denied") == "llm.unpriced"
            assert upstream.links == []
            for more in ({"speed": "standard"}, {"service_tier": "auto"}):
                assert (await lab.ask("/v1/messages", {**asked, **more})).status == 200


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not happened():  # noqa: ASYNC110 - the ledger tells nobody
            await asyncio.sleep(0.01)


async def test_vector_9_ten_agents_at_once_stop_at_the_cent(tmp_path: Path) -> None:
    async def slow(visit: UpstreamRequest) -> None:
        await visit.body()
        await visit.channel.wait_or_end(upstream.released)
        await visit.answer(b'{"usage": {"input_tokens": 1, "output_tokens": 1000}}', kind=JSON)

    async with RawUpstream(CERTS.good(NAME)) as upstream:
        upstream.handle("/v1/messages", slow)
        async with ProxyStack(tmp_path, CERTS, rules(upstream.port, limit="tokens: 3500/hour")) as stack:
            lab = Lab(stack, upstream)
            calls = [
                asyncio.create_task(lab.ask("/v1/messages", {"model": "m-x", "max_tokens": 1000}))
                for _ in range(10)
            ]
            await until(lambda: sum(task.done() for task in calls) == 7)
            await upstream.until(lambda: len(upstream.requests) == 3)
            upstream.released.set()
            statuses = sorted([(await task).status for task in calls])
            assert statuses == [200] * 3 + [429] * 7
            assert {line["status"] for line in stack.exchanges()} == {200, 429}
            assert lab.left == 3500 - 3 * 1001


@pytest.mark.parametrize("status", ["429 Too Many Requests", "529 Overloaded", "500 Internal Server Error"])
async def test_vector_10_an_error_of_the_vendor_costs_nothing(tmp_path: Path, status: str) -> None:
    async def failing(visit: UpstreamRequest) -> None:
        await visit.body()
        await visit.answer(b'{"type": "error"}', status=status, kind=JSON)

    async with RawUpstream(CERTS.good(NAME)) as upstream:
        upstream.handle("/v1/messages", failing)
        async with ProxyStack(tmp_path, CERTS, rules(upstream.port)) as stack:
            lab = Lab(stack, upstream)
            before = lab.left
            assert (await lab.ask("/v1/messages", {"model": "m-x", "max_tokens": 50})).status >= 429
            assert (before - lab.left, lab.reserved, lab.facts()["llm_cost"]) == (0, 0, 0)


CODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("coding", CODERS)
async def test_vector_11_a_coded_answer_is_counted(tmp_path: Path, coding: str) -> None:
    async with RawUpstream(CERTS.good(NAME)) as upstream:
        upstream.handle("/v1/messages", answering(CODERS[coding](ANTHROPIC), SSE, coding))
        async with ProxyStack(tmp_path, CERTS, rules(upstream.port)) as stack:
            lab = Lab(stack, upstream)
            before = lab.left
            asked = {"model": "m-x", "max_tokens": 50, "stream": True}
            response = await lab.ask("/v1/messages", asked, "accept-encoding: gzip, br, zstd, x-own\r\n")
            assert (response.body, response.header("content-encoding")) == (ANTHROPIC, None)
            assert before - lab.left == 19 * SENT + 40 * MADE
            assert upstream.requests[-1].header("accept-encoding") == "identity"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"model": "claude-opus-x", "max_tokens": 5}, "llm.model"),
        ({"model": "m-x", "max_tokens": 5, "fallbacks": [{"model": "opus"}]}, "llm.model"),
        ({"model": "m-x", "max_tokens": 64_000}, "llm.max_output"),
        ({"model": "m-x"}, "llm.max_output"),
        ({"model": "m-x", "max_tokens": 5, "maxTokens": 9}, "llm.ambiguous"),
        ({"model": "m-x", "max_tokens": 5, "tools": [{"type": "web_search_20250305"}]}, "llm.server_tool"),
        (b'{"model": "m-x", "model": "opus", "max_tokens": 5}', "json.duplicate_key"),
        (b'{"model": "m-x", "max_tokens": 5', "body.json"),
    ],
)
async def test_vectors_12_to_16_and_23_are_denied_before_any_dial(
    tmp_path: Path, body: object, code: str
) -> None:
    async with (
        RawUpstream(CERTS.good(NAME)) as upstream,
        ProxyStack(tmp_path, CERTS, rules(upstream.port)) as stack,
    ):
        lab = Lab(stack, upstream)
        before = lab.left
        response = await lab.ask("/v1/messages", body)
        assert response.header("egress-denied") == code
        assert json.loads(response.body)["type"] == "error"
        assert (upstream.links, lab.left, lab.reserved) == ([], before, 0)


async def test_vector_16_an_output_that_is_clamped_reaches_the_vendor_lowered(tmp_path: Path) -> None:
    async with RawUpstream(CERTS.good(NAME)) as upstream:
        upstream.handle("/v1/messages", answering(b'{"usage": {"output_tokens": 1}}', JSON))
        async with ProxyStack(tmp_path, CERTS, rules(upstream.port, over="clamp")) as stack:
            lab = Lab(stack, upstream)
            asked = {
                "messages": [{"content": "é\u0000"}],
                "max_tokens": 64_000,
                "model": "m-x",
                "top_p": 0.10,
            }
            assert (await lab.ask("/v1/messages", asked)).status == 200
            assert lab.facts()["llm_clamped"] == "64000 -> 16000"
            signed = await lab.ask("/v1/messages", asked, "content-digest: sha-256=:x:\r\n")
            assert signed.header("egress-denied") == "llm.signed"
            within = {**asked, "max_tokens": 16_000}
            assert (await lab.ask("/v1/messages", within)).status == 200
    clamped, unchanged = upstream.requests
    assert json.loads(clamped.body) == within
    assert unchanged.body == json.dumps(within).encode()


async def test_vector_18_a_call_whose_usage_is_missing_is_charged_what_it_reserved(tmp_path: Path) -> None:
    async with RawUpstream(CERTS.good(NAME)) as upstream:
        upstream.handle("/v1/messages", answering(b'{"content": [{"usage": {"output_tokens": 0}}]}', JSON))
        async with ProxyStack(tmp_path, CERTS, rules(upstream.port, limit="tokens: 5000/hour")) as stack:
            lab = Lab(stack, upstream)
            assert (await lab.ask("/v1/messages", {"model": "m-x", "max_tokens": 1000})).status == 200
            facts = lab.facts()
            assert facts["llm_usage"] == "missing"
            assert 5000 - lab.left == facts["llm_charged"] == 1000 + int(str(facts["llm_input_estimate"]))


@pytest.mark.parametrize(
    ("limit", "status", "retry"), [("tokens: 100/hour", 403, None), ("tokens: 100/total", 403, None)]
)
async def test_vector_19_a_budget_that_stays_closed_is_not_tried_again(
    tmp_path: Path, limit: str, status: int, retry: str | None
) -> None:
    async with (
        RawUpstream(CERTS.good(NAME)) as upstream,
        ProxyStack(tmp_path, CERTS, rules(upstream.port, limit=limit)) as stack,
    ):
        lab = Lab(stack, upstream)
        response = await lab.ask("/v1/messages", {"model": "m-x", "max_tokens": 1000})
        assert (response.status, response.header("retry-after")) == (status, retry)
        assert response.header("x-should-retry") == "false"
        assert "budget agents" in json.loads(response.body)["error"]["message"]
        assert "100" not in json.loads(response.body)["error"]["message"]
        assert lab.facts()["body_item"] == "budget agents"


async def test_vector_22_an_event_stream_with_a_wrong_checksum_is_cut(tmp_path: Path) -> None:
    broken = CONVERSE[:-1] + bytes([CONVERSE[-1] ^ 1])
    async with RawUpstream(CERTS.good(NAME)) as upstream:
        upstream.handle(PATHS["bedrock-converse"], answering(broken, EVENTS))
        async with ProxyStack(tmp_path, CERTS, rules(upstream.port, "bedrock-converse")) as stack:
            lab = Lab(stack, upstream)
            asked = {"inferenceConfig": {"maxTokens": 50}}
            assert not (await lab.ask(PATHS["bedrock-converse"], asked)).complete
            line = stack.exchanges()[-1]
            assert (line["code"], line["verdict"]) == ("upstream.malformed", "cut")
            assert lab.facts()["llm_usage"] == "partial"


async def test_over_http2_a_call_is_lowered_and_counted_alike(tmp_path: Path) -> None:
    async with RawUpstream(CERTS.good(NAME)) as upstream:
        upstream.handle("/v1/messages", answering(ANTHROPIC, SSE))
        async with (
            ProxyStack(tmp_path, CERTS, rules(upstream.port, over="clamp")) as stack,
            await stack.visit(upstream, NAME, "h2") as peer,
            Http2Client(peer.channel) as client,
        ):
            lab = Lab(stack, upstream)
            before = lab.left
            body = json.dumps({"model": "m-x", "max_tokens": 64_000, "stream": True}).encode()
            stream = await client.post(
                f"{NAME}:{upstream.port}", "/v1/messages", body, ("content-type", JSON)
            )
            assert stream.body == ANTHROPIC
            assert before - lab.left == 19 * SENT + 40 * MADE
            denied = await client.post(
                f"{NAME}:{upstream.port}", "/v1/messages", b'{"model": "x"}', ("content-type", JSON)
            )
            assert denied.header("egress-denied") == "llm.model"
    assert json.loads(upstream.requests[0].body)["max_tokens"] == 16_000
