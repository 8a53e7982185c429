"""An odd return value is a fault, whatever is odd about it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.exchange import AllowByHandler, AnswerByHandler, DenyByHandler
from egress.handlers.conversion import MAX_HEADERS, ODD_VALUE, seen_by_handler, verdict_of
from egress.handlers.interface import MAX_BODY_BYTES, Allow, Answer, Deny
from tests.unit.handlers.samples import call

REQUEST, CONTEXT = seen_by_handler(call(params='{"team": "blue"}', reads_body=True), b"body")


def test_a_handler_sees_the_request_and_what_is_around_it() -> None:
    assert (REQUEST.method, REQUEST.host, REQUEST.path, REQUEST.query) == (
        "GET",
        "api.example.com",
        "/a",
        "b=c",
    )
    assert REQUEST.headers == (("host", "api.example.com"), ("x-a", "1"))
    assert REQUEST.body == b"body"
    assert seen_by_handler(call(), b"body")[0].body is None
    assert (CONTEXT.sandbox, CONTEXT.profile, CONTEXT.values) == ("box", "web", {"repo": "acme/app"})
    assert (CONTEXT.handler, CONTEXT.params, CONTEXT.rule) == (
        "one",
        {"team": "blue"},
        "api.example.com#read",
    )
    assert (CONTEXT.secrets, CONTEXT.facts) == (("api",), {"body": "git"})


def test_what_one_call_changes_in_its_parameters_reaches_no_other() -> None:
    asked = call(params='{"list": []}')
    _, first = seen_by_handler(asked, b"")
    first.params["list"].append(1)  # type: ignore[attr-defined]
    assert seen_by_handler(asked, b"")[1].params == {"list": []}


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        (Allow(), AllowByHandler()),
        (Allow(path="/b"), AllowByHandler(target="/b?b=c")),
        (Allow(query=""), AllowByHandler(target="/a")),
        (Allow(path="/b", query="d"), AllowByHandler(target="/b?d")),
        (Allow(method="PUT", body=b"x"), AllowByHandler(method="PUT", body=b"x")),
        (
            Allow(set_headers={"X-B": "1"}, remove_headers=["X-A"]),
            AllowByHandler(set_headers=(("x-b", "1"),), removed=frozenset({"x-a"})),
        ),
        (Answer(404, "né"), AnswerByHandler(404, (), "né".encode())),
        (Answer(), AnswerByHandler(200, (), b"")),
        (Deny(), DenyByHandler("")),
        (Deny("why"), DenyByHandler("why")),
    ],
)
def test_values_and_their_verdicts(value: object, verdict: object) -> None:
    assert verdict_of(value, REQUEST) == verdict


class SubAllow(Allow):
    pass


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        "allow",
        Allow,
        object(),
        SubAllow(),
        Allow(method=1),  # type: ignore[arg-type]
        Allow(path="/a?b"),
        Allow(body="text"),  # type: ignore[arg-type]
        Allow(body=bytes(MAX_BODY_BYTES + 1)),
        Allow(set_headers=[("a", "b")]),  # type: ignore[arg-type]
        Allow(set_headers={"a": None}),  # type: ignore[dict-item]
        Allow(set_headers={f"x-{n}": "" for n in range(MAX_HEADERS + 1)}),
        Allow(set_headers={"x-a": "1" * 70_000}),
        Allow(remove_headers="x-a"),
        Allow(remove_headers=[1]),  # type: ignore[list-item]
        Allow(remove_headers=None),  # type: ignore[arg-type]
        Answer("200"),  # type: ignore[arg-type]
        Answer(True),
        Answer(200, None),  # type: ignore[arg-type]
        Answer(200, 5),  # type: ignore[arg-type]
        Deny(b"x"),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_odd_values(value: object) -> None:
    assert verdict_of(value, REQUEST) == ODD_VALUE


@given(st.dictionaries(st.text(), st.text()), st.text(), st.text())
def test_any_texts_lead_to_a_verdict(headers: dict[str, str], path: str, query: str) -> None:
    verdict = verdict_of(Allow(path=path, query=query, set_headers=headers), REQUEST)
    assert verdict == ODD_VALUE or isinstance(verdict, AllowByHandler)
