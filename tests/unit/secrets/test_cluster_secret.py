"""A Secret of the cluster as a source, and what the resolver does when it changes."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from egress.errors import UnreadableError
from egress.rules.decide.policy import SecretSpec
from egress.secrets import SecretResolver
from egress.secrets.child_environment import ChildEnvironment
from egress.secrets.cluster_secret import DEFAULT_TTL, ClusterSecretSource
from egress.secrets.source_factory import SourceFactory
from tests.unit.secrets.secret_samples import OTHER, TOKEN, HandClock, captured, spec, until

SPEC = spec("tracker", "k8s", "tokens", "tracker")


class Tokens:
    """The Secrets of a cluster, as a watch has them."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], bytes] = {("tokens", "tracker"): TOKEN}
        self.watched: dict[str, Callable[[str], None]] = {}
        self.is_slow = threading.Event()
        self.is_slow.set()

    def watch(self, name: str, changed: Callable[[str], None]) -> None:
        self.watched.setdefault(name, changed)

    def keep(self, names: frozenset[str]) -> None:
        self.watched = {name: changed for name, changed in self.watched.items() if name in names}

    def value(self, name: str, key: str) -> bytes:
        found = self.values.get((name, key))
        self.is_slow.wait(20)
        if found is None:
            raise UnreadableError("there is none", "make one")
        return found

    def change(self, value: bytes | None, key: str = "tracker") -> None:
        if value is None:
            del self.values["tokens", key]
        else:
            self.values["tokens", key] = value
        self.watched["tokens"]("tokens")


def resolver(tokens: Tokens, clock: HandClock | None = None) -> SecretResolver:
    return SecretResolver(clock=clock or HandClock(), captured=captured(), deadline=60, cluster=tokens)


async def value(of: SecretResolver, one: SecretSpec = SPEC) -> bytes | None:
    found = await of.resolve([one])
    return found[one.name].reveal() if found else None


async def test_a_changed_value_is_used_and_the_one_before_never_again() -> None:
    tokens = Tokens()
    of = resolver(tokens)
    assert await value(of) == TOKEN
    assert of.cached([SPEC]) is not None
    tokens.change(OTHER)
    # Before anything else runs: the value from before is not good any more.
    assert of.cached([SPEC]) is None
    assert await value(of) == OTHER
    # It is still searched for in answers.
    assert of.needles([SPEC]).mask(TOKEN).hits


async def test_a_fetch_that_began_before_the_change_does_not_bring_the_old_value() -> None:
    tokens = Tokens()
    of = resolver(tokens)
    assert await value(of) == TOKEN
    tokens.is_slow.clear()
    tokens.change(TOKEN, "another-key")
    await until(lambda: bool(of._runs))
    # The running fetch has read the old value by now, or will read the new one.
    tokens.change(OTHER)
    tokens.is_slow.set()
    assert await value(of) == OTHER


async def test_a_deleted_key_is_missing_at_once_and_comes_back_at_once() -> None:
    tokens = Tokens()
    of = resolver(tokens)
    assert await value(of) == TOKEN
    tokens.change(None)
    assert of.cached([SPEC]) is None
    assert await value(of) is None
    assert of.unavailable([SPEC])[0].cause == "there is none"
    assert of.ages([SPEC]) == {}
    # No pause after the failure: the watch says when to ask again.
    tokens.change(OTHER)
    assert await value(of) == OTHER
    assert of.ages([SPEC]) == {"tracker": 0}


async def test_a_failure_between_two_changes_is_no_failure_of_the_second() -> None:
    tokens = Tokens()
    of = resolver(tokens)
    assert await value(of) == TOKEN
    tokens.is_slow.clear()
    tokens.change(None)
    await until(lambda: bool(of._runs))
    tokens.change(OTHER)
    tokens.is_slow.set()
    assert await value(of) == OTHER
    assert of.unavailable([SPEC]) == ()


async def test_without_a_watch_the_value_is_used_for_its_lifetime() -> None:
    tokens, clock = Tokens(), HandClock()
    of = resolver(tokens, clock)
    assert await value(of) == TOKEN
    tokens.values.clear()
    clock.advance(DEFAULT_TTL - 1)
    assert await value(of) == TOKEN
    clock.advance(1)
    assert await value(of) is None


async def test_a_revoked_secret_stays_revoked_when_it_changes() -> None:
    tokens = Tokens()
    of = resolver(tokens)
    assert await value(of) == TOKEN
    of.revoke([SPEC])
    tokens.change(OTHER)
    assert await value(of) is None
    of.restore("tracker")
    assert await value(of) == OTHER


async def test_only_secrets_that_the_rules_name_are_watched() -> None:
    tokens = Tokens()
    tokens.values["more", "k"] = OTHER
    more = spec("more", "k8s", "more", "k")
    of = resolver(tokens)
    await of.warm([SPEC, more])
    assert set(tokens.watched) == {"tokens", "more"}
    await of.warm([more])
    assert set(tokens.watched) == {"more"}
    await of.warm([SPEC])
    assert set(tokens.watched) == {"tokens"}
    assert await value(of) == TOKEN


def test_outside_of_a_cluster_the_source_says_so() -> None:
    sources = SourceFactory(captured(), ChildEnvironment({}), False, 1.0)
    with pytest.raises(UnreadableError, match="no pod of a cluster"):
        sources.of(SPEC).fetch()


def test_a_source_shows_no_value() -> None:
    source = ClusterSecretSource(Tokens(), "tokens", "tracker")
    assert TOKEN.decode() not in f"{source!r} {source.fetch()!r} {source.fetch()}"
    assert source.lifetime(10).end == 10
    assert not source.mints
