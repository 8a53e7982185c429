"""How far documents reach: bounds of the walk, values in all places, and what the table is made of."""

from __future__ import annotations

import time

import pytest

from egress.inspect.graphql.document import read_document
from egress.inspect.graphql.github.reach import MAX_WALK_STEPS, DocumentReach, Named, Numbered, Reach
from egress.inspect.graphql.syntax import MAX_VALUE_DEPTH
from egress.inspect.strict_json import JsonValue
from tests.unit.inspect.graphql.scope_vectors import FOREIGN_ISSUE, FOREIGN_NUMBER, HOME, HOME_NUMBER


def reach_of(text: str, kind: str = "query", name: str = "repository", **variables: JsonValue) -> Reach:
    parsed = read_document(text).parsed
    assert parsed is not None
    return DocumentReach(parsed, variables).of(kind, name)


def here(selection: str) -> str:
    return f'{{repository(owner:"acme",name:"app"){{{selection}}}}}'


def test_what_is_asked_of_one_repository_demands_it_alone() -> None:
    assert reach_of(here("id")) == Reach((Named("acme/app"),))
    assert reach_of(here(f'object(expression:"{FOREIGN_ISSUE}"){{oid}}')) == Reach((Named("acme/app"),))


def test_an_id_deep_below_is_a_demand_as_well() -> None:
    run = f'...on CheckRun{{isRequired(pullRequestId:"{FOREIGN_ISSUE}")}}'
    checks = f"statusCheckRollup{{contexts{{nodes{{{run}}}}}}}"
    found = reach_of(here(f"pullRequest(number:1){{{checks}}}"))
    assert found.demands == (Named("acme/app"), Numbered(FOREIGN_NUMBER))


@pytest.mark.parametrize(
    "given",
    [
        {"repositoryId": HOME, "labelIds": [FOREIGN_ISSUE]},
        {"repositoryId": HOME, "labelIds": FOREIGN_ISSUE},
        {"repositoryId": FOREIGN_ISSUE},
    ],
)
def test_ids_in_variables_are_found_in_lists_and_without(given: JsonValue) -> None:
    document = "mutation($i:CreateIssueInput!){createIssue(input:$i){clientMutationId}}"
    assert Numbered(FOREIGN_NUMBER) in reach_of(document, "mutation", "createIssue", i=given).demands


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"repositoryId": HOME, "newThing": "x"}, "graphql.unknown_field"),
        ({"repositoryId": 7}, "graphql.node_id"),
        ({"repositoryId": True}, "graphql.node_id"),
        ({"repositoryId": {"a": "b"}}, "graphql.node_id"),
        ("x", "graphql.unknown_field"),
        (None, "graphql.scope"),
        ({}, "graphql.scope"),
    ],
)
def test_values_of_other_kinds_are_refused(given: JsonValue, code: str) -> None:
    document = "mutation($i:CreateIssueInput!){createIssue(input:$i){clientMutationId}}"
    assert reach_of(document, "mutation", "createIssue", i=given).code == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (here("issues(newArgument:1){totalCount}"), "graphql.unknown_field"),
        (here("name{x}"), "graphql.unknown_field"),
        (here("issues"), "graphql.unknown_field"),
        (here("...on Enterprise{name slug members{totalCount}}"), "graphql.foreign"),
        (here("parent{...on Repository{object{id}}}"), "graphql.foreign"),
        (here("owner{avatarUrl(size:9)}"), "graphql.foreign"),
        ('{repository(owner:"a",name:"b",at:"c"){id}}', "graphql.unknown_field"),
        ('{repository(owner:["a"],name:"b"){id}}', "graphql.scope"),
        ('{repository(owner:a,name:"b"){id}}', "graphql.scope"),
        ('{repository(owner:"a",owner:"b",name:"b"){id}}', "graphql.document"),
        ('query($o:String="a",$o:String="b"){repository(owner:$o,name:"b"){id}}', "graphql.document"),
        (
            here(f"object(expression:{'[' * (MAX_VALUE_DEPTH + 2)}1{']' * (MAX_VALUE_DEPTH + 2)}){{id}}"),
            "graphql.document",
        ),
    ],
)
def test_what_servers_could_take_otherwise_is_refused(text: str, code: str) -> None:
    assert reach_of(text).code == code


def test_a_field_that_is_not_in_the_document_is_within_no_scope() -> None:
    assert reach_of(here("id"), name="other").code == "graphql.scope"


def test_a_chain_of_fragments_has_an_end() -> None:
    links = "".join(f" fragment F{n} on Repository{{...F{n + 1}}}" for n in range(300))
    found = reach_of(here("...F0") + links + " fragment F300 on Repository{id}")
    assert (found.code, found.detail) == ("graphql.syntax", "the document is nested too deeply")


def test_a_document_is_followed_to_a_bound_and_in_its_time() -> None:
    # Each root field follows the fragment for itself.
    fields = " ".join(f"f{n}:name" for n in range(100))
    roots = " ".join(f'r{n}:repository(owner:"a",name:"b"){{...F}}' for n in range(90))
    start = time.process_time()
    found = reach_of(f"{{{roots}}} fragment F on Repository{{{fields}}}")
    assert found.code == "graphql.syntax"
    assert time.process_time() - start < 1
    assert MAX_WALK_STEPS == 5_000
    assert reach_of(f"{{{roots}}} fragment F on Repository{{name}}") == Reach((Named("a/b"),))


def test_many_ids_in_variables_count_as_steps() -> None:
    many: list[JsonValue] = [HOME] * (MAX_WALK_STEPS // 5 + 1)
    assert reach_of("query($i:[ID!]!){nodes(ids:$i){id}}", name="nodes", i=many).code == "graphql.syntax"
    few: list[JsonValue] = [HOME] * 100
    found = reach_of("query($i:[ID!]!){nodes(ids:$i){id}}", name="nodes", i=few)
    assert found.demands == (Numbered(HOME_NUMBER),)
