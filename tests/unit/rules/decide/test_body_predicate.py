"""Every kind of body has a predicate that keeps the interface, and fails closed on what it does not know."""

from __future__ import annotations

from egress.inspect.kinds import KINDS
from egress.inspect.llm.usage import LLM_APIS
from egress.rules.compile.body_rules import BODY_KEYS
from egress.rules.decide.body_predicate import BodyPredicate
from egress.rules.decide.git_predicate import GitPredicate
from egress.rules.decide.globs import ValueGlob
from egress.rules.decide.graphql_predicate import GraphqlPredicate
from egress.rules.decide.llm_predicate import LlmPredicate
from egress.rules.decide.mcp_predicate import McpPredicate
from egress.rules.decide.name_glob import NameGlob

PREDICATES: tuple[BodyPredicate, ...] = (
    GraphqlPredicate((("query", (ValueGlob("*"),)),)),
    GitPredicate((NameGlob("**"),)),
    McpPredicate(),
    *(LlmPredicate(api, (ValueGlob("*"),)) for api in LLM_APIS),
)


def test_every_kind_has_a_predicate_and_a_key() -> None:
    assert {each.kind for each in PREDICATES} == set(KINDS)
    assert {kind.partition(".")[0] for kind in KINDS} == set(BODY_KEYS)


def test_an_item_of_another_kind_is_never_covered_and_always_denied() -> None:
    for predicate in PREDICATES:
        assert predicate.misses(object()) is not None
        assert predicate.denies(object())
        assert predicate.expanded(object()) is None
        assert hash(predicate) is not None
