"""What a relay gets from its surroundings: the policy in force, secrets, ids, and its records."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import NoReturn

import pytest

from egress.audit.reported_facts import AuditStoppedError
from egress.exchange import Destination, Exchange, ExchangeRecord
from egress.proxy.lanes.connection import AdmittedConnection
from egress.proxy.lanes.relay_services import MAX_ROUTES, RelayServices, UpstreamRoute, secret_specs
from egress.relay.ports import ExchangeTiming
from egress.rules.decide.decision import decide_host
from egress.rules.decide.policy import Policy
from egress.secrets.value_history import REPLACED_VALUE_LIFETIME
from egress.types import Identity
from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.proxy_stack import NAME, OTHER, SANDBOX, ProxyStack, policy_of

WHO = Identity(SANDBOX)
TO = Destination("https", NAME, 443)
OPENING = ("r1", "GET", ("api",))


def rules(folder: Path, *names: str) -> str:
    (folder / "secret").write_text("sesame-open-please")
    secrets = "".join(f'\n  {name}: {{from: "file:{folder}/secret", hosts: [{NAME}]}}' for name in names)
    return f"""
version: 1
secrets:{secrets}
  elsewhere: {{from: "file:{folder}/secret", hosts: [{OTHER}]}}
hosts:
  {NAME}: {{}}
"""


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[ProxyStack]:
    async with ProxyStack(tmp_path, Certificates(), rules(tmp_path, "api")) as stack:
        yield stack


@pytest.fixture
def desk(stack: ProxyStack) -> RelayServices:
    engine = stack.engine
    decision = decide_host(engine.policy, WHO, NAME, 443, engine.clock.now(), scheme="https")
    admitted = AdmittedConnection("c1", WHO, "test", "connect", TO, decision, engine.policy)
    return RelayServices(engine, admitted, engine.sandboxes[SANDBOX])


def record(stack: ProxyStack) -> ExchangeRecord:
    exchange = Exchange(stack.engine.policy, WHO, TO)
    exchange.abort("upstream.closed")
    return exchange.finish()


def test_the_policy_is_the_one_in_force_now(stack: ProxyStack, desk: RelayServices, tmp_path: Path) -> None:
    other = policy_of(rules(tmp_path))
    stack.engine.swap(other)
    assert desk.policy() is other


def test_knows_the_secrets_that_may_go_there_and_no_others(
    stack: ProxyStack, desk: RelayServices, tmp_path: Path
) -> None:
    assert [spec.name for spec in desk.bound(stack.engine.policy)] == ["api"]
    assert [spec.name for spec in desk.bound(policy_of(rules(tmp_path, "api", "second")))] == [
        "api",
        "second",
    ]


def finds(stack: ProxyStack, desk: RelayServices, policy: Policy | None = None) -> bool:
    needles = desk.needles(policy or stack.engine.policy)
    return needles is not None and bool(needles.mask(b"sesame-open-please").hits)


def test_gives_the_same_needles_until_something_changes(
    stack: ProxyStack, desk: RelayServices, tmp_path: Path
) -> None:
    policy = stack.engine.policy
    needles = desk.needles(policy)
    assert needles is not None
    assert desk.needles(policy) is needles
    more = policy_of(rules(tmp_path, "api", "second"))
    # By this, the value may be sent under another name.
    assert desk.needles(more) is not None
    assert desk.needles(policy) is desk.needles(policy)
    stack.secrets.version += 1
    assert desk.needles(policy) is needles, "the same values are the same search"


async def test_a_secret_that_is_taken_away_is_searched_for_by_old_and_new_policies(
    stack: ProxyStack, desk: RelayServices, tmp_path: Path
) -> None:
    before, after = stack.engine.policy, policy_of(rules(tmp_path))
    assert finds(stack, desk, before)
    stack.engine.swap(after)
    assert finds(stack, desk, after), "before it is warmed"
    await stack.secrets.warm(after.secrets.values())
    assert finds(stack, desk, after)
    assert finds(stack, desk, before)


async def test_what_one_policy_brings_is_known_to_the_exchanges_of_another(
    stack: ProxyStack, desk: RelayServices, tmp_path: Path
) -> None:
    """A request of new rules may leave before these are warmed, and come back in an older answer."""
    bare = policy_of(rules(tmp_path).replace("elsewhere", "api").replace(OTHER, "third.example.test"))
    await stack.secrets.warm(bare.secrets.values())
    # As long ago as it takes to be forgotten: the clock of a machine that has just started is near zero.
    stack.secrets._bindings.replace((), -REPLACED_VALUE_LIFETIME, lambda _: False)
    stack.secrets.version += 1
    assert not finds(stack, desk, bare), "nothing was ever bound to it: the control"
    assert finds(stack, desk, policy_of(rules(tmp_path, "api")))
    assert finds(stack, desk, bare)


def test_a_running_exchange_carries_its_secrets_until_it_is_recorded(
    stack: ProxyStack, desk: RelayServices
) -> None:
    trail = stack.secrets._histories["api"]
    tickets = [desk.begin(*OPENING), desk.begin(*OPENING)]
    is_carried = []
    for number, ticket in enumerate(tickets):
        is_carried.append(trail.is_carried)
        desk.finish(ticket, f"r{number}", record(stack), ExchangeTiming())
    assert [*is_carried, trail.is_carried] == [True, True, False]
    assert not desk._carried


def test_an_exchange_whose_record_fails_carries_nothing_any_more(
    stack: ProxyStack, desk: RelayServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> NoReturn:
        raise KeyError("x")

    ticket = desk.begin(*OPENING)
    monkeypatch.setattr(stack.audit, "exchange", broken)
    with pytest.raises(KeyError):
        desk.finish(ticket, "r1", record(stack), ExchangeTiming())
    assert not stack.secrets._histories["api"].is_carried


def test_a_secret_that_the_policy_does_not_name_is_left_out(stack: ProxyStack) -> None:
    """It is then missing from what is fetched, and the exchange denies."""
    assert [spec.name for spec in secret_specs(stack.engine.policy, ("api", "unheard-of"))] == ["api"]


def test_values_at_hand_are_given_at_once(stack: ProxyStack, desk: RelayServices) -> None:
    found = desk.secrets(stack.engine.policy, ("api",), unscrubbed=False)
    assert found is not None
    assert set(found) == {"api"}


def test_an_exchange_is_recorded_with_what_is_known_of_its_connection(
    stack: ProxyStack, desk: RelayServices
) -> None:
    desk.keep(1, UpstreamRoute("127.0.0.1", resolve=5, connect=7, tls=9, tls_version="TLSv1.3"), ())
    for request in ("r1", "r2"):
        ticket = desk.begin(*OPENING)
        assert ticket is not None
        desk.sent(ticket)
        desk.finish(ticket, request, record(stack), ExchangeTiming(wire=1, began=1.0, ended=1.5))
    first, second = stack.exchanges()
    assert (first["connection"], first["request"], first["address"]) == ("c1", "r1", "127.0.0.1")
    assert (first["resolve_us"], first["connect_us"], first["tls_us"]) == (5, 7, 9)
    # The connection stood already when the second one came.
    assert (second["resolve_us"], second["connect_us"], second["tls_us"]) == (0, 0, 0)
    assert desk.finished == 2


def test_without_an_audit_there_is_no_ticket(
    stack: ProxyStack, desk: RelayServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(_: object) -> NoReturn:
        raise AuditStoppedError("full")

    monkeypatch.setattr(stack.audit, "begin", stopped)
    assert desk.begin(*OPENING) is None


def test_an_exchange_that_cannot_be_recorded_leaves_at_least_a_refusal(
    stack: ProxyStack, desk: RelayServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> NoReturn:
        raise KeyError("x")

    monkeypatch.setattr(stack.audit, "exchange", broken)
    with pytest.raises(KeyError):
        desk.finish(desk.begin(*OPENING), "r1", record(stack), ExchangeTiming())
    [line] = stack.lines()
    assert (line["event"], line["code"], line["connection"]) == ("refusal", "internal", "c1")
    assert desk.finished == 1


def test_routes_of_connections_that_are_closed_are_let_go_of(desk: RelayServices) -> None:
    """A client that stays for days may make its upstream close after every response."""
    kept = UpstreamRoute("127.0.0.1")
    desk.keep(0, kept, ())
    for wire in range(1, 4 * MAX_ROUTES):
        desk.keep(wire, UpstreamRoute(), [kept])
        assert desk.routes[0] is kept
        assert wire in desk.routes
        assert len(desk.routes) <= MAX_ROUTES
