"""What an audit may see of a request: names and numbers."""

from __future__ import annotations

import pytest

from egress.credentials import Canaries, CanaryScan, CanarySighting
from egress.exchange.messages import RecordBuilder
from egress.exchange.request import shown_method, shown_path
from egress.rules.decide.paths import MAX_PATH_BYTES
from egress.types import Place, RuleRef


@pytest.mark.parametrize("method", ["GET", "get", "M-SEARCH", "x" * 32])
def test_a_method_is_shown(method: str) -> None:
    assert shown_method(method) == method


@pytest.mark.parametrize("method", ["", "GET /?token=1", "GET\n", "x" * 33, "GÉT", "\ud800"])
def test_what_is_no_method_is_not_shown(method: str) -> None:
    """HTTP/2 would carry a whole URL there."""
    assert shown_method(method) == ""


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/a/b", "/a/b"),
        ("/a?token=1", "/a"),
        ("/a??b?c", "/a"),
        ("/a#token=1", "/a"),
        ("?a", ""),
        ("", ""),
        ("*", "*"),
        ("/" + "a" * 20_000, "/" + "a" * 16_383),
    ],
)
def test_a_path_is_shown_without_query_and_fragment(target: str, path: str) -> None:
    assert shown_path(target) == path


def test_a_path_is_shown_without_canaries_also_where_it_is_too_long() -> None:
    rule = RuleRef("canaries", "decoy", Place("hosts.yaml", 3, 3))
    canaries = Canaries.of(bytes(32), [(rule, "aws", False)])
    value = canaries.all[0].value
    long = "/" + "a" * (MAX_PATH_BYTES - 10) + "/" + value
    for target, path in ((f"/a/{value}?b", "/a/" + "*" * len(value)), (long, long[:-20] + "*" * 8)):
        assert shown_path(target, CanaryScan(canaries)) == path
    assert shown_path("/a/b?c", CanaryScan(canaries)) == "/a/b"


def test_a_method_is_shown_without_canaries() -> None:
    rule = RuleRef("canaries", "decoy", Place("hosts.yaml", 3, 3))
    canaries = Canaries.of(bytes(32), [(rule, "aws", False)])
    assert shown_method(f"X.{canaries.all[0].value}", CanaryScan(canaries)) == "*" * 22
    assert shown_method("GET", CanaryScan(canaries)) == "GET"


def test_a_canary_is_blamed_by_its_rule() -> None:
    account, rule = RecordBuilder(), RuleRef("canaries", "decoy", Place("hosts.yaml", 3, 3))
    assert account.note_canary(CanarySighting("canary.seen", rule)) == "canary.seen"
    assert account.rule == rule


def test_the_first_reason_stays() -> None:
    account = RecordBuilder()
    account.close("rule.denied")
    account.close("internal")
    assert (account.code, account.status) == ("rule.denied", 403)


def test_the_status_is_that_of_the_page_unless_a_head_went_out_before() -> None:
    account = RecordBuilder(status=200)
    account.close("response.withheld")
    assert account.status == 200


def test_a_reason_without_a_page_has_no_status() -> None:
    account = RecordBuilder()
    account.close("client.left")
    assert (account.code, account.status) == ("client.left", 0)
