"""From settings to a proxy: each setting reaches the thing it is about."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.audit import key as audit_key
from egress.audit.sink import Sink
from egress.audit.verify import verify
from egress.budgets.ledger import Amounts
from egress.ca import new_authority_file
from egress.errors import ContentError, UnreadableError, UsageError
from egress.proxy.clock import SystemClock
from egress.proxy.lanes.denial_lane import DenialLane
from egress.proxy.lanes.dial import DialError
from egress.proxy.process.wiring import ProxyParts, open_audit, open_sandbox, password_of, wire_proxy
from egress.proxy.settings import Settings
from egress.rules.decide.decision import decide_host
from egress.rules.decide.policy import Policy
from egress.secrets.environment_capture import CapturedEnvironment
from egress.shares.pool import Capacity, Resource
from egress.types import Identity
from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.proxy_stack import policy_of
from tests.unit.budgets.specs import tokens

RULES = "version: 1\nhosts:\n  api.example.com: {}\n"
CLOCK = SystemClock()


@pytest.fixture
def policy() -> Policy:
    return policy_of(RULES)


def values(folder: Path, **more: object) -> Settings:
    return Settings.model_validate({"state_dir": folder / "state", "runtime_dir": folder / "run", **more})


@pytest.fixture
def audit(tmp_path: Path) -> Iterator[Sink]:
    audit = open_audit(values(tmp_path), CLOCK)
    yield audit
    audit.close()


def wired(settings: Settings, policy: Policy, audit: Sink) -> ProxyParts:
    return wire_proxy(settings, policy, CapturedEnvironment({}, {}), audit, CLOCK)


async def test_settings_reach_what_they_are_about(tmp_path: Path, policy: Policy, audit: Sink) -> None:
    settings = values(
        tmp_path,
        sandbox="box",
        profile="p",
        resolve="api.example.com=192.0.2.1,api.example.com=192.0.2.2",
        connect_timeout="3s",
        answer_timeout="4s",
        idle_timeout="50s",
        head_timeout="6s",
    )
    parts = wired(settings, policy, audit)
    assert parts.engine.sandboxes["box"].identity == Identity("box", "p")
    limits = parts.full.limits
    assert (limits.dial, limits.upstream_open) == (3, 6)
    relay = limits.relay
    assert (relay.head, relay.response_head, relay.silence, relay.keep_alive) == (6, 4, 50, 50)
    dialer = parts.engine.dialer
    assert await dialer._resolver.resolve("api.example.com") == ("192.0.2.1", "192.0.2.2")


@pytest.mark.parametrize(("requests", "most"), [(0, 30), (7, 7)])
async def test_every_lane_takes_of_one_pool_what_the_settings_give(
    tmp_path: Path, policy: Policy, audit: Sink, requests: int, most: int
) -> None:
    settings = values(tmp_path, connections=100, sandbox_connections=10, sandbox_requests=requests)
    parts = wired(settings, policy, audit)
    pool = parts.engine.pool
    assert pool.capacities[Resource.CLIENTS] == Capacity(100, 10)
    assert pool.capacities[Resource.UPSTREAMS] == Capacity(400, 40)
    assert pool.capacities[Resource.EXCHANGES] == Capacity(4 * most, most)
    assert parts.full.limits.relay.pool is pool
    denial = parts.door._lanes.denial
    assert isinstance(denial, DenialLane)
    assert denial.limits.relay.pool is pool


async def test_a_root_for_upstreams_that_is_none_is_refused(
    tmp_path: Path, policy: Policy, audit: Sink
) -> None:
    good = Certificates().write_ca(tmp_path / "good.pem")
    wired(values(tmp_path, upstream_ca=(good,)), policy, audit)
    bad = tmp_path / "bad.pem"
    bad.write_text("no certificate", encoding="utf-8")
    with pytest.raises(ContentError):
        wired(values(tmp_path, upstream_ca=(bad,)), policy, audit)


def test_authority_and_stand_ins_are_the_same_after_a_restart(tmp_path: Path, policy: Policy) -> None:
    one, two = (open_sandbox(values(tmp_path), policy, CLOCK) for _ in range(2))
    assert one.authority.fingerprint == two.authority.fingerprint
    assert one.placeholder_key == two.placeholder_key
    assert one.authority.constraints is None


def test_an_authority_is_constrained_where_that_is_asked_for(tmp_path: Path, policy: Policy) -> None:
    made = open_sandbox(values(tmp_path, ca_constrain=True), policy, CLOCK).authority.constraints
    assert made is not None
    assert made.names == ("api.example.com",)


def test_a_key_of_the_audit_log_inside_of_it_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "audit"
    with pytest.raises(UnreadableError, match="folder of the log"):
        open_audit(values(tmp_path, audit_key=folder / "key"), CLOCK)


def test_without_a_file_there_is_no_password(tmp_path: Path) -> None:
    assert password_of(None) == b""
    with pytest.raises(UnreadableError):
        password_of(tmp_path / "missing")


def test_replicas_have_the_authority_of_the_file_together(tmp_path: Path, policy: Policy) -> None:
    file = tmp_path / "authority.pem"
    file.write_bytes(new_authority_file("gateway", CLOCK.now()))
    file.chmod(0o440)
    one, two = (
        open_sandbox(values(tmp_path / name, authority_file=file), policy, CLOCK) for name in ("one", "two")
    )
    assert one.authority.fingerprint == two.authority.fingerprint
    assert one.placeholder_key != two.placeholder_key
    # The folder of a replica has no key of its own.
    assert not list(tmp_path.rglob("ca/*.pem"))


async def test_a_gateway_of_a_cluster_knows_pods_and_never_dials_the_api_server(
    tmp_path: Path, policy: Policy, audit: Sink
) -> None:
    (tmp_path / "namespace").write_text("agents")
    place = {"KUBERNETES_SERVICE_HOST": "1.1.1.1", "KUBERNETES_SERVICE_PORT": "443"}
    pod = CapturedEnvironment({}, place)
    cluster = values(tmp_path, kubernetes=True, network=True, listen=("0.0.0.0:0",), service_account=tmp_path)
    parts = wire_proxy(cluster, policy, pod, audit, CLOCK)
    assert parts.pods is not None
    assert parts.pods.sandboxes.identify("10.0.0.1").code == "identity.stale"
    decision = decide_host(policy, Identity("default"), "api.example.com", 443, CLOCK.now())
    parts.engine.dialer.check("api.example.com", decision, ("1.0.0.1",))
    with pytest.raises(DialError):
        parts.engine.dialer.check("api.example.com", decision, ("1.1.1.1",))


async def test_elsewhere_than_in_a_cluster_nobody_is_asked_about_pods(
    tmp_path: Path, policy: Policy, audit: Sink
) -> None:
    assert wire_proxy(values(tmp_path), policy, CapturedEnvironment({}, {}), audit, CLOCK).pods is None
    cluster = values(tmp_path, kubernetes=True, network=True, listen=("0.0.0.0:0",), service_account=tmp_path)
    with pytest.raises(UsageError, match="no pod of a cluster"):
        wire_proxy(cluster, policy, CapturedEnvironment({}, {}), audit, CLOCK)


async def test_vector_20_what_budgets_have_spent_outlasts_the_proxy(tmp_path: Path, policy: Policy) -> None:
    budget = tokens(100)
    for left in (100, 70, 40):
        audit = open_audit(values(tmp_path), CLOCK)
        ledger = wired(values(tmp_path), policy, audit).engine.ledger
        assert ledger.room([(budget, "box")], "tokens", CLOCK.now()) == left
        # It ends without a last word: the call counts in full.
        ledger.reserve([(budget, "box")], Amounts(tokens=30), CLOCK.now())
        audit.close()
    assert not verify(tmp_path / "state/audit", audit_key.read(tmp_path / "state/audit.key")).faults
