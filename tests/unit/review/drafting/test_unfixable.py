"""Why no rule that is added would let something through."""

from __future__ import annotations

import pytest

from egress.errors import CODES
from egress.review.drafting.observation import Observation, observe
from egress.review.drafting.unfixable import unfixable_reason
from tests.unit.review.drafting.sample import denied, exchange


def of(line: dict[str, object]) -> Observation:
    one = observe(line)
    assert one is not None
    return one


@pytest.mark.parametrize(
    "code", ["rule.none", "rule.denied", "host.unknown", "profile.excluded", "secret.unbound"]
)
def test_what_the_rules_denied_is_theirs_to_allow(code: str) -> None:
    assert unfixable_reason(of(denied(code))) == ""


def test_every_other_reason_is_said_in_its_own_words() -> None:
    others = [
        code for code in CODES if not of(denied(code)).is_denied_by_rules and not code.startswith("canary.")
    ]
    assert len(others) > 20
    for code in others:
        message = CODES[code].message.removesuffix(".")[1:]
        assert f"{message} ({code})" in unfixable_reason(of(denied(code)))


@pytest.mark.parametrize("line", [denied("canary.stopped"), exchange(code="canary.stopped")])
def test_a_canary_is_one_before_and_after_it_was_let_through(line: dict[str, object]) -> None:
    assert unfixable_reason(of(line)).startswith("it carried a canary")


def test_what_passed_has_nothing_in_its_way() -> None:
    assert unfixable_reason(of(exchange())) == ""
    assert unfixable_reason(of(exchange(code="client.left"))) == ""


def test_an_ambiguous_path_may_take_a_rule_and_an_ambiguous_query_may_not() -> None:
    assert unfixable_reason(of(denied("path.ambiguous", path="/a%2Fb"))) == ""
    assert "the query" in unfixable_reason(of(denied("path.ambiguous", path="/a")))


def test_a_reason_of_a_later_version_is_no_rule() -> None:
    assert "does not know the reason" in unfixable_reason(of(denied("later.reason")))


def test_a_client_of_another_user_is_told_how_apt_becomes_that_user() -> None:
    reason = unfixable_reason(of(denied("proxy.identity")))
    assert "run the client as the user that the listener serves" in reason
    assert "`-o APT::Sandbox::User=NAME`" in reason


def test_a_refused_push_is_not_said_to_be_beyond_the_rules() -> None:
    reason = unfixable_reason(of(denied("git.ref")))
    assert reason.startswith("a rule decides on its body")
    assert "`push.refs`" in reason
    assert all(
        "cannot allow" not in unfixable_reason(of(denied(code))) for code in CODES if code.startswith("git.")
    )
