"""An exchange on a denied connection: one answer, whatever the request is and the rules say by then."""

from __future__ import annotations

import pytest

from egress.credentials import Canaries, CanaryScan
from egress.exchange import DenyRequest, Destination, OrderError, Request
from egress.exchange.denied_exchange import DeniedExchange
from egress.types import HostDecision, Place, RuleRef, Secret, Verdict
from tests.unit.exchange.sample import NEEDLES, NOW, POLICY, SANDBOX, TOKEN, begun, exchange, request

RULE = RuleRef("deny", "closed", Place("hosts.yaml", 3, 1), "It is closed for the weekend.")
DENIAL = HostDecision(Verdict.DENY, "rule.denied", "api.github.com", RULE.place, RULE)
TO = Destination("https", "api.github.com", 443)


def denied(canaries: CanaryScan | None = None) -> DeniedExchange:
    """On a destination that the rules of the sample allow."""
    return DeniedExchange(DENIAL, POLICY, SANDBOX, TO, needles=NEEDLES, canaries=canaries)


def test_the_control_the_rules_allow_the_request() -> None:
    assert not isinstance(begun(exchange(needles=NEEDLES), request()), DenyRequest)


@pytest.mark.parametrize(
    "asked",
    [
        request(),
        Request("TRACE", "/", (("host", TO.host),)),
        Request("GET", "/", (("host", "other.example.com"),)),
        Request("GET", "no path", ()),
        Request("GET", "/a/../b", (("host", TO.host),)),
    ],
    ids=["allowed", "method", "another host", "no request", "path"],
)
def test_every_request_is_denied_for_the_reason_of_the_connection(asked: Request) -> None:
    one = denied()
    assert one.begin(asked, NOW) == DenyRequest("rule.denied", 0, RULE.reason)
    record = one.finish()
    assert (record.verdict, record.code, record.status) == (Verdict.DENY, "rule.denied", 403)
    assert (record.rule, record.place, record.injected) == (RULE, RULE.place, ())


def test_no_later_step_is_open() -> None:
    one = denied()
    one.begin(request(), NOW)
    with pytest.raises(OrderError):
        one.provide({"github": Secret("github", TOKEN.encode())}, NEEDLES)
    with pytest.raises(OrderError):
        one.begin(request(), NOW)


def test_a_canary_in_it_is_reported_first() -> None:
    canaries = Canaries.of(bytes(32), [(RuleRef("canaries", "decoy", RULE.place), "aws", True)])
    value = canaries.all[0].value
    one = denied(CanaryScan(canaries))
    assert one.begin(Request("GET", f"/{value}", (("host", TO.host),)), NOW).code == "canary.stopped"
    assert value not in one.finish().path


def test_a_secret_in_its_path_is_masked() -> None:
    one = denied()
    one.begin(Request("GET", f"/{TOKEN}", (("host", TO.host),)), NOW)
    assert TOKEN not in one.finish().path
