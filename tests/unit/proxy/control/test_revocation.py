"""What was allowed is taken back at once: it is refused from then on, and what is open ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from egress.errors import UnreadableError, UsageError
from egress.exchange import Destination
from egress.proxy.control.kept_revocations import KeptRevocations
from egress.proxy.control.revocation import (
    RevocationKind,
    Revocations,
    UnknownNameError,
    with_denied_hosts,
)
from egress.proxy.lanes.connection import CarriedConnection, LiveConnection, LiveConnections
from egress.rules.compile.load import RuleText, load
from egress.rules.decide.decision import decide_host
from egress.rules.decide.policy import Policy, SecretSpec
from egress.types import Identity

RULES = """\
version: 1
secrets:
  tracker: {from: "env:TRACKER", hosts: [api.example.com]}
  box: {from: "env:BOX", hosts: [box.example.org]}
networks:
  - {cidr: 10.1.0.0/16}
  - {cidr: "2001:db8::/32"}
hosts:
  api.example.com: {allow: all, inject: [{bearer: tracker}]}
  docs.example.com: {}
  "*.example.org": {}
"""


def policy(text: str = RULES) -> Policy:
    found = load([RuleText("hosts.yaml", text)])
    assert found.policy is not None, found.findings
    return found.policy


def allows(rules: Policy, host: str) -> bool:
    return decide_host(rules, Identity("box"), host, 443, 0).allowed


@dataclass(eq=False)
class Connection:
    """One that is open, for a sandbox and a host."""

    sandbox: str
    host: str
    rules: Policy
    secrets: frozenset[str] = frozenset()
    codes: list[str] = field(default_factory=list)

    @property
    def admitted(self) -> CarriedConnection:
        who = Identity(self.sandbox)
        decision = decide_host(self.rules, who, self.host, 443, 0)
        return CarriedConnection(
            "1", who, "l", "connect", Destination("https", self.host, 443), decision, self.rules
        )

    def recheck(self, policy: Policy, now: int) -> None:
        if not allows(policy, self.host):
            self.close("rechecked")

    def retire(self) -> None: ...

    def drain(self) -> None:
        raise NotImplementedError

    def close(self, code: str) -> None:
        self.codes.append(code)


class Secrets:
    """Values that can be revoked."""

    def __init__(self) -> None:
        self.revoked: set[str] = set()
        self.sources: set[tuple[str, ...]] = set()

    def revoke(self, specs: Iterable[SecretSpec]) -> None:
        for spec in specs:
            self.revoked.add(spec.name)
            self.sources.add(spec.reference)

    def restore(self, name: str) -> None:
        self.revoked.discard(name)


class Engine:
    """As much of one as withdrawals need."""

    def __init__(self) -> None:
        self.policy = policy()
        self.secrets = Secrets()
        self.live = LiveConnections()
        self.sandboxes = ("box", "other", "agent.1")
        self.shut: list[str] = []

    def swap(self, policy: Policy) -> None:
        self.policy = policy
        for carried in self.live:
            carried.recheck(policy, 0)

    def connection(self, sandbox: str, host: str, *secrets: str) -> Connection:
        made = Connection(sandbox, host, self.policy, frozenset(secrets))
        carried: LiveConnection = made
        self.live.enter(carried)
        return made


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def withdrawals(engine: Engine) -> Revocations:
    async def shut(name: str) -> None:
        engine.shut.append(name)

    async def reopen(name: str) -> None:
        engine.shut.remove(name)

    return Revocations(engine, shut, reopen)


# Hosts ------------------------------------------------------------------------------------------


async def test_a_host_is_denied_from_now_on_and_what_is_open_there_ends(
    engine: Engine, withdrawals: Revocations
) -> None:
    concerned, other = (
        engine.connection("box", "api.example.com"),
        engine.connection("box", "docs.example.com"),
    )
    done = await withdrawals.revoke("host", "api.example.com")
    assert done.connections == 1
    assert "access.withdrawn" in concerned.codes
    assert other.codes == []
    assert not allows(engine.policy, "api.example.com")
    assert allows(engine.policy, "docs.example.com")


async def test_a_pattern_closes_every_host_below_it(engine: Engine, withdrawals: Revocations) -> None:
    concerned = engine.connection("box", "a.example.org")
    await withdrawals.revoke(*withdrawals.find("*.example.org"))
    assert concerned.codes
    assert not allows(engine.policy, "b.example.org")


async def test_new_rules_do_not_give_a_host_back(engine: Engine, withdrawals: Revocations) -> None:
    await withdrawals.revoke("host", "api.example.com")
    withdrawals.swap(policy(RULES + "  new.example.com: {}\n"))
    assert not allows(engine.policy, "api.example.com")
    assert allows(engine.policy, "new.example.com")
    await withdrawals.restore("host", "api.example.com")
    assert allows(engine.policy, "api.example.com")
    assert allows(engine.policy, "new.example.com")


async def test_the_digest_tells_the_two_apart(engine: Engine, withdrawals: Revocations) -> None:
    before = engine.policy.digest
    await withdrawals.revoke("host", "api.example.com")
    assert engine.policy.digest != before
    assert withdrawals.policy.digest == before
    await withdrawals.restore("host", "api.example.com")
    assert engine.policy.digest == before


async def test_one_that_ends_while_it_is_shut_is_not_taken_back_from_the_next_of_its_name(
    engine: Engine,
) -> None:
    async def shut(name: str) -> None:
        withdrawals.forget(name)
        next_ones.append(engine.connection(name, "api.example.com"))

    async def reopen(_: str) -> None:
        raise NotImplementedError

    next_ones: list[Connection] = []
    withdrawals = Revocations(engine, shut, reopen)
    done = await withdrawals.revoke("sandbox", "box")
    assert done.connections == 0
    assert [each.codes for each in next_ones] == [[]]
    assert withdrawals.all()["sandbox"] == []


def test_the_deny_says_where_it_comes_from() -> None:
    rules = with_denied_hosts(policy(), ["api.example.com", "*.example.org"])
    decision = decide_host(rules, Identity("box"), "a.example.org", 443, 0)
    assert str(decision.rule) == "deny#killed"
    assert decision.place is not None
    assert decision.place.file == "egress kill"


def test_rules_that_were_asked_before_are_not_remembered() -> None:
    rules = policy()
    assert allows(rules, "api.example.com")
    assert not allows(with_denied_hosts(rules, ["api.example.com"]), "api.example.com")
    assert allows(rules, "api.example.com")


@pytest.mark.parametrize(
    ("written", "address", "neighbour"),
    [
        ("10.1.2.3", "10.1.2.3", "10.1.2.4"),
        ("2001:DB8:0::1", "2001:db8::1", "2001:db8::2"),
    ],
)
async def test_an_address_is_taken_back_like_a_host(
    written: str, address: str, neighbour: str, engine: Engine, withdrawals: Revocations
) -> None:
    concerned, other = engine.connection("box", address), engine.connection("box", neighbour)
    named = engine.connection("box", "api.example.com")
    found = withdrawals.find(written)
    assert found == ("host", address)
    assert (await withdrawals.revoke(*found)).connections == 1
    await withdrawals.revoke("host", "docs.example.com")
    assert "access.withdrawn" in concerned.codes
    assert (other.codes, named.codes) == ([], [])
    assert not allows(engine.policy, address)
    assert allows(engine.policy, neighbour)
    await withdrawals.restore("host", address)
    assert allows(engine.policy, address)
    assert not allows(engine.policy, "docs.example.com")


async def test_a_host_that_is_taken_back_leaves_addresses_alone(
    engine: Engine, withdrawals: Revocations
) -> None:
    other = engine.connection("box", "10.1.2.3")
    await withdrawals.revoke("host", "api.example.com")
    assert other.codes == []
    assert allows(engine.policy, "10.1.2.3")


# Secrets ----------------------------------------------------------------------------------------


async def test_a_secret_is_revoked_and_what_was_sent_with_it_ends(
    engine: Engine, withdrawals: Revocations
) -> None:
    concerned = engine.connection("box", "api.example.com", "tracker")
    other = engine.connection("box", "api.example.com")
    assert (await withdrawals.revoke("secret", "tracker")).connections == 1
    assert concerned.codes == ["access.withdrawn"]
    assert other.codes == []
    assert engine.secrets.revoked == {"tracker"}


async def test_new_rules_do_not_give_a_secret_back_by_another_source(
    engine: Engine, withdrawals: Revocations
) -> None:
    await withdrawals.revoke("secret", "tracker")
    withdrawals.swap(policy(RULES.replace("env:TRACKER", "env:SECOND")))
    assert engine.secrets.sources == {("TRACKER",), ("SECOND",)}


async def test_giving_one_secret_back_keeps_the_others(engine: Engine, withdrawals: Revocations) -> None:
    await withdrawals.revoke("secret", "tracker")
    await withdrawals.revoke("secret", "box")
    await withdrawals.restore("secret", "tracker")
    assert engine.secrets.revoked == {"box"}


async def test_a_reload_gives_nothing_back(engine: Engine, withdrawals: Revocations) -> None:
    await withdrawals.revoke("secret", "tracker")
    await withdrawals.revoke("host", "api.example.com")
    await withdrawals.revoke("sandbox", "box")
    before = withdrawals.all()
    withdrawals.swap(policy(RULES.replace("tracker", "other")))
    withdrawals.swap(policy())
    assert engine.secrets.revoked == {"tracker"}
    assert not allows(engine.policy, "api.example.com")
    assert withdrawals.all() == before


async def test_secrets_of_new_rules_are_revoked_before_the_rules_are_in_force(
    engine: Engine, withdrawals: Revocations, monkeypatch: pytest.MonkeyPatch
) -> None:
    await withdrawals.revoke("secret", "tracker")
    seen: list[set[tuple[str, ...]]] = []
    monkeypatch.setattr(engine, "swap", lambda _: seen.append(set(engine.secrets.sources)))
    withdrawals.swap(policy(RULES.replace("env:TRACKER", "env:SECOND")))
    assert seen == [{("TRACKER",), ("SECOND",)}]


# Kept beyond the process ------------------------------------------------------------------------


async def _nothing(_: str) -> None:
    """No listener is concerned."""


async def test_what_is_kept_is_revoked_from_the_start(engine: Engine, tmp_path: Path) -> None:
    first = Revocations(engine, _nothing, _nothing, KeptRevocations(tmp_path))
    assert (await first.revoke("secret", "tracker", keep=True)).is_kept
    assert (await first.revoke("host", "api.example.com", keep=True)).is_kept
    assert not (await first.revoke("host", "docs.example.com")).is_kept
    again = Engine()
    second = Revocations(again, _nothing, _nothing, KeptRevocations(tmp_path))
    assert again.secrets.revoked == {"tracker"}
    assert not allows(again.policy, "api.example.com")
    assert allows(again.policy, "docs.example.com")
    assert second.all() == {"sandbox": [], "host": ["api.example.com"], "secret": ["tracker"]}
    assert second.kept == {"host": ["api.example.com"], "secret": ["tracker"]}


async def test_what_is_kept_is_undone_for_good(engine: Engine, tmp_path: Path) -> None:
    kept = KeptRevocations(tmp_path)
    first = Revocations(engine, _nothing, _nothing, kept)
    await first.revoke("secret", "tracker", keep=True)
    await first.restore(*first.find("tracker"))
    assert kept.read() == {"host": [], "secret": []}
    assert engine.secrets.revoked == set()
    assert first.kept == {"host": [], "secret": []}


async def test_a_kept_secret_that_the_rules_do_not_name_is_revoked_when_they_do(tmp_path: Path) -> None:
    KeptRevocations(tmp_path).add("secret", "later")
    engine = Engine()
    revocations = Revocations(engine, _nothing, _nothing, KeptRevocations(tmp_path))
    assert engine.secrets.revoked == set()
    revocations.swap(policy(RULES.replace("tracker", "later")))
    assert engine.secrets.revoked == {"later"}
    assert revocations.find("later") == ("secret", "later"), "it can be undone by its name before, too"


async def test_what_cannot_be_kept_is_revoked_all_the_same(engine: Engine, tmp_path: Path) -> None:
    revocations = Revocations(engine, _nothing, _nothing, KeptRevocations(tmp_path / "file"))
    (tmp_path / "file").write_text("in the place of the folder")
    concerned = engine.connection("box", "api.example.com", "tracker")
    with pytest.raises(UnreadableError, match="cannot be written"):
        await revocations.revoke("secret", "tracker", keep=True)
    assert engine.secrets.revoked == {"tracker"}
    assert concerned.codes == ["access.withdrawn"]
    assert revocations.kept == {"host": [], "secret": []}


async def test_nothing_is_undone_that_would_come_back(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = KeptRevocations(tmp_path)
    revocations = Revocations(engine, _nothing, _nothing, kept)
    await revocations.revoke("secret", "tracker", keep=True)

    def full(*_: object) -> None:
        raise UnreadableError("the disk is full")

    monkeypatch.setattr(kept, "remove", full)
    with pytest.raises(UnreadableError):
        await revocations.restore("secret", "tracker")
    assert engine.secrets.revoked == {"tracker"}
    assert revocations.all()["secret"] == revocations.kept["secret"] == ["tracker"]


# Sandboxes --------------------------------------------------------------------------------------


async def test_a_sandbox_loses_its_listeners_and_all_it_has_open(
    engine: Engine, withdrawals: Revocations
) -> None:
    concerned, other = (
        engine.connection("box", "api.example.com"),
        engine.connection("other", "api.example.com"),
    )
    assert (await withdrawals.revoke("sandbox", "box")).connections == 1
    assert concerned.codes == ["access.withdrawn"]
    assert other.codes == []
    assert engine.shut == ["box"]
    await withdrawals.restore("sandbox", "box")
    assert engine.shut == []


async def test_a_sandbox_that_has_ended_is_not_taken_back_any_more(withdrawals: Revocations) -> None:
    await withdrawals.revoke("sandbox", "box")
    withdrawals.forget("box")
    withdrawals.forget("box")
    assert withdrawals.all()["sandbox"] == []


# Names ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind", "found"),
    [
        ("other", None, ("sandbox", "other")),
        ("api.example.com", None, ("host", "api.example.com")),
        ("API.Example.com.", None, ("host", "api.example.com")),
        ("x.example.org", None, ("host", "x.example.org")),
        ("*.example.org", None, ("host", "*.example.org")),
        ("tracker", None, ("secret", "tracker")),
        ("box", "sandbox", ("sandbox", "box")),
        ("box", "secret", ("secret", "box")),
        ("never.example.net", "host", ("host", "never.example.net")),
        ("192.0.2.1", "host", ("host", "192.0.2.1")),
        ("never.example.net", None, ("host", "never.example.net")),
        ("*.example.net", None, ("host", "*.example.net")),
        ("**.net", None, ("host", "**.net")),
        ("192.0.2.1", None, ("host", "192.0.2.1")),
        ("2001:DB8::7", None, ("host", "2001:db8::7")),
        ("agent.1", None, ("sandbox", "agent.1")),
    ],
)
def test_a_name_is_found(
    name: str, kind: RevocationKind | None, found: tuple[RevocationKind, str], withdrawals: Revocations
) -> None:
    assert withdrawals.find(name, kind) == found


def test_a_name_of_two_things_asks_which(withdrawals: Revocations) -> None:
    with pytest.raises(UsageError, match="a sandbox and a secret") as caught:
        withdrawals.find("box")
    assert "--sandbox or --secret" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("nothing", None),
        ("localhost", None),
        ("", None),
        ("*", None),
        ("https://never.example.net/", None),
        ("never.example.net:443", None),
        ("never.example.net", "secret"),
        ("never.example.net", "sandbox"),
        ("10.1.0.0/16", None),
        ("10.1.2", "host"),
        ("fe80::1%eth0", "host"),
        ("a b", "host"),
        ("api.example.com", "secret"),
    ],
)
def test_a_name_of_nothing_is_said(name: str, kind: RevocationKind | None, withdrawals: Revocations) -> None:
    with pytest.raises(UsageError, match="there is no"):
        withdrawals.find(name, kind)


@pytest.mark.parametrize(
    ("kind", "hint", "names"),
    [
        (None, "one without a dot needs --host", ["agent.1", "box", "other"]),
        ("sandbox", "", ["agent.1", "box", "other"]),
        ("secret", "", ["box", "tracker"]),
        ("host", "without port or path", []),
    ],
)
def test_a_name_of_nothing_comes_with_what_there_is(
    kind: RevocationKind | None, hint: str, names: list[str], withdrawals: Revocations
) -> None:
    with pytest.raises(UnknownNameError) as caught:
        withdrawals.find("a b", kind)
    assert hint in caught.value.hint
    assert list(caught.value.names) == names


async def test_a_host_that_nobody_has_asked_for_yet_is_denied(
    engine: Engine, withdrawals: Revocations
) -> None:
    await withdrawals.revoke(*withdrawals.find("*.example.com"))
    assert not allows(engine.policy, "docs.example.com")
    assert allows(engine.policy, "a.example.org")


async def test_a_host_with_an_open_connection_is_known_although_no_rule_names_it(
    engine: Engine, withdrawals: Revocations
) -> None:
    engine.connection("box", "seen.example.net")
    assert withdrawals.find("seen.example.net") == ("host", "seen.example.net")


async def test_giving_back_what_was_not_taken_is_said(withdrawals: Revocations) -> None:
    assert not (await withdrawals.restore("host", "api.example.com")).was_known
