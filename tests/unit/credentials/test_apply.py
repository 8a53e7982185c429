"""egress/credentials/apply.py: all the needs of one request together."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import permutations

import pytest

from egress.credentials.apply import apply_credentials
from egress.credentials.placeholder_search import NO_PLACEHOLDERS
from egress.credentials.result import CredentialedHead
from egress.types import (
    Head,
    Headers,
    InjectBasic,
    InjectCookie,
    InjectHeader,
    Injection,
    InjectQuery,
    OnExisting,
)
from tests.unit.credentials.credential_samples import (
    OTHER,
    SANDBOX,
    STAND_IN,
    TOKEN,
    applied,
    github_in,
    held,
    refused,
    request,
    values_of,
)

BEARER = InjectHeader("github", "authorization", "Bearer ")
EACH = [
    (BEARER, "header:authorization"),
    (InjectBasic("github", "user"), "header:authorization"),
    (InjectQuery("github", "key"), "query:key"),
    (InjectCookie("github", "sid"), "cookie:sid"),
]
TAKEN = request("/?key=mine", ("authorization", "mine"), ("cookie", "sid=mine"))


def test_nothing_needed_gives_the_very_same_head() -> None:
    head = request("/a?b", ("x", "1"))
    outcome = applied(apply_credentials(head, (), held(), SANDBOX))
    assert outcome.head is head
    assert (outcome.written, outcome.replaced) == ((), False)


def test_a_placeholder_that_is_not_there_gives_the_very_same_head() -> None:
    head = request("/a?b", ("x", "1"))
    assert applied(apply_credentials(head, [github_in("header:x", "path")], {}, SANDBOX)).head is head


def test_the_closing_comes_last_and_leaves_all_else_of_the_head() -> None:
    """What it takes off cannot come back with a credential; what it adds is on a bare head too."""

    def closed(headers: Headers) -> Headers:
        return (*[field for field in headers if field[0] != "x"], ("y", "1"))

    asked = replace(request("/a?b", ("x", "1")), websocket=True)
    bare = applied(apply_credentials(asked, (), held(), SANDBOX, closing=closed)).head
    assert bare == replace(asked, headers=(*asked.headers[:1], ("y", "1")))
    assert type(bare) is Head
    outcome = applied(
        apply_credentials(asked, [InjectHeader("github", "x")], held(), SANDBOX, closing=closed)
    )
    assert outcome.head.headers == bare.headers
    assert isinstance(outcome.head, CredentialedHead)
    assert (outcome.head.target, outcome.head.websocket) == ("/a?b", True)


@pytest.mark.parametrize(("need", "slot"), EACH)
def test_writes_what_is_needed_and_records_it(need: Injection, slot: str) -> None:
    outcome = applied(apply_credentials(request("/"), [need], held()))
    assert isinstance(outcome.head, CredentialedHead)
    assert [(secret, str(where)) for secret, where in outcome.written] == [("github", slot)]
    assert not outcome.replaced


@pytest.mark.parametrize(("need", "slot"), EACH)
def test_says_that_it_replaced_something(need: Injection, slot: str) -> None:
    outcome = applied(apply_credentials(TAKEN, [need], held()))
    assert outcome.replaced
    assert values_of(outcome.head.headers, "authorization") != []


@pytest.mark.parametrize(("need", "slot"), EACH)
def test_refuses_an_occupied_slot_where_the_rule_says_so(need: InjectHeader, slot: str) -> None:
    strict = replace(need, on_existing=OnExisting.FAIL)
    refusal = refused(apply_credentials(TAKEN, [strict], held()))
    assert (refusal.code, refusal.secret, str(refusal.slot)) == ("secret.existing", "github", slot)
    assert not applied(apply_credentials(request("/"), [strict], held())).replaced


@pytest.mark.parametrize(("need", "slot"), EACH)
@pytest.mark.parametrize("value", [None, b""])
def test_never_sends_a_request_bare(need: Injection, slot: str, value: bytes | None) -> None:
    secrets = held(github=value) if value is not None else {}
    refusal = refused(apply_credentials(request("/"), [need], secrets))
    assert (refusal.code, refusal.secret, str(refusal.slot)) == ("secret.unavailable", "github", slot)


def test_one_missing_secret_of_several_refuses_the_request() -> None:
    needs: list[Injection] = [BEARER, InjectQuery("unheard", "key")]
    assert refused(apply_credentials(request("/"), needs, held())).secret == "unheard"


def test_an_empty_secret_is_not_hidden_by_what_surrounds_it() -> None:
    need = InjectHeader("github", "x", "before", "after")
    assert refused(apply_credentials(request("/"), [need], held(github=b""))).code == "secret.unavailable"


def test_the_order_of_needs_changes_no_byte() -> None:
    needs: list[Injection] = [
        InjectHeader("github", "authorization", "Bearer "),
        InjectHeader("aws", "x-api-key"),
        InjectQuery("tenant", "key"),
        InjectQuery("legacy", "also"),
        InjectCookie("anthropic", "sid"),
        InjectCookie("github", "other"),
    ]
    head = request("/?key=1&b=2", ("cookie", "sid=1; a=2"), ("x_api_key", "3"), ("accept", "*/*"))
    outcomes = [applied(apply_credentials(head, order, held())) for order in permutations(needs)]
    assert len({(outcome.head.target, outcome.head.headers, outcome.written) for outcome in outcomes}) == 1
    assert len(outcomes[0].written) == len(needs)


def test_the_order_of_needs_changes_no_refusal() -> None:
    needs: list[Injection] = [
        InjectHeader("x1", "x-one"),
        InjectQuery("x2", "key"),
        InjectCookie("x3", "sid"),
        github_in("path"),
    ]
    head = request(f"/{STAND_IN}")
    assert len({refused(apply_credentials(head, order, {}, SANDBOX)) for order in permutations(needs)}) == 1


def test_two_needs_for_one_slot_are_refused() -> None:
    assert (
        refused(apply_credentials(request("/"), [BEARER, InjectBasic("aws", "u")], held())).code == "internal"
    )


def test_swaps_and_writes_in_one_request() -> None:
    head = request(f"/bot{STAND_IN}/send?key=mine", ("x", "1"))
    outcome = applied(
        apply_credentials(head, [github_in("path"), InjectQuery("aws", "key")], held(aws="k"), SANDBOX)
    )
    assert outcome.head.target == f"/bot{TOKEN}/send?key=k"
    assert {(secret, str(slot)) for secret, slot in outcome.written} == {
        ("github", "path"),
        ("aws", "query:key"),
    }
    assert outcome.replaced


def test_a_swapped_placeholder_is_not_counted_as_replaced() -> None:
    outcome = applied(apply_credentials(request(f"/{STAND_IN}"), [github_in("path")], held(), SANDBOX))
    assert not outcome.replaced


def test_a_misplaced_placeholder_refuses_also_where_an_injection_would_remove_it() -> None:
    head = request("/", ("authorization", f"Bearer {OTHER}"))
    assert refused(apply_credentials(head, [BEARER], held(), SANDBOX)).code == "placeholder.misplaced"
    outcome = applied(apply_credentials(head, [BEARER], held(), SANDBOX, misplaced_pass=True))
    assert values_of(outcome.head.headers, "authorization") == [f"Bearer {TOKEN}"]


def test_a_misplaced_placeholder_passes_unswapped_where_the_entry_says_so() -> None:
    head = request(f"/{STAND_IN}", ("x", OTHER))
    assert applied(apply_credentials(head, (), held(), SANDBOX, misplaced_pass=True)).head == head


def test_the_rest_of_the_head_is_carried_over() -> None:
    """A field that Head gains must not be lost on the way."""
    plain = Head("PATCH", "http", "b.example", 8080, "/x", (("a", "1"),), websocket=True)
    assert all(getattr(plain, each.name) != getattr(request("/"), each.name) for each in fields(Head))
    after = applied(apply_credentials(plain, [BEARER], held())).head
    for each in fields(Head):
        if each.name != "headers":
            assert getattr(after, each.name) == getattr(plain, each.name)


def test_applying_again_changes_nothing() -> None:
    once = applied(
        apply_credentials(TAKEN, [BEARER, InjectQuery("aws", "key"), InjectCookie("legacy", "sid")], held())
    )
    twice = applied(
        apply_credentials(
            once.head,
            [BEARER, InjectQuery("aws", "key"), InjectCookie("legacy", "sid")],
            held(),
            NO_PLACEHOLDERS,
        )
    )
    assert (twice.head.target, twice.head.headers) == (once.head.target, once.head.headers)
