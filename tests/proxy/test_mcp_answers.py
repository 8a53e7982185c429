"""Answers to MCP requests through a whole proxy: lists are filtered, sessions stay with their sandbox.

Each filtered list still shows what the rules name, which is the control of what it hides.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from egress.ca.authority import Authority
from egress.handlers.opening import open_handlers
from egress.inspect.mcp.answer import MAX_JSON_ANSWER_BYTES
from egress.proxy.ingress.listener import Listener, listen
from egress.proxy.lanes.engine import ServedSandbox
from egress.types import Identity
from tests.proxy.lab.certificates import HTTP2, Certificates, trusting
from tests.proxy.lab.client import Peer, at, connect
from tests.proxy.lab.http1 import Response
from tests.proxy.lab.http2 import Call, Http2Client, Http2Upstream
from tests.proxy.lab.proxy_stack import NAME, ProxyStack
from tests.proxy.lab.raw_upstream import Cut, Drip, RawUpstream, ReadBody, Say, Stall
from tests.proxy.test_mcp_gate import ACCEPTED, rules
from tests.unit.inspect.mcp.vectors import JSON_TYPE, SEARCH, message

CERTS = Certificates()
OTHER_SANDBOX = "other"
EVENTS = "text/event-stream"
TOOLS = [{"name": "search_issues", "n": 1.50}, {"name": "delete_repo"}, {"title": "no name"}, "odd"]
SHOWN = [{"name": "search_issues", "n": 1.50}]
INITIALIZE = message("initialize", protocolVersion="2025-11-25", capabilities={})
SAMPLING = {"jsonrpc": "2.0", "id": 41, "method": "sampling/createMessage", "params": {}}
ROOTS = {"jsonrpc": "2.0", "id": 42, "method": "roots/list"}
NAMING_ROOTS = "mcp: {tools: [search_issues], server_requests: [roots/list]}"


def answer(result: object, message_id: object = 7) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": message_id, "result": result}).encode()


def whole(body: bytes, media_type: str = JSON_TYPE, status: str = "200 OK", extra: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {media_type}\r\ncontent-length: {len(body)}\r\n{extra}\r\n"
    return head.encode() + body


def event(data: bytes, end: bytes = b"\n") -> bytes:
    return b"event: message" + end + b"data: " + data + end + end


def data_of(body: bytes) -> list[object]:
    """The messages in a stream that the proxy has written, which has one spelling."""
    events = [each for each in body.decode().split("\n\n") if each]
    texts = ["\n".join(line[6:] for line in each.split("\n") if line.startswith("data: ")) for each in events]
    return [json.loads(text) for text in texts if text]


def post(port: int, body: bytes, *lines: str) -> bytes:
    fields = "".join(f"{line}\r\n" for line in (f"content-type: {JSON_TYPE}", *lines))
    head = f"POST /mcp HTTP/1.1\r\nhost: {NAME}:{port}\r\n{fields}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def bare(port: int, method: str, *lines: str) -> bytes:
    fields = "".join(f"{line}\r\n" for line in lines)
    return f"{method} /mcp HTTP/1.1\r\nhost: {NAME}:{port}\r\n{fields}\r\n".encode()


class Scene:
    """A proxy with two sandboxes before one server."""

    def __init__(self, upstream: RawUpstream, stack: ProxyStack) -> None:
        self.upstream = upstream
        self.stack = stack
        self.port = upstream.port

    async def open_other(self) -> None:
        """Serve a second sandbox, at a port of its own."""
        self.authority = Authority.create(OTHER_SANDBOX, self.stack.clock.now())
        served = ServedSandbox(Identity(OTHER_SANDBOX), self.authority, bytes(32))
        self.stack.engine.sandboxes[OTHER_SANDBOX] = served
        sock = listen("127.0.0.1", 0)
        _, self.other_port = await self.stack.door.open(Listener("other", "proxy", OTHER_SANDBOX, sock))

    async def visit_other(self) -> Peer:
        trust = trusting(self.authority.certificate_pem, ("http/1.1",))
        return await connect(at(self.port), NAME, trust, proxy=at(self.other_port))

    async def ask(self, body: bytes, *said: bytes, lines: tuple[str, ...] = ()) -> Response:
        """Send a message, and have the server answer with these bytes."""
        self.upstream.script("/mcp", ReadBody(), *map(Say, said))
        async with await self.stack.visit(self.upstream) as peer:
            return await peer.request(post(self.port, body, *lines))

    def facts(self) -> dict[str, object]:
        """The facts of the last exchange."""
        found = self.stack.exchanges()[-1]["facts"]
        assert isinstance(found, dict)
        return found


@asynccontextmanager
async def scene(folder: Path, rule: str = "mcp: {tools: [search_issues]}") -> AsyncIterator[Scene]:
    async with (
        RawUpstream(CERTS.good(NAME)) as upstream,
        ProxyStack(folder, CERTS, rules(upstream.port, rule)) as stack,
    ):
        yield Scene(upstream, stack)


LIST = message("tools/list")
RESULT = answer({"tools": TOOLS, "nextCursor": "c2"})
WANTED = {"jsonrpc": "2.0", "id": 7, "result": {"tools": SHOWN, "nextCursor": "c2"}}


async def test_12_a_list_as_json_loses_what_no_rule_names_and_keeps_its_cursor(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        response = await one.ask(LIST, whole(RESULT))
        assert json.loads(response.body) == WANTED
        assert response.header("content-length") is None
        assert b"1.5" in response.body
        assert one.facts()["mcp_hidden"] == 3


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
async def test_12_a_list_as_events_of_single_bytes_is_filtered(tmp_path: Path, end: bytes) -> None:
    stream = b": hello" + end + end + event(RESULT, end)
    async with scene(tmp_path) as one:
        chunked = (
            f"HTTP/1.1 200 OK\r\ncontent-type: {EVENTS}\r\ncontent-length: {len(stream)}\r\n\r\n".encode()
        )
        one.upstream.script("/mcp", ReadBody(), Say(chunked), Drip(stream))
        async with await one.stack.visit(one.upstream) as peer:
            response = await peer.request(post(one.port, LIST))
        assert data_of(response.body) == [WANTED]


async def test_12_data_over_several_lines_is_one_message(tmp_path: Path) -> None:
    text = json.dumps(json.loads(RESULT), indent=1).encode()
    stream = b"".join(b"data: " + line + b"\n" for line in text.split(b"\n")) + b"\n"
    async with scene(tmp_path) as one:
        assert data_of((await one.ask(LIST, whole(stream, EVENTS))).body) == [WANTED]


async def test_a_coded_list_is_asked_for_plain_and_decoded_all_the_same(tmp_path: Path) -> None:
    coded = whole(gzip.compress(RESULT), extra="content-encoding: gzip\r\n")
    async with scene(tmp_path) as one:
        response = await one.ask(LIST, coded, lines=("accept-encoding: gzip",))
        assert json.loads(response.body) == WANTED
        assert one.upstream.requests[-1].headers("accept-encoding") == ["identity"]


async def test_a_list_passes_as_it_is_where_the_rule_says_so(tmp_path: Path) -> None:
    async with scene(tmp_path, "mcp: {tools: [search_issues], list: pass}") as one:
        assert (await one.ask(LIST, whole(RESULT))).body == RESULT


async def test_13_the_result_of_a_call_is_not_taken_for_a_list(tmp_path: Path) -> None:
    said = answer({"content": [], "tools": TOOLS})
    async with scene(tmp_path) as one:
        assert (await one.ask(SEARCH, whole(said))).body == said
        assert data_of((await one.ask(SEARCH, whole(event(said), EVENTS))).body) == [json.loads(said)]


@pytest.mark.parametrize(
    "said",
    [
        whole(b"<html>"),
        whole(RESULT, "text/plain"),
        whole(RESULT[:-1]),
        whole(b"[" + RESULT + b"]"),
        whole(answer({"Tools": TOOLS})),
        whole(answer({"tools": TOOLS, "Tools": TOOLS})),
        whole(answer({"tools": {"a": 1}})),
        whole(json.dumps(SAMPLING).encode()),
        whole(RESULT, extra=f"content-type: {EVENTS}\r\n"),
    ],
    ids=["html", "text", "cut", "batch", "letters", "both letters", "no list", "request", "types"],
)
async def test_14_a_list_that_cannot_be_read_is_refused_as_a_whole(tmp_path: Path, said: bytes) -> None:
    async with scene(tmp_path) as one:
        response = await one.ask(LIST, said)
        assert (response.status, response.header("egress-denied")) == (200, "mcp.list")
        assert json.loads(response.body)["id"] == 7
        assert json.loads((await one.ask(LIST, whole(RESULT))).body) == WANTED


async def test_14_a_list_in_events_that_cannot_be_read_ends_the_stream(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        response = await one.ask(LIST, whole(event(b'{"jsonrpc":') + event(RESULT), EVENTS))
        assert not response.complete
        assert b"delete_repo" not in response.body
        assert one.stack.exchanges()[-1]["code"] == "mcp.list"


async def test_a_list_over_the_bound_is_refused(tmp_path: Path) -> None:
    large = answer({"tools": [{"name": "x" * MAX_JSON_ANSWER_BYTES}]})
    async with scene(tmp_path) as one:
        response = await one.ask(LIST, whole(large))
        assert (response.status, response.header("egress-denied")) == (200, "mcp.list")


async def test_a_server_that_leaves_within_a_held_list_is_told_of_with_the_id(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        one.upstream.script("/mcp", ReadBody(), Say(whole(RESULT)[:-20]), Cut())
        async with await one.stack.visit(one.upstream) as peer:
            response = await peer.request(post(one.port, LIST))
        said = json.loads(response.body)
        assert (response.status, response.header("egress-denied")) == (502, said["error"]["data"]["code"])
        assert said["id"] == 7
        assert b"search_issues" not in response.body
        assert str(one.stack.exchanges()[-1]["code"]).startswith("upstream.")


async def test_an_error_of_the_server_passes_with_its_status(tmp_path: Path) -> None:
    said = b'{"error": "invalid_token"}'
    async with scene(tmp_path) as one:
        response = await one.ask(LIST, whole(said, status="401 Unauthorized"))
        assert (response.status, response.body) == (401, said)


async def test_10_a_named_request_of_the_server_is_answered_once(tmp_path: Path) -> None:
    stream = b"".join(event(json.dumps(each).encode()) for each in (SAMPLING, ROOTS)) + event(answer({}))
    session = "mcp-session-id: s1"
    async with scene(tmp_path, NAMING_ROOTS) as one:
        await one.ask(INITIALIZE, whole(answer({}), extra="Mcp-Session-Id: s1\r\n"))
        response = await one.ask(SEARCH, whole(stream, EVENTS), lines=(session,))
        assert data_of(response.body) == [ROOTS, json.loads(answer({}))]
        assert one.facts()["mcp_dropped"] == "sampling/createMessage"
        for number, code in ((41, "mcp.reply"), ("42", "mcp.reply"), (42, None), (42, "mcp.reply")):
            response = await one.ask(answer({"roots": []}, number), ACCEPTED, lines=(session,))
            assert response.header("egress-denied") == code, number


async def test_a_request_inside_of_a_result_is_refused_unless_it_is_named(tmp_path: Path) -> None:
    def asking(method: str) -> bytes:
        return answer({"resultType": "input_required", "inputRequests": {"a": {"method": method}}})

    async with scene(tmp_path, NAMING_ROOTS) as one:
        assert (await one.ask(SEARCH, whole(asking("roots/list")))).body == asking("roots/list")
        said = json.loads((await one.ask(SEARCH, whole(asking("elicitation/create")))).body)
        assert (said["id"], said["error"]["data"]["code"]) == (7, "mcp.server_request")
        assert one.facts()["mcp_dropped"] == "elicitation/create"


async def test_11_a_session_belongs_to_the_sandbox_that_received_it(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        await one.open_other()
        await one.ask(INITIALIZE, whole(answer({}), extra="Mcp-Session-Id: s1\r\n"))
        assert (await one.ask(SEARCH, whole(answer({})), lines=("mcp-session-id: s1",))).status == 200
        count = len(one.upstream.requests)
        async with await one.visit_other() as peer:
            response = await peer.request(post(one.port, SEARCH, "mcp-session-id: s1"))
        assert (response.status, response.header("egress-denied")) == (404, "mcp.session")
        assert json.loads(response.body)["id"] == 7
        assert len(one.upstream.requests) == count


async def test_81_streams_and_ends_need_a_session_of_the_sandbox(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        await one.ask(INITIALIZE, whole(answer({}), extra="Mcp-Session-Id: s1\r\n"))
        one.upstream.script(
            "/mcp", Say(whole(event(b'{"jsonrpc":"2.0","method":"notifications/x"}'), EVENTS))
        )
        for lines, status in ((), 405), (("mcp-session-id: s2",), 404), (("mcp-session-id: s1",), 200):
            async with await one.stack.visit(one.upstream) as peer:
                assert (await peer.request(bare(one.port, "GET", *lines))).status == status
        for status in (200, 404):
            async with await one.stack.visit(one.upstream) as peer:
                response = await peer.request(bare(one.port, "DELETE", "mcp-session-id: s1"))
                assert response.status == status


async def test_a_stream_that_is_fetched_again_shows_no_more_of_a_list(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        await one.ask(INITIALIZE, whole(answer({}), extra="Mcp-Session-Id: s1\r\n"))
        # The stream of the answer breaks off before the list.
        await one.ask(LIST, whole(b"id: 1\ndata:\n\n", EVENTS), lines=("mcp-session-id: s1",))
        for message_id in (7, 99):
            said = event(answer({"tools": TOOLS, "nextCursor": "c2"}, message_id))
            one.upstream.script("/mcp", Say(whole(said, EVENTS)))
            async with await one.stack.visit(one.upstream) as peer:
                again = bare(one.port, "GET", "mcp-session-id: s1", "last-event-id: 1")
                response = await peer.request(again)
            assert data_of(response.body) == [{**WANTED, "id": message_id}]


async def test_15_the_older_transport_is_refused_in_both_directions(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        one.upstream.script("/mcp", Say(whole(b"", EVENTS)))
        async with await one.stack.visit(one.upstream) as peer:
            response = await peer.request(bare(one.port, "GET", "accept: text/event-stream"))
        assert (response.status, response.header("egress-denied")) == (405, "mcp.transport")
        assert not one.upstream.requests
        stream = b"event: endpoint\ndata: https://evil.example/messages\n\n" + event(answer({}))
        response = await one.ask(SEARCH, whole(stream, EVENTS))
        assert not response.complete
        assert b"evil" not in response.body
        assert one.stack.exchanges()[-1]["code"] == "mcp.transport"


async def test_an_event_passes_as_soon_as_it_is_whole(tmp_path: Path) -> None:
    progress = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{}}'
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {EVENTS}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    said = event(progress)
    async with scene(tmp_path) as one:
        # The server says no more until the client has seen the event.
        chunk = b"%x\r\n%b\r\n" % (len(said), said)
        one.upstream.script("/mcp", ReadBody(), Say(head + chunk), Stall(), Say(b"0\r\n\r\n"))
        async with await one.stack.visit(one.upstream) as peer:
            await peer.send(post(one.port, SEARCH))
            response = await peer.head()
            assert response.status == 200
            seen = b""
            while said not in seen.replace(b"\r\n", b"\n"):
                seen += await asyncio.wait_for(peer.channel.some(), 30)
            one.upstream.released.set()


async def test_a_list_is_filtered_and_refused_over_http2(tmp_path: Path) -> None:
    said = {"/mcp": RESULT}

    async def listed(call: Call) -> None:
        await call.begin(200, ("content-type", JSON_TYPE), ("content-length", str(len(said["/mcp"]))))
        await call.say(said["/mcp"], end=True)

    async with (
        Http2Upstream(CERTS.good(NAME, alpn=HTTP2)) as upstream,
        ProxyStack(
            tmp_path, CERTS, rules(upstream.port, "mcp: {tools: [search_issues]}") + "    http2: true\n"
        ) as stack,
        await stack.visit(upstream, NAME, "h2") as peer,
        Http2Client(peer.channel) as client,
    ):
        upstream.handle("/mcp", listed)
        host = f"{NAME}:{upstream.port}"
        stream = await client.post(host, "/mcp", LIST, ("content-type", JSON_TYPE))
        assert json.loads(bytes(stream.body)) == WANTED
        assert stream.header("content-length") is None
        said["/mcp"] = RESULT[:-1]
        stream = await client.post(host, "/mcp", LIST, ("content-type", JSON_TYPE))
        assert (stream.header(":status"), stream.header("egress-denied")) == ("200", "mcp.list")
        assert b"delete_repo" not in bytes(stream.body)


async def test_lists_and_sessions_are_held_to_the_rules_where_a_handler_changes_the_request(
    tmp_path: Path,
) -> None:
    path = tmp_path / "handlers.py"
    path.write_text(
        "from egress.handlers import Allow, handler\n\n@handler\ndef mark(request, context):\n"
        "    return Allow(set_headers={'x-team': 'blue'})\n"
    )
    caller = await open_handlers(path, in_process=False)
    try:
        async with RawUpstream(CERTS.good(NAME)) as upstream:
            text = rules(upstream.port, "mcp: {tools: [search_issues]}, handler: {use: mark}")
            async with ProxyStack(tmp_path, CERTS, text, handlers=caller) as stack:
                one = Scene(upstream, stack)
                await one.ask(INITIALIZE, whole(answer({}), extra="Mcp-Session-Id: s1\r\n"))
                response = await one.ask(LIST, whole(RESULT), lines=("mcp-session-id: s1",))
                assert json.loads(response.body) == WANTED
                assert upstream.requests[-1].headers("x-team") == ["blue"]
                asking = answer({"inputRequests": {"a": {"method": "sampling/createMessage"}}})
                response = await one.ask(SEARCH, whole(asking), lines=("mcp-session-id: s1",))
                assert json.loads(response.body)["error"]["data"]["code"] == "mcp.server_request"
    finally:
        await caller.close()


async def test_an_answer_of_many_lines_is_read_over_many_turns(tmp_path: Path) -> None:
    lines = b"\n" * 300_000 + event(answer({}))
    async with scene(tmp_path) as one:
        response = await one.ask(SEARCH, whole(lines, EVENTS))
        assert data_of(response.body) == [json.loads(answer({}))]


async def test_the_search_for_secrets_sees_the_filtered_list(tmp_path: Path) -> None:
    secret = "sesame-open-please"
    (tmp_path / "secret").touch(mode=0o600)
    (tmp_path / "secret").write_text(secret)
    listed = answer({"tools": [{"name": "search_issues", "title": secret}, {"name": "x", "title": secret}]})
    async with RawUpstream(CERTS.good(NAME)) as upstream:
        text = rules(upstream.port, "mcp: {tools: [search_issues]}") + "    inject: [bearer: api]\n"
        source = (
            f"secrets:\n  api: {{from: 'file:{tmp_path / 'secret'}', hosts: ['{NAME}:{upstream.port}']}}\n"
        )
        text = text.replace(f"    http: [{upstream.port}]\n", "").replace("hosts:\n", f"{source}hosts:\n", 1)
        async with ProxyStack(tmp_path, CERTS, text) as stack:
            response = await Scene(upstream, stack).ask(LIST, whole(listed))
            (line,) = stack.exchanges()
    shown = [{"name": "search_issues", "title": "*" * len(secret)}]
    assert json.loads(response.body)["result"]["tools"] == shown
    assert line["scrubbed"] == {"api": 1}
