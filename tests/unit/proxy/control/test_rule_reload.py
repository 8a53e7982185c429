"""A reload puts whole, sound rules in force, or changes nothing and says why."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable

import pytest

from egress.errors import UnreadableError
from egress.policy.trust import UntrustedError
from egress.proxy.control.rule_reload import ReloadOutcome, RuleReloader
from egress.rules.compile.load import LoadResult, RuleText, load
from egress.rules.decide.decision import decide
from egress.rules.decide.policy import Policy
from egress.types import Head, Identity

OLD = "version: 1\nhosts:\n  old.example.com: {}\n"
NEW = "version: 1\nhosts:\n  new.example.com: {}\n"
WRONG = "version: 1\nhots: {}\n"


def loaded(text: str) -> LoadResult:
    return load([RuleText("hosts.yaml", text)])


def policy(text: str) -> Policy:
    found = loaded(text).policy
    assert found is not None
    return found


class Rules:
    """Rules in force, and every swap of them."""

    def __init__(self) -> None:
        self.policy = policy(OLD)
        self.swaps: list[Policy] = []

    def swap(self, policy: Policy) -> None:
        self.policy = policy
        self.swaps.append(policy)


class Told:
    """What was told about reloads."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[ReloadOutcome, str]] = []

    async def __call__(self, outcome: ReloadOutcome, why: str) -> None:
        self.outcomes.append((outcome, why))


def reloader(read: Callable[[], LoadResult]) -> tuple[RuleReloader, Rules, Told]:
    rules, told = Rules(), Told()
    return RuleReloader(rules, read, told), rules, told


async def test_sound_rules_take_the_place_of_the_old_ones() -> None:
    reloading, rules, told = reloader(lambda: loaded(NEW))
    outcome = await reloading.reload("asked")
    assert outcome.result == "loaded"
    assert rules.policy == policy(NEW)
    assert told.outcomes == [(outcome, "asked")]
    assert reloading.last is outcome


async def test_the_same_rules_are_not_swapped() -> None:
    """A swap ends what may no longer be; there is nothing to end."""
    reloading, rules, _ = reloader(lambda: loaded(OLD))
    assert (await reloading.reload("asked")).result == "unchanged"
    assert rules.swaps == []


async def test_rules_with_a_mistake_change_nothing_and_its_place_is_told() -> None:
    reloading, rules, told = reloader(lambda: loaded(WRONG))
    outcome = await reloading.reload("asked")
    assert outcome.result == "refused"
    assert rules.swaps == []
    assert outcome.digest == policy(OLD).digest
    assert [line.partition(": ")[0] for line in outcome.problems] == ["hosts.yaml:2:1"]
    assert len(told.outcomes) == 1


@pytest.mark.parametrize(
    "error",
    [
        UnreadableError("there is no file", "make one"),
        UntrustedError("it has changed", "trust it"),
        KeyError("boom"),
        RecursionError("deep"),
        MemoryError(),
    ],
)
async def test_whatever_goes_wrong_the_old_rules_stay(error: Exception) -> None:
    def read() -> LoadResult:
        raise error

    reloading, rules, _ = reloader(read)
    outcome = await reloading.reload("asked")
    assert outcome.result == "refused"
    assert rules.swaps == []
    assert outcome.problems
    assert "boom" not in outcome.message


async def test_after_a_refusal_the_next_good_rules_are_taken() -> None:
    texts = [WRONG, NEW]
    reloading, rules, _ = reloader(lambda: loaded(texts.pop(0)))
    await reloading.reload("one")
    await reloading.reload("two")
    assert rules.swaps == [policy(NEW)]


async def test_a_storm_of_requests_is_one_reload_and_one_more() -> None:
    """What is asked for while one runs may be too late for it, so exactly one more follows."""
    began, release, runs = threading.Event(), threading.Event(), []

    def read() -> LoadResult:
        runs.append(1)
        began.set()
        release.wait(10)
        return loaded(NEW)

    reloading, _, _ = reloader(read)
    asked = [asyncio.create_task(reloading.reload("storm")) for _ in range(100)]
    await asyncio.to_thread(began.wait)
    asked += [asyncio.create_task(reloading.reload("storm")) for _ in range(100)]
    await asyncio.sleep(0)
    release.set()
    outcomes = await asyncio.gather(*asked)
    assert len(runs) == 2
    assert {outcome.result for outcome in outcomes} == {"loaded", "unchanged"}


async def test_who_gives_up_does_not_take_the_reload_away() -> None:
    release = threading.Event()

    def read() -> LoadResult:
        release.wait(10)
        return loaded(NEW)

    reloading, rules, told = reloader(read)
    impatient = asyncio.create_task(reloading.reload("one"))
    patient = asyncio.create_task(reloading.reload("two"))
    await asyncio.sleep(0)
    impatient.cancel()
    release.set()
    assert (await patient).result == "loaded"
    assert len(rules.swaps) == len(told.outcomes) == 1


async def test_a_host_with_many_rules_is_compiled_before_its_first_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request must not wait, with all others, until hundreds of patterns are compiled."""
    many = "".join(f"      - {{id: r{n}, methods: [GET, PUT], paths: ['/a/{n}/*']}}\n" for n in range(40))
    text = f"version: 1\nhosts:\n  a.example:\n    allow:\n{many}    deny: [{{id: no, paths: [/a/3/b]}}]\n"
    reloading, rules, _ = reloader(lambda: loaded(text))
    await reloading.reload("asked")
    # The twin: nothing is ready without a reload.
    fresh = policy(text.replace("a.example", "b.example"))

    def compiled(*_: object) -> None:
        raise AssertionError("compiled in the event loop")

    with monkeypatch.context() as patched:
        patched.setattr(re, "compile", compiled)
        for method, path, allowed in [("GET", "/a/7/x", 1), ("PUT", "/a/3/b", 0), ("POST", "/a/7/x", 0)]:
            head = Head(method, "https", "a.example", 443, path, ())
            assert decide(rules.policy, Identity("box"), head, 0).allowed is bool(allowed)
        with pytest.raises(AssertionError):
            decide(fresh, Identity("box"), Head("GET", "https", "b.example", 443, "/a/7/x", ()), 0)
