"""The refusals shown in docs/reference/denials.md are those that a sandbox gets."""

from __future__ import annotations

import pytest

from egress.errors import CODES
from egress.http1 import RequestHead
from egress.proxy.ingress.pending_connection import IngressRefusal
from egress.proxy.ingress.refusal_response import refusal_page
from egress.relay.error_page import ErrorPage, error_page, grpc_error_page
from scripts.pages import ROOT, Block, blocks

PAGE = ROOT / "docs/reference/denials.md"
ID = "7f3a-12"
SHOWN = [block for block in blocks(PAGE) if block.language == "http"]


def real(form: str, code: str, seconds: str = "0") -> str:
    """What the block of these words has to show."""
    wait = int(seconds)
    match form:
        case "json":
            return whole(error_page(code, ID, accept="*/*", user_agent="curl/8", retry_after=wait))
        case "git":
            return whole(error_page(code, ID, accept="*/*", user_agent="git/2.39.5", retry_after=wait))
        case "pip":
            page = "application/vnd.pypi.simple.v1+json"
            return whole(error_page(code, ID, accept=page, user_agent="pip/26.3", retry_after=wait))
        case "text":
            return whole(error_page(code, ID, accept="text/plain", retry_after=wait))
        case "head":
            return whole(error_page(code, ID, retry_after=wait)).partition("\n\n")[0] + "\n"
        case "grpc":
            return fields(grpc_error_page(code, ID, retry_after=wait))
        case "connect":
            head = RequestHead("CONNECT", "10.0.0.1:443", "authority", ())
            return refusal_page(IngressRefusal(code, retry_after=wait), ID, head).decode().replace("\r", "")
        case _:
            raise AssertionError(f"there is no form {form}")


def whole(made: ErrorPage) -> str:
    return f"HTTP/1.1 {made.status} {made.reason}\n{fields(made)}\n{made.body.decode()}"


def fields(made: ErrorPage) -> str:
    return "".join(f"{name}: {value}\n" for name, value in made.headers)


@pytest.mark.parametrize("block", SHOWN, ids=lambda block: block.place)
def test_a_shown_refusal_is_the_real_one(block: Block) -> None:
    assert block.words[1] in CODES
    assert block.text == real(*block.words)


def test_every_form_is_shown() -> None:
    assert {block.words[0] for block in SHOWN} == {"json", "git", "pip", "text", "head", "grpc", "connect"}


def test_every_field_of_our_own_is_explained() -> None:
    made = error_page("rule.none", ID, retry_after=1)
    own = [
        name for name, _ in made.headers if name.startswith(("egress-", "x-should")) or name == "retry-after"
    ]
    assert len(own) == 4
    told = PAGE.read_text(encoding="utf-8")
    assert [name for name in own if f"| `{name}` |" not in told] == []
