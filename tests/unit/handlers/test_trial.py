"""What a handler would do to a request, said without a proxy."""

from __future__ import annotations

import pytest

from egress.handlers.in_process import InProcessHandlers
from egress.handlers.trial import HandlerTrial, try_handler
from egress.types import Head, Identity
from tests.unit.handlers.samples import module
from tests.unit.rules.rule_samples import NOW, policy

pytestmark = pytest.mark.timeout(60, method="thread")

RULES = """
version: 1
hosts:
  api.example.com:
    allow:
      - {id: read, methods: [POST, PUT], paths: ["/v1/**"], handler: {use: one}}
      - {id: plain, methods: [GET], paths: ["/plain"]}
"""
FILE = """
@handler(body=100)
async def one(request: Request, context: Context):
    match request.path:
        case "/v1/allow": return Allow()
        case "/v1/change":
            return Allow("PUT", "/v1/b", set_headers={"x-a": "1"}, remove_headers=["x-b"], body=b"12")
        case "/v1/away": return Allow(path="/v2")
        case "/v1/answer": return Answer(201, request.body)
        case "/v1/deny": return Deny("no")
        case "/v1/mute": return Deny()
"""


async def tried(target: str, *, method: str = "GET", body: bytes = b"") -> HandlerTrial | None:
    head = Head(method, "https", "api.example.com", 443, target, (("x-b", "1"),))
    return await try_handler(policy(RULES), Identity("box"), head, NOW, body, InProcessHandlers(module(FILE)))


@pytest.mark.parametrize(
    ("target", "text", "code"),
    [
        ("/v1/allow", "allows it", ""),
        (
            "/v1/change",
            (
                "changes the target to /v1/b, the method to PUT, x-a header, x-b header (removed), "
                "the body to 2 bytes"
            ),
            "",
        ),
        ("/v1/away", "changes the target to /v2, which is denied: rule.none", "rule.none"),
        ("/v1/answer", "answers 201 with 4 bytes", ""),
        ("/v1/deny", "denies: no", "handler.denied"),
        ("/v1/mute", "denies", "handler.denied"),
        ("/v1/other", "failed (value)", "handler.failed"),
    ],
)
async def test_outcomes(target: str, text: str, code: str) -> None:
    found = await tried(target, method="POST", body=b"body")
    assert found is not None
    assert (found.handler, found.text, found.code) == ("one", text, code)
    assert found.status == (201 if "answer" in target else 0)


@pytest.mark.parametrize("target", ["/plain", "/denied"])
async def test_nothing_is_asked_where_no_handler_is_called(target: str) -> None:
    assert await tried(target) is None
