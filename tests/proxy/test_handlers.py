"""Handlers in a whole proxy: in its process and in one of their own, each with the same file.

The upstream counts what reaches it, so an allowed request is the positive control of every refused one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from egress.handlers.opening import open_handlers
from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.client import dial
from tests.proxy.lab.proxy_stack import NAME, ProxyStack
from tests.proxy.lab.raw_upstream import RawUpstream

CERTS = Certificates()
FORMS = pytest.mark.parametrize("in_process", [True, False], ids=["in process", "own process"])
pytestmark = pytest.mark.timeout(120, method="thread")

FILE = """
from egress.handlers import Allow, Answer, Context, Deny, Request, handler

@handler
async def passes(request: Request, context: Context) -> Allow:
    return Allow()

@handler
async def denies(request: Request, context: Context) -> Deny:
    return Deny(f"{context.params['why']} for {context.sandbox}")

@handler
async def answers(request: Request, context: Context) -> Answer:
    return Answer.json({"url": request.url, "secrets": list(context.secrets), "rule": context.rule}, 418)

@handler
async def rewrites(request: Request, context: Context) -> Allow:
    path = str(context.params["path"])
    return Allow(path=path, query="a=1", set_headers={"X-Team": "blue"}, remove_headers=["x-old"])

@handler(body=1000)
async def shouts(request: Request, context: Context) -> Allow:
    return Allow(body=(request.body or b"").upper())

@handler
async def adds_credential(request: Request, context: Context) -> Allow:
    return Allow(set_headers={"Authorization": "Bearer of my own"})

@handler
async def sees(request: Request, context: Context) -> Answer:
    return Answer.json([name for name, _ in request.headers])
"""

RULES = """
version: 1
secrets:
  api: {{from: "file:{secret}", hosts: ["{name}:{port}"]}}
hosts:
  {name}:
    ports: [{port}]
    addresses: [127.0.0.1/32]
    allow:
      - {{id: read, methods: [GET], paths: ["/v1/**"]{handler}}}
      - {{id: write, methods: [POST], paths: ["/v1/**"]{handler}}}
    inject:
      - bearer: api
  kv.internal:
    virtual: true
    handler: {{use: answers}}
"""
SECRET = "sesame-open-please-0123456789"


@asynccontextmanager
async def opened(
    folder: Path, port: int, handler: str, *, in_process: bool, text: str = FILE
) -> AsyncIterator[ProxyStack]:
    folder.mkdir(exist_ok=True)  # noqa: ASYNC240 - in a test nobody waits for it
    path = folder / "handlers.py"
    path.write_text(text)
    secret = folder / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    caller = await open_handlers(path, in_process=in_process)
    use = (
        f", handler: {{use: {handler}}}"
        if handler and "{" not in handler
        else f", handler: {handler}"
        if handler
        else ""
    )
    rules = RULES.format(name=NAME, port=port, handler=use, secret=secret)
    try:
        async with ProxyStack(folder, CERTS, rules, handlers=caller) as stack:
            yield stack
    finally:
        await caller.close()


def get(target: str, port: int, *fields: str, method: str = "GET", body: bytes = b"") -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"host: {NAME}:{port}", *fields]
    if body:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


@FORMS
async def test_a_request_that_a_handler_allows_is_sent_with_its_secret(
    tmp_path: Path, *, in_process: bool
) -> None:
    async with (
        RawUpstream(CERTS.good(NAME)) as upstream,
        opened(tmp_path, upstream.port, "passes", in_process=in_process) as stack,
        await stack.visit(upstream) as peer,
    ):
        response = await peer.request(get("/v1/user", upstream.port))
        lines = stack.exchanges()
    assert response.header("egress-denied") is None
    (seen,) = upstream.requests
    assert seen.header("authorization") == f"Bearer {SECRET}"
    facts = lines[0]["facts"]
    assert isinstance(facts, dict)
    assert (facts["handler"], facts["handler_verdict"]) == ("passes", "allow")
    assert isinstance(facts["handler_ms"], int)


@FORMS
async def test_a_denial_reaches_the_sandbox_with_its_reason_and_nothing_the_upstream(
    tmp_path: Path, *, in_process: bool
) -> None:
    use = "{use: denies, with: {why: no drafts}}"
    async with (
        RawUpstream(CERTS.good(NAME)) as upstream,
        opened(tmp_path, upstream.port, use, in_process=in_process) as stack,
        await stack.visit(upstream) as peer,
    ):
        response = await peer.request(get("/v1/user", upstream.port))
        lines = stack.exchanges()
    assert (response.status, response.header("egress-denied")) == (403, "handler.denied")
    assert b"no drafts for test" in response.body
    assert not upstream.links
    assert (lines[0]["verdict"], lines[0]["code"]) == ("deny", "handler.denied")


@FORMS
async def test_a_virtual_host_is_answered_without_an_upstream(tmp_path: Path, *, in_process: bool) -> None:
    async with (
        opened(tmp_path, 443, "passes", in_process=in_process) as stack,
        await dial(stack.proxy) as peer,
    ):
        response = await peer.request(b"GET http://kv.internal/a?b=c HTTP/1.1\r\nhost: kv.internal\r\n\r\n")
        lines = stack.exchanges()
    assert response.status == 418
    assert b'"url": "http://kv.internal/a?b=c"' in response.body
    assert (lines[0]["verdict"], lines[0]["status"]) == ("allow", 418)


@FORMS
async def test_what_a_handler_changes_is_judged_by_the_rules(tmp_path: Path, *, in_process: bool) -> None:
    for path, code in (("/v1/other", None), ("/v2/other", "rule.none"), ("/v1/../v2", "path.ambiguous")):
        use = f'{{use: rewrites, with: {{path: "{path}"}}}}'
        async with (
            RawUpstream(CERTS.good(NAME)) as upstream,
            opened(tmp_path / path.replace("/", "_"), upstream.port, use, in_process=in_process) as stack,
            await stack.visit(upstream) as peer,
        ):
            response = await peer.request(get("/v1/user", upstream.port, "x-old: 1"))
        assert response.header("egress-denied") == code
        seen = [(each.target, each.header("x-team"), each.header("x-old")) for each in upstream.requests]
        assert seen == ([("/v1/other?a=1", "blue", None)] if code is None else [])


@FORMS
async def test_a_body_is_read_whole_and_written_anew(tmp_path: Path, *, in_process: bool) -> None:
    async with (
        RawUpstream(CERTS.good(NAME)) as upstream,
        opened(tmp_path, upstream.port, "shouts", in_process=in_process) as stack,
        await stack.visit(upstream) as peer,
    ):
        response = await peer.request(get("/v1/notes", upstream.port, method="POST", body=b"hello"))
        refused = await peer.request(get("/v1/notes", upstream.port, method="POST", body=bytes(1001)))
    assert response.header("egress-denied") is None
    assert [request.body for request in upstream.requests] == [b"HELLO"]
    assert refused.header("egress-denied") == "body.too_large"


@FORMS
async def test_a_handler_neither_sees_nor_writes_a_credential(tmp_path: Path, *, in_process: bool) -> None:
    async with (
        RawUpstream(CERTS.good(NAME)) as upstream,
        opened(tmp_path, upstream.port, "sees", in_process=in_process) as stack,
        await stack.visit(upstream) as peer,
    ):
        response = await peer.request(
            get("/v1/user", upstream.port, "authorization: mine", "cookie: a=b", "x-a: 1")
        )
    assert response.body == b'["host", "x-a"]'
    async with (
        RawUpstream(CERTS.good(NAME)) as upstream,
        opened(tmp_path / "two", upstream.port, "adds_credential", in_process=in_process) as stack,
        await stack.visit(upstream) as peer,
    ):
        response = await peer.request(get("/v1/user", upstream.port))
    assert response.header("egress-denied") == "handler.refused"
    assert not upstream.links


FAULTS = """
import asyncio, os, socket, subprocess, sys, time
from egress.handlers import Allow, Answer, Context, Deny, Request, handler

@handler
async def fault(request: Request, context: Context) -> object:
    match request.path:
        case "/v1/good": return Allow()
        case "/v1/raises": raise ValueError("not shown: sesame")
        case "/v1/exits": sys.exit(3)
        case "/v1/interrupt": raise KeyboardInterrupt
        case "/v1/cancelled": raise asyncio.CancelledError
        case "/v1/none": return None
        case "/v1/class": return Allow
        case "/v1/text": return "allow"
        case "/v1/odd": return Allow(path=7)
        case "/v1/headers": return Allow(set_headers={1: 2})
        case "/v1/many": return Allow(set_headers={f"x-{n}": "1" for n in range(101)})
        case "/v1/status": return Answer("200")
        case "/v1/huge": return Answer(200, bytes(8 * 1024 * 1024 + 1))
        case "/v1/loops":
            while True: pass
        case "/v1/sleeps": time.sleep(60)
        case "/v1/waits": await asyncio.sleep(60)
    raise AssertionError

fault.__egress_handler__ = type(fault.__egress_handler__)(0, 0.5)
"""
IN_BOTH = (
    *(
        "raises",
        "exits",
        "interrupt",
        "cancelled",
        "none",
        "class",
        "text",
        "odd",
        "headers",
        "many",
        "status",
    ),
    *("huge", "loops", "sleeps", "waits"),
)


@FORMS
async def test_every_fault_denies_its_request_and_costs_the_others_nothing(
    tmp_path: Path, *, in_process: bool
) -> None:
    async with (
        RawUpstream(CERTS.good(NAME)) as upstream,
        opened(tmp_path, upstream.port, "fault", in_process=in_process, text=FAULTS) as stack,
    ):
        for name in IN_BOTH:
            async with await stack.visit(upstream) as peer, await stack.visit(upstream) as other:
                refused, passed = await asyncio.gather(
                    peer.request(get(f"/v1/{name}", upstream.port)),
                    other.request(get("/v1/good", upstream.port)),
                )
            assert refused.header("egress-denied") == "handler.failed", name
            assert b"sesame" not in refused.raw
            assert passed.header("egress-denied") is None, name
        lines = stack.exchanges()
    # Only the good requests have left, one for each fault.
    assert [request.path for request in upstream.requests] == ["/v1/good"] * len(IN_BOTH)
    kinds = {line["path"]: line["facts"]["handler_verdict"] for line in lines}  # type: ignore[index]
    assert {kinds[f"/v1/{name}"] for name in ("raises", "exits", "interrupt", "cancelled")} == {"raised"}
    assert {kinds[f"/v1/{name}"] for name in ("none", "class", "text", "odd", "status")} == {"value"}
    assert {kinds[f"/v1/{name}"] for name in ("loops", "sleeps", "waits")} == {"timeout"}


OUTSIDE = """
import os, struct, sys, time
from egress.handlers import Allow, Answer, Request, Context, handler

CHANNEL = int(sys.argv[1])

@handler(deadline=2)
def fault(request: Request, context: Context) -> object:
    match request.path:
        case "/v1/good": return Allow()
        case "/v1/gone": os._exit(0)
        case "/v1/allocates": return Answer(200, b"x" * (2 * 1024 * 1024 * 1024))
        case "/v1/forks":
            if os.fork() == 0:
                return Allow()
            time.sleep(60)
        case "/v1/noise":
            os.write(CHANNEL, b"\\xff" * 64)
            time.sleep(60)
        case "/v1/twice":
            os.write(CHANNEL, struct.pack(">I", 3) + b"\\x93\\xc0\\xc0")
            return Allow()
    raise AssertionError
"""


async def test_what_a_handler_does_to_its_own_process_harms_no_other_call(tmp_path: Path) -> None:
    names = ("gone", "allocates", "forks", "noise", "twice")
    async with (
        RawUpstream(CERTS.good(NAME)) as upstream,
        opened(tmp_path, upstream.port, "fault", in_process=False, text=OUTSIDE) as stack,
    ):
        for name in names:
            async with await stack.visit(upstream) as peer, await stack.visit(upstream) as other:
                refused, passed = await asyncio.gather(
                    peer.request(get(f"/v1/{name}", upstream.port)),
                    other.request(get("/v1/good", upstream.port)),
                )
            assert refused.header("egress-denied") == "handler.failed", name
            assert passed.header("egress-denied") is None, name
    assert [request.path for request in upstream.requests] == ["/v1/good"] * len(names)
