"""GraphQL as a kind of body: pieces, answers, and facts that come back from the log."""

from __future__ import annotations

import json

import pytest

from egress.errors import CODES
from egress.inspect.graphql.graphql_kind import GraphqlKind
from egress.inspect.inspector import MAX_FACT_CHARS, MORE, Facts, Inspector, Refusal, Unreadable
from egress.types import Head
from tests.unit.inspect.graphql.vectors import READ, VECTORS, Vector, envelope

KIND = GraphqlKind()


def inspector(target: str = "/graphql", method: str = "POST") -> Inspector:
    begun = KIND.begin(Head(method, "https", "api.example.test", 443, target))
    assert not isinstance(begun, Facts | Unreadable)
    return begun


def facts_of(body: bytes) -> Facts:
    one = inspector()
    one.feed(body)
    found = one.end()
    assert isinstance(found, Facts)
    return found


@pytest.mark.parametrize(
    "vector", [each for each in VECTORS if each.target == "/graphql"], ids=lambda each: each.number
)
def test_facts_do_not_depend_on_the_pieces(vector: Vector) -> None:
    whole, pieces = inspector(), inspector()
    assert whole.feed(vector.body) is MORE
    for at in range(0, len(vector.body), 7):
        assert pieces.feed(vector.body[at : at + 7]) is MORE
    assert whole.end() == pieces.end()


def test_a_url_beside_a_body_is_refused_before_the_body() -> None:
    head = Head("POST", "https", "api.example.test", 443, "/graphql?query={a}")
    assert KIND.begin(head) == Unreadable(
        "graphql.url_parameters", "the URL has a parameter of GraphQL beside the body"
    )


def test_a_get_has_its_facts_at_its_end_and_no_body() -> None:
    one = inspector("/graphql?query={a}", "GET")
    assert isinstance(one.end(), Facts)
    found = inspector("/graphql?query={a}", "GET").feed(b"x")
    assert isinstance(found, Unreadable)


def test_the_log_names_fields_by_type_and_cuts_long_lists() -> None:
    assert facts_of(envelope("query A{a b} mutation B{c}", operationName="A")).log == {
        "graphql_query": "a b",
        "graphql_mutation": "c",
    }
    many = facts_of(envelope("{" + " ".join(f"field{n}" for n in range(100)) + "}"))
    assert len(str(many.log["graphql_query"])) == MAX_FACT_CHARS
    assert KIND.recall(many.log) is None


def test_facts_come_back_from_the_log() -> None:
    found = facts_of(b"[%b]" % envelope(READ))
    again = KIND.recall(found.log)
    assert again is not None
    assert [str(item) for item in again.items] == ["query.viewer"]
    assert KIND.recall({}) is None


def test_an_answer_is_an_error_of_graphql_with_a_message_for_gh() -> None:
    known = CODES["graphql.field"]
    answer = KIND.answer(Refusal("graphql.field", known.message, known.hint, "", "mutation.x"), None)
    said = json.loads(answer.body)
    assert (answer.status, answer.media_type) == (403, "application/json")
    assert (
        said["message"]
        == said["errors"][0]["message"]
        == "Egress: No rule allows this root field. (mutation.x)"
    )
    assert said["errors"][0]["extensions"] == {"code": "graphql.field", "hint": known.hint}
