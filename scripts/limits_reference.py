"""The text of docs/reference/limits.md: every bound that is not a rule, with the value it has in the code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from egress.exchange import content_coding
from egress.exchange.exchange import MAX_INTERIM_RESPONSES
from egress.handlers import in_process, interface, own_process, worker
from egress.http1 import MessageLimits
from egress.inspect.graphql.document import (
    MAX_DOCUMENT_BYTES,
    MAX_DOCUMENT_TOKENS,
    MAX_OPERATIONS,
    MAX_SELECTION_DEPTH,
)
from egress.inspect.graphql.github.node_id import MAX_NODE_ID_CHARS
from egress.inspect.graphql.github.reach import ID_COST, MAX_WALK_STEPS
from egress.inspect.graphql.graphql_kind import MAX_GRAPHQL_BYTES
from egress.inspect.llm import event_stream, llm_kind, request_fields, request_shapes, sse
from egress.inspect.mcp.answer import MAX_DROPPED_NAMES, MAX_JSON_ANSWER_BYTES
from egress.inspect.mcp.event_stream import MAX_EVENT_BYTES
from egress.inspect.mcp.mcp_kind import MAX_MCP_BYTES
from egress.inspect.mcp.server_message import MAX_LIST_ENTRIES
from egress.inspect.mcp.sessions import MAX_OPEN_REQUESTS, MAX_SESSIONS_OF_SANDBOX
from egress.inspect.strict_json import MAX_JSON_DEPTH, MAX_JSON_VALUES
from egress.proxy.dns.server import DnsLimits
from egress.proxy.ingress.limits import IngressLimits
from egress.proxy.lanes import resolve
from egress.proxy.lanes.intercept_limits import InterceptLimits
from egress.proxy.lanes.tunnel_lane import TunnelTimeouts
from egress.proxy.process.wiring import REQUESTS_PER_CONNECTION
from egress.relay import http2_frame_filter, http2_limits, limits
from egress.relay.limits import RelayLimits
from egress.scrub import MAX_HITS
from egress.shares import turns
from egress.shares.pool import DEFAULT_CAPACITIES, Resource

INTRODUCTION = """\
Every bound that holds beside the [limits of rules](../rules/limits-and-responses.md), with the code of the
refusal behind it. They are several times what honest clients and servers need. A bound with a setting can be
changed.

A sandbox that is at a bound of its own hurts no other: each has its share of connections, of requests under
way, of memory and of the event loop. Of what all share, a sandbox gets at most as much as is still free.
"""
KIBIBYTE, MEBIBYTE = 1024, 1024 * 1024


def size(count: int) -> str:
    """Bytes, as a person writes them."""
    for unit, name in ((MEBIBYTE, "MiB"), (KIBIBYTE, "KiB")):
        if count >= unit and count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count:,} bytes"


def seconds(count: float) -> str:
    return f"{count:g} s"


def share(resource: Resource, *, of_bytes: bool = False) -> str:
    capacity = DEFAULT_CAPACITIES[resource]
    if of_bytes:
        return f"{size(capacity.of_sandbox)}; {size(capacity.total)} in all"
    return f"{capacity.of_sandbox:,}; {capacity.total:,} in all"


MESSAGE, RELAY, DNS = MessageLimits(), RelayLimits(), DnsLimits()
INGRESS, LANE, TUNNEL = IngressLimits(), InterceptLimits(), TunnelTimeouts()
REQUESTS = REQUESTS_PER_CONNECTION * DEFAULT_CAPACITIES[Resource.CLIENTS].of_sandbox

Row = tuple[str, str, str, str]
"""What is bounded, by how much, what happens beyond it, and the setting."""

SECTIONS: dict[str, dict[str, Row]] = {
    "Handlers": {
        "interface.MAX_BODY_BYTES": (
            "Request body that a handler reads, or writes",
            f"what it asks for, {size(interface.MAX_BODY_BYTES)} at most",
            "`body.too_large`",
            "",
        ),
        "interface.MAX_DEADLINE": (
            "Time of a call",
            f"{seconds(interface.DEFAULT_DEADLINE)}; {seconds(interface.MAX_DEADLINE)} if it asks for that",
            "`handler.failed`",
            "",
        ),
        "own_process.WORKERS": (
            "Calls at a time, in processes of their own",
            f"{own_process.SANDBOX_WORKERS}; {own_process.WORKERS} in all",
            f"{own_process.MAX_WAITING} more of a sandbox wait, then `handler.failed`",
            "",
        ),
        "worker.MEMORY_BYTES": (
            "Memory of a process of handlers",
            size(worker.MEMORY_BYTES),
            "`handler.failed`",
            "",
        ),
        "in_process.MAX_STEP_SECONDS": (
            "Time from one `await` to the next, in the process of the proxy",
            f"{in_process.MAX_STEP_SECONDS * 1000:g} ms; {in_process.MAX_STALL_SECONDS * 1000:g} ms in all",
            "`handler.failed`",
            "",
        ),
        "in_process.MAX_OPEN_CALLS": (
            "Calls of a sandbox that wait, in the process of the proxy",
            f"{in_process.MAX_OPEN_CALLS}",
            "`handler.failed`",
            "",
        ),
    },
    "Shares of a sandbox": {
        "Resource.CLIENTS": (
            "Client connections",
            share(Resource.CLIENTS),
            "`limit.connections`",
            "`--sandbox-connections`, `--connections`",
        ),
        "Resource.EXCHANGES": (
            "Requests and tunnels under way",
            f"{REQUESTS:,}, which is three for each connection; {4 * REQUESTS:,} in all",
            "`limit.exchanges`",
            "`--sandbox-requests`",
        ),
        "Resource.UPSTREAMS": (
            "Connections to upstreams, tunnels aside",
            share(Resource.UPSTREAMS),
            f"a request waits {seconds(RELAY.upstream_wait)}, then `limit.connections`",
            "four for each client connection",
        ),
        "Resource.WINDOWS": (
            "Windows of HTTP/2 connections, to clients and to upstreams",
            share(Resource.WINDOWS, of_bytes=True),
            f"windows shrink, down to {size(limits.MIN_WINDOW_BYTES)}",
            "",
        ),
        "Resource.DECODERS": (
            "Memory to decode and read responses",
            share(Resource.DECODERS, of_bytes=True),
            "`limit.memory`",
            "",
        ),
        "Resource.HELD_BODIES": (
            "Memory to hold bodies that rules read",
            share(Resource.HELD_BODIES, of_bytes=True),
            "`limit.held_bodies`",
            "",
        ),
        "turns.TURN_SECONDS": (
            "Time in a round of the event loop, before others have theirs",
            f"{turns.TURN_SECONDS * 1000:g} ms",
            "the rest waits for the next round",
            "",
        ),
        "turns.BURST_SECONDS": (
            "Time of the event loop without a rest, while another sandbox is active",
            f"{turns.BURST_SECONDS * 1000:g} ms",
            f"it rests for as long as it has worked, {turns.MAX_REST_SECONDS * 1000:g} ms at most",
            "",
        ),
        "resolve.MAX_THREADS_PER_OWNER": (
            "Names looked up at a time, and waiting to be",
            f"{resolve.MAX_THREADS_PER_OWNER}, and {resolve.MAX_WAITING_PER_OWNER}",
            "`upstream.unresolved`",
            "",
        ),
        "limits.MAX_WIRES": (
            "Upstream connections of one client connection",
            f"{limits.MAX_WIRES}",
            "a request waits",
            "",
        ),
    },
    "A request or a response": {
        "MessageLimits.head": ("Bytes of a head", size(MESSAGE.head), "431, or 502", ""),
        "MessageLimits.fields": ("Fields of a head of HTTP/1.1", f"{MESSAGE.fields}", "431, or 502", ""),
        "http2_limits.MAX_HEAD_BYTES": (
            "Bytes of a head of HTTP/2, 32 more for each field",
            size(http2_limits.MAX_HEAD_BYTES),
            "the connection ends",
            "",
        ),
        "http2_frame_filter.MAX_HEAD_BLOCK_BYTES": (
            "Bytes of the frames that hold a head",
            size(http2_frame_filter.MAX_HEAD_BLOCK_BYTES),
            "the connection ends",
            "",
        ),
        "llm_kind.MAX_LLM_BYTES": (
            "Bytes of a body that rules with `llm:` read",
            size(llm_kind.MAX_LLM_BYTES),
            "`body.too_large`",
            "",
        ),
        "request_fields.MAX_LISTED_OBJECTS": (
            "Tools, and other objects in a list, of a call of a model",
            f"{request_fields.MAX_LISTED_OBJECTS:,}",
            "`llm.shape`",
            "",
        ),
        "request_shapes.MAX_MODELS": (
            "Models that a call can reach",
            f"{request_shapes.MAX_MODELS}",
            "`llm.shape`",
            "",
        ),
        "sse.MAX_SSE_EVENT_BYTES": (
            "Bytes of an event of a model's answer that is read for its usage",
            size(sse.MAX_SSE_EVENT_BYTES),
            "it passes, and the call is charged what it reserved",
            "",
        ),
        "event_stream.MAX_EVENT_MESSAGE_BYTES": (
            "Bytes of a message of an event stream of AWS",
            size(event_stream.MAX_EVENT_MESSAGE_BYTES),
            "`upstream.malformed`",
            "",
        ),
        "MessageLimits.target": ("Characters of a request target", f"{MESSAGE.target:,}", "414", ""),
        "MessageLimits.trailers": ("Bytes of trailers", size(MESSAGE.trailers), "400, or 502", ""),
        "MessageLimits.trailer_fields": (
            "Fields of trailers",
            f"{MESSAGE.trailer_fields}",
            "400, or 502",
            "",
        ),
        "MessageLimits.chunk_extension": (
            "Bytes of extension behind a chunk size",
            f"{MESSAGE.chunk_extension}",
            "400, or 502",
            "",
        ),
        "MessageLimits.chunk_extensions": (
            "Bytes of extension in a body, over one for each byte of data",
            size(MESSAGE.chunk_extensions),
            "400, or 502",
            "",
        ),
        "MessageLimits.informational": (
            "Interim (1xx) heads before a response; of HTTP/2",
            f"{MESSAGE.informational}; {MAX_INTERIM_RESPONSES}",
            "`upstream.malformed`",
            "",
        ),
        "MessageLimits.pending": (
            "Bytes of pipelined requests that wait",
            size(MESSAGE.pending),
            "no more is read",
            "",
        ),
        "status": ("The status of a final response", "200 to 599", "`upstream.malformed`", ""),
        "http2_limits.MAX_STREAMS": (
            "Streams of a connection of HTTP/2",
            f"{http2_limits.MAX_STREAMS}",
            "the connection ends",
            "",
        ),
    },
    "A response that is searched": {
        "MAX_HITS": ("Places in which secrets are masked", f"{MAX_HITS:,}", "`response.withheld`", ""),
        "content_coding.MAX_WINDOW_BYTES": (
            "The window of br and zstd",
            size(content_coding.MAX_WINDOW_BYTES),
            "`response.withheld`",
            "",
        ),
        "content_coding.MAX_RATIO": (
            f"Decoded bytes for each that came, behind the first {size(content_coding.FREE_BYTES)}",
            f"{content_coding.MAX_RATIO}",
            "`response.withheld`",
            "",
        ),
    },
    "A request of GraphQL": {
        "graphql_kind.MAX_GRAPHQL_BYTES": (
            "Bytes of a body",
            size(MAX_GRAPHQL_BYTES),
            "`body.too_large`",
            "",
        ),
        "document.MAX_DOCUMENT_BYTES": (
            "Bytes of a document, or of all in a batch",
            size(MAX_DOCUMENT_BYTES),
            "`graphql.syntax`",
            "",
        ),
        "document.MAX_DOCUMENT_TOKENS": (
            "Tokens of a document",
            f"{MAX_DOCUMENT_TOKENS:,}",
            "`graphql.syntax`",
            "",
        ),
        "document.MAX_OPERATIONS": (
            "Operations of a document",
            f"{MAX_OPERATIONS}, nested {MAX_SELECTION_DEPTH} deep",
            "`graphql.syntax`",
            "",
        ),
        "reach.MAX_WALK_STEPS": (
            "Selections and values that a scope follows",
            f"{MAX_WALK_STEPS:,}, an id for {ID_COST} of them",
            "`graphql.syntax`",
            "",
        ),
        "node_id.MAX_NODE_ID_CHARS": ("Characters of an id", f"{MAX_NODE_ID_CHARS}", "`graphql.node_id`", ""),
    },
    "A message of MCP": {
        "mcp_kind.MAX_MCP_BYTES": ("Bytes of a request", size(MAX_MCP_BYTES), "`body.too_large`", ""),
        "answer.MAX_JSON_ANSWER_BYTES": (
            "Bytes of an answer in JSON",
            size(MAX_JSON_ANSWER_BYTES),
            "`mcp.list` or `mcp.answer`",
            "",
        ),
        "event_stream.MAX_EVENT_BYTES": (
            "Bytes of an event of a stream",
            size(MAX_EVENT_BYTES),
            "`mcp.list` or `mcp.answer`",
            "",
        ),
        "strict_json.MAX_JSON_VALUES": (
            "Values in one message",
            f"{MAX_JSON_VALUES:,}, nested {MAX_JSON_DEPTH} deep",
            "`body.json`; of an answer `mcp.list` or `mcp.answer`",
            "",
        ),
        "server_message.MAX_LIST_ENTRIES": ("Entries of a list", f"{MAX_LIST_ENTRIES:,}", "`mcp.list`", ""),
        "sessions.MAX_SESSIONS_OF_SANDBOX": (
            "Sessions of a sandbox",
            f"{MAX_SESSIONS_OF_SANDBOX}",
            "the one used least recently is forgotten: `mcp.session`",
            "",
        ),
        "sessions.MAX_OPEN_REQUESTS": (
            "Open requests of a session, in each direction",
            f"{MAX_OPEN_REQUESTS}",
            "the oldest one is forgotten: a reply to it is `mcp.reply`",
            "",
        ),
        "answer.MAX_DROPPED_NAMES": (
            "Names of dropped requests of the server in the record of an answer",
            f"{MAX_DROPPED_NAMES}",
            "it is dropped, and not named",
            "",
        ),
    },
    "Time": {
        "IngressLimits.first_byte": (
            "To the first byte of a connection, and of a tunnel",
            seconds(INGRESS.first_byte),
            "it is closed",
            "",
        ),
        "IngressLimits.head_time": (
            "From the first byte of a head to its last",
            seconds(INGRESS.head_time),
            "`request.timeout`",
            "`--head-timeout`",
        ),
        "IngressLimits.hello_time": (
            "From the first byte of a ClientHello to its last",
            seconds(INGRESS.hello_time),
            "`request.timeout`",
            "",
        ),
        "InterceptLimits.client_tls": (
            "The TLS handshake with a client",
            seconds(LANE.client_tls),
            "`request.timeout`",
            "",
        ),
        "InterceptLimits.dial": (
            "To connect to an upstream, and as long again for TLS",
            seconds(TUNNEL.connect),
            "`upstream.timeout`",
            "`--connect-timeout`",
        ),
        "InterceptLimits.secrets": ("To resolve secrets", seconds(LANE.secrets), "`secret.unavailable`", ""),
        "RelayLimits.request_body": (
            "Without a byte of a request body",
            seconds(RELAY.request_body),
            "`request.timeout`",
            "",
        ),
        "RelayLimits.response_head": (
            "To the head of a response",
            seconds(RELAY.response_head),
            "`upstream.timeout`",
            "`--answer-timeout`",
        ),
        "RelayLimits.silence": (
            "Without a byte of a response, a WebSocket or a tunnel",
            seconds(TUNNEL.idle),
            "`upstream.timeout`; a tunnel is closed",
            "`--idle-timeout`",
        ),
        "RelayLimits.keep_alive": (
            "Between two requests of a connection",
            seconds(RELAY.keep_alive),
            "it is closed",
            "`--idle-timeout`, if that is shorter",
        ),
        "RelayLimits.upstream_idle": (
            "An upstream connection that nobody uses",
            seconds(RELAY.upstream_idle),
            "it is closed",
            "",
        ),
    },
    "Names (DNS)": {
        "DnsLimits.per_second": (
            "Questions of a listener in a second, and at once",
            f"{DNS.per_second}, and {DNS.burst:,}",
            "they wait in the kernel, or are lost there",
            "",
        ),
        "DnsLimits.connections": (
            "Connections of a listener, and questions on each",
            f"{DNS.connections}, and {DNS.questions}",
            "`limit.connections`",
            "",
        ),
    },
}

UNTOLD = {
    "IngressLimits.head",
    "IngressLimits.close_time",
    "IngressLimits.linger",
    "IngressLimits.linger_time",
    "IngressLimits.accept_pause",
    "IngressLimits.wrong_passwords",
    "IngressLimits.wrong_password_time",
    "InterceptLimits.upstream_open",
    "InterceptLimits.closing",
    "InterceptLimits.relay",
    "RelayLimits.head",
    "RelayLimits.linger",
    "RelayLimits.upstream_wait",
    "RelayLimits.discarded",
    "RelayLimits.pool",
    "RelayLimits.strict_tls_end",
    "TunnelTimeouts.connect",
    "TunnelTimeouts.idle",
    "DnsLimits.burst",
    "DnsLimits.questions",
    "DnsLimits.patience",
}
"""Fields that another row tells of, that nobody meets, or that are no bound."""


def known() -> set[str]:
    """Every bound that has a name in the classes of limits, and every resource."""
    classes = (MESSAGE, RELAY, DNS, INGRESS, LANE, TUNNEL)
    named = {f"{type(each).__name__}.{field.name}" for each in classes for field in fields(each)}
    return named | {f"Resource.{resource.name}" for resource in Resource}


def text() -> Iterator[str]:
    """The lines of the page."""
    yield INTRODUCTION
    for title, rows in SECTIONS.items():
        yield f"## {title}"
        yield ""
        yield "| bound | value | beyond it | setting |"
        yield "| --- | --- | --- | --- |"
        for row in rows.values():
            yield f"| {' | '.join(row)} |"
        yield ""
