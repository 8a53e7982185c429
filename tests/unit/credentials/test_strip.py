"""egress/credentials/strip.py: slots that are emptied in every spelling, and heads with two readings."""

from __future__ import annotations

import pytest

from egress.credentials.apply import apply_credentials
from egress.credentials.result import CredentialedHead
from egress.request_name_folding import MAX_PARTS
from egress.types import Head, InjectHeader, InjectQuery
from tests.unit.credentials.credential_samples import (
    SANDBOX,
    STAND_IN,
    TOKEN,
    applied,
    github_in,
    held,
    refused,
    request,
    slot,
    values_of,
)

KEY = InjectHeader("github", "x-api-key")
HOST = ("host", "api.example.com")


def stripped(head: Head, *slots: str) -> Head:
    return applied(apply_credentials(head, [KEY], held(), strips=[slot(each) for each in slots])).head


@pytest.mark.parametrize(
    ("name", "value"),
    [("authorization", "Bearer mine"), ("Authorization".lower(), ""), ("authorization_", "x"), ("a", "b")],
)
def test_a_header_is_emptied_and_its_neighbours_stay(name: str, value: str) -> None:
    head = stripped(request("/", ("accept", "*/*"), (name, value)), "header:authorization")
    assert values_of(head.headers, "accept") == ["*/*"]
    assert (name in dict(head.headers)) is (name != "authorization")
    assert values_of(head.headers, "x-api-key") == [TOKEN]


@pytest.mark.parametrize("name", ["x-goog-api-key", "x_goog_api_key", "x-goog_api.key"])
def test_every_spelling_of_a_header_is_emptied(name: str) -> None:
    """Servers behind CGI read all of them as one name."""
    head = stripped(request("/", (name, "mine"), (name, "again")), "header:x-goog-api-key")
    assert head.headers == (HOST, ("x-api-key", TOKEN))


@pytest.mark.parametrize(
    ("target", "left"),
    [
        ("/a?key=mine", "/a"),
        ("/a?x=1&key=mine&y=%20", "/a?x=1&y=%20"),
        ("/a?KEY=mine&k%65y=again&key[]=third", "/a"),
        ("/a?", "/a?"),
        ("/a?keys=1&&x", "/a?keys=1&&x"),
        ("*", "*"),
    ],
)
def test_a_parameter_is_emptied_and_the_rest_keeps_its_bytes(target: str, left: str) -> None:
    assert stripped(request(target), "query:key").target == left


@pytest.mark.parametrize(
    ("sent", "left"),
    [
        (["sid=mine"], []),
        (["a=1; sid=mine", "b=2; SID=again"], ["a=1; b=2"]),
        (["a=1;b=2"], ["a=1;b=2"]),
    ],
)
def test_a_cookie_is_emptied_and_the_others_stay(sent: list[str], left: list[str]) -> None:
    head = stripped(request("/", *[("cookie", line) for line in sent]), "cookie:sid")
    assert values_of(head.headers, "cookie") == left


def test_all_cookies_may_be_emptied_at_once() -> None:
    assert stripped(request("/", ("cookie", "a=1"), ("cookie", "b=2")), "header:cookie").headers == (
        HOST,
        ("x-api-key", TOKEN),
    )


@pytest.mark.parametrize(
    ("head", "where"),
    [(request("/?a=1;key=mine"), "query:key"), (request("/", ("cookie", "a=1,sid=mine")), "cookie:sid")],
)
def test_a_head_with_two_readings_is_refused(head: Head, where: str) -> None:
    outcome = refused(apply_credentials(head, [KEY], held(), strips=[slot(where)]))
    assert (outcome.code, str(outcome.slot), outcome.secret) == ("request.malformed", where, None)
    assert "mine" not in repr(outcome)


def test_the_record_names_the_slots_that_held_a_value() -> None:
    slots = [slot(each) for each in ("header:authorization", "query:key", "cookie:sid")]
    head = request("/?key=mine", ("authorization", "mine"))
    outcome = applied(apply_credentials(head, [KEY], held(), strips=slots))
    assert [str(each) for each in outcome.stripped] == ["header:authorization", "query:key"]
    assert not outcome.replaced
    assert applied(apply_credentials(request(), [KEY], held(), strips=slots)).stripped == ()
    assert "mine" not in repr(outcome)


def test_slots_are_emptied_even_if_no_credential_is_written() -> None:
    """A placeholder that the sandbox did not send needs no secret, and its strip still counts."""
    head = request("/?key=mine", ("authorization", "mine"))
    strips = [slot("header:authorization"), slot("query:key")]
    outcome = applied(apply_credentials(head, [github_in("header:x")], {}, SANDBOX, strips=strips))
    assert (outcome.head.target, outcome.head.headers) == ("/", (HOST,))
    assert not isinstance(outcome.head, CredentialedHead)
    bare = request("/a?b", ("x", "1"))
    assert applied(apply_credentials(bare, [github_in("header:x")], {}, SANDBOX, strips=strips)).head is bare


def test_a_credential_is_written_after_the_slots_are_emptied() -> None:
    need = InjectQuery("github", "key")
    outcome = applied(apply_credentials(request("/?key=1"), [need], held(), strips=[slot("query:key")]))
    assert outcome.head.target == f"/?key={TOKEN}"


def test_a_placeholder_in_a_stripped_slot_is_still_misplaced() -> None:
    """A strip must not become a way to try where a placeholder is accepted."""
    head = request("/", ("authorization", f"Bearer {STAND_IN}"))
    strips = [slot("header:authorization")]
    assert refused(apply_credentials(head, [KEY], held(), SANDBOX, strips=strips)).code == (
        "placeholder.misplaced"
    )
    passed = apply_credentials(head, [KEY], held(), SANDBOX, strips=strips, misplaced_pass=True)
    assert STAND_IN not in repr(applied(passed).head.headers)


def test_a_placeholder_is_swapped_beside_a_stripped_slot() -> None:
    head = request("/?key=mine", ("x-api-key", STAND_IN), ("authorization", "Bearer mine"))
    strips = [slot("header:authorization"), slot("query:key")]
    outcome = applied(
        apply_credentials(head, [github_in("header:x-api-key")], held(), SANDBOX, strips=strips)
    )
    assert (outcome.head.target, outcome.head.headers) == ("/", (HOST, ("x-api-key", TOKEN)))


MOST = MAX_PARTS


@pytest.mark.parametrize(
    ("head", "slots"),
    [
        (request("/?" + "&".join(["%41=1"] * (MOST + 1))), ("query:key",)),
        (request("/?" + ";".join(["%41=1"] * (MOST + 1))), ("query:key",)),
        (request("/", ("cookie", "; ".join(["%41=1"] * (MOST + 1)))), ("cookie:key",)),
        (request("/", ("cookie", ",".join(["%41=1"] * (MOST + 1)))), ("cookie:key",)),
    ],
)
def test_very_many_names_are_refused(head: Head, slots: tuple[str, ...]) -> None:
    """Folding each of thousands, for each slot, kept all other sandboxes waiting for a tenth of a second."""
    outcome = apply_credentials(head, [KEY], held(), strips=[slot(each) for each in slots])
    assert refused(outcome).code == "request.malformed"


def test_as_many_names_as_servers_read_pass() -> None:
    head = request("/?" + "&".join(["a=1"] * MOST), ("cookie", "; ".join(["b=1"] * MOST)))
    assert stripped(head, "query:key", "cookie:key").target == head.target
