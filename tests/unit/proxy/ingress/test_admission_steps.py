"""The order of the steps: what is asked before what, and what happens when the answer changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

import pytest

from egress.proxy.ingress import admission_steps
from egress.rules.decide.policy import EMPTY_POLICY
from tests.unit.proxy.hellos import real
from tests.unit.proxy.ingress_fixture import CARRIED, Call, IngressFixture, code, connect, get, status
from tests.unit.rules.rule_samples import policy

API = "api.example.com"
TUNNEL = connect(f"{API}:443")


@pytest.fixture(name="step")
def doorstep() -> Iterator[IngressFixture]:
    step = IngressFixture()
    yield step
    step.close()


async def test_an_arrival_says_all_that_was_found_out(step: IngressFixture) -> None:
    step.house.clock.seconds = 5.5
    await step.ask(TUNNEL, real(API))
    [admitted] = step.full.arrivals
    assert (admitted.id, admitted.listener, admitted.started) == ("c1", "proxy", 5.5)
    assert admitted.identity.sandbox == "box"
    assert admitted.policy is step.house.policy
    assert admitted.decision.entry == API


async def test_the_lane_is_chosen_by_the_decision(step: IngressFixture) -> None:
    assert (await step.ask(TUNNEL, real(API))).endswith(CARRIED + b"full")
    pinned = await step.ask(connect("pinned.example.com:443"), real("pinned.example.com"))
    assert pinned.endswith(CARRIED + b"tunnel")


async def test_https_is_preferred_where_both_are_open(step: IngressFixture) -> None:
    step.house.policy = policy("mode: observe\nhosts: {}")
    await step.ask(connect("any.example:80"), real("any.example"))
    assert [admitted.destination.scheme for admitted in step.arrivals] == ["https"]


async def test_the_reason_is_that_of_the_preferred_scheme(step: IngressFixture) -> None:
    assert code(await step.ask(connect(f"{API}:81"))) == "host.port"
    assert code(await step.ask(connect("only-plain.example.com:81"))) == "host.port"


async def begun(step: IngressFixture, first: bytes = TUNNEL) -> Call:
    """A client whose tunnel is open, and who has not said anything inside it yet."""
    call = step.call()
    await call.send(first)
    assert status(await call.read()) == 200
    return call


async def test_rules_that_change_while_a_client_hesitates_hold_for_it(step: IngressFixture) -> None:
    call = await begun(step)
    step.house.policy = EMPTY_POLICY
    await call.send(real(API))
    assert await call.rest() == bytes.fromhex("15030300020231")
    assert step.codes == ["access.withdrawn"]
    assert step.arrivals == []


async def test_rules_that_still_allow_it_are_the_ones_it_goes_on_with(step: IngressFixture) -> None:
    call = await begun(step)
    step.house.policy = policy(f"hosts: {{{API}: {{intercept: never}}}}")
    await call.send(real(API))
    assert await call.rest() == CARRIED + b"tunnel"
    assert step.tunnel.arrivals[0].policy is step.house.policy


async def test_a_scheme_that_changes_meanwhile_is_not_exchanged_for_another(step: IngressFixture) -> None:
    call = await begun(step, connect("ported.example.com:8443"))
    step.house.policy = policy("hosts: {ported.example.com: {http: [8443]}}")
    await call.send(real("ported.example.com"))
    await call.rest()
    assert step.codes == ["access.withdrawn"]


async def test_a_stopping_proxy_takes_nothing_new(step: IngressFixture) -> None:
    step.house.stopping = True
    answer = await step.ask(TUNNEL)
    assert (status(answer), code(answer)) == (503, "proxy.stopping")


async def test_what_cannot_be_recorded_is_not_done(step: IngressFixture) -> None:
    step.house.audit.works = False
    answer = await step.ask(TUNNEL)
    assert (status(answer), code(answer)) == (503, "audit.stopped")
    assert step.arrivals == []


async def test_the_rules_are_asked_before_anything_is_told_about_the_proxy(step: IngressFixture) -> None:
    step.house.stopping, step.house.audit.works = True, False
    assert code(await step.ask(connect("evil.example:443"))) == "host.unknown"


async def test_a_sandbox_that_is_gone_is_served_no_more(step: IngressFixture) -> None:
    step.house.sandboxes = {}
    assert status(await step.ask(TUNNEL)) == 403
    assert (step.last.code, step.last.identity.sandbox) == ("proxy.identity", "box")


async def test_a_refusal_says_which_rule_it_was(step: IngressFixture) -> None:
    step.house.policy = policy("""
        hosts: {api.example.com: {}}
        deny: [{id: no-api, hosts: [api.example.com]}]
    """)
    assert code(await step.ask(TUNNEL)) == "rule.denied"
    refusal = step.last
    assert str(refusal.rule) == "deny#no-api"
    assert refusal.place is not None
    assert refusal.policy == step.house.policy.digest


async def test_a_lane_that_breaks_is_recorded_and_nothing_is_written_after_it(
    step: IngressFixture, caplog: pytest.LogCaptureFixture
) -> None:
    step.full.fault = RuntimeError("hunter2")
    answer = await step.ask(TUNNEL, real(API))
    assert answer == b"HTTP/1.1 200 Connection established\r\n\r\n"
    assert (step.last.code, step.last.host) == ("internal", API)
    assert "RuntimeError" in caplog.text
    assert "hunter2" not in caplog.text


async def test_a_decision_that_breaks_denies(
    step: IngressFixture, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """S-28, for the door: whatever fails, the answer is no."""

    def fail(*_: object, **__: object) -> NoReturn:
        raise ValueError("hunter2")

    monkeypatch.setattr(admission_steps, "decide_host", fail)
    answer = await step.ask(TUNNEL)
    assert (status(answer), code(answer)) == (500, "internal")
    assert (step.last.code, step.last.host) == ("internal", API)
    assert step.arrivals == []
    assert "ValueError" in caplog.text
    assert "hunter2" not in caplog.text


async def test_a_plain_request_needs_no_tunnel(step: IngressFixture) -> None:
    assert await step.ask(get("http://plain.example.com/", "plain.example.com")) == CARRIED + b"full"
