"""What authors of handlers meet."""

from __future__ import annotations

import pytest

from egress import handlers
from egress.handlers.interface import Allow, Answer, Context, HandlerTerms, Request, handler, terms_of

REQUEST = Request(
    "POST", "https", "api.example.com", 443, "/a", "b=c", (("x-a", "1"), ("x-a", "2")), b'{"n": 1}'
)


def test_the_interface_is_one_import() -> None:
    assert set(handlers.__all__) == {"Allow", "Answer", "Context", "Deny", "Handler", "Request", "handler"}


def test_a_request_shows_its_parts() -> None:
    assert REQUEST.url == "https://api.example.com/a?b=c"
    assert (REQUEST.header("X-A"), REQUEST.header("none")) == ("1", None)
    assert REQUEST.json() == {"n": 1}
    plain = Request("GET", "http", "kv.internal", 8080, "/", "", ())
    assert plain.url == "http://kv.internal:8080/"
    with pytest.raises(ValueError, match="does not ask for the body"):
        plain.json()


def test_a_request_cannot_be_changed_and_shows_no_header_by_itself() -> None:
    with pytest.raises(AttributeError):
        REQUEST.path = "/b"  # type: ignore[misc]
    assert "x-a" not in repr(REQUEST)
    assert "{" not in repr(REQUEST)


def test_terms_are_those_of_the_decorator() -> None:
    @handler
    async def plain(request: Request, context: Context) -> Allow:
        return Allow()

    @handler(body=10, deadline=1.5)
    async def reading(request: Request, context: Context) -> Allow:
        return Allow()

    assert terms_of(plain) == HandlerTerms()
    assert terms_of(reading) == HandlerTerms(10, 1.5)
    assert terms_of(print) is None


@pytest.mark.parametrize("terms", [{"body": -1}, {"body": 1 << 30}, {"deadline": 0}, {"deadline": 61}])
def test_terms_have_bounds(terms: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be"):
        handler(**terms)


def test_an_answer_in_json() -> None:
    assert Answer.json({"a": 1}, 201) == Answer(201, '{"a": 1}', {"content-type": "application/json"})
