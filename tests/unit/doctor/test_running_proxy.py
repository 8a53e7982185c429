"""What a running proxy says is held against what was found here. A real one is asked in tests/proxy."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from egress import __version__
from egress.ca import Authority
from egress.doctor import running_proxy
from egress.doctor.diagnosis import Diagnosis, Level
from egress.doctor.proxy_under_check import Answer
from egress.doctor.running_proxy import RunningProxy
from egress.errors import UnreadableError
from tests.unit.doctor.proxy_setups import answering, is_content, needs_care, only, patient

NOW = 1_795_000_000


def status(folder: Path, **changed: object) -> dict[str, object]:
    """The answer of a proxy that is well, and runs rules: the patient."""
    policy = patient(folder).policy
    assert policy is not None
    well: dict[str, object] = {
        "version": __version__,
        "pid": 42,
        "since": "2026-01-01T00:00:00Z",
        "ready": True,
        "problems": [],
        "rules": {"files": ["hosts.yaml"], "digest": policy.digest, "loaded": "2026-01-02", "refused": []},
        "sandboxes": [{"name": "default", "listeners": ["127.0.0.1:3128"], "failed": []}],
        "killed": {"sandbox": [], "host": []},
    }
    return {**well, **changed}


async def looked(
    folder: Path, answer: Mapping[str, object], code: int = 200, authority: Authority | None = None
) -> tuple[Diagnosis, ...]:
    found = answering(patient(folder), lambda: (code, answer))
    return tuple(running_proxy.check(found, await running_proxy.ask(found), authority))


def bad(found: tuple[Diagnosis, ...]) -> Diagnosis:
    return only(item for item in found if item.level in (Level.WARNING, Level.FAULT))


async def test_that_none_runs_is_fine(tmp_path: Path) -> None:
    found = patient(tmp_path)
    told = only(running_proxy.check(found, await running_proxy.ask(found), None))
    assert told.level is Level.NOTE
    assert "control.sock" in told.fact


async def test_one_that_is_well_is_fine(tmp_path: Path) -> None:
    found = await looked(tmp_path, status(tmp_path))
    assert {item.level for item in found} == {Level.OK}
    assert "pid 42" in found[0].fact
    assert found[1].fact == "it uses the rules checked above: hosts.yaml, since 2026-01-02"


async def test_one_that_is_not_ready_is_a_fault(tmp_path: Path) -> None:
    found = await looked(tmp_path, status(tmp_path, ready=False, problems=["no listener is open"]))
    needs_care(bad(found), Level.FAULT, "no listener is open")


async def test_one_that_still_starts_is_doubtful(tmp_path: Path) -> None:
    needs_care(only(await looked(tmp_path, {}, 404)), Level.WARNING, "starting")


async def test_one_of_another_version_is_doubtful(tmp_path: Path) -> None:
    needs_care(bad(await looked(tmp_path, status(tmp_path, version="0.0.9"))), Level.WARNING, "0.0.9")


async def test_rules_that_it_refused_are_a_fault(tmp_path: Path) -> None:
    rules = {"files": ["hosts.yaml"], "loaded": "2026-01-02", "refused": ["hosts.yaml:2:1: unknown key"]}
    needs_care(bad(await looked(tmp_path, status(tmp_path, rules=rules))), Level.FAULT, "hosts.yaml:2:1")


async def test_other_rules_than_those_here_are_doubtful(tmp_path: Path) -> None:
    rules = {"files": ["other.yaml"], "digest": "abc", "refused": []}
    needs_care(
        bad(await looked(tmp_path, status(tmp_path, rules=rules))),
        Level.WARNING,
        "other rules than checked above: other.yaml",
    )


async def test_a_listener_that_failed_is_a_fault(tmp_path: Path) -> None:
    boxes = [{"name": "default", "failed": ["cannot listen on 10.0.0.2:443"]}]
    needs_care(bad(await looked(tmp_path, status(tmp_path, sandboxes=boxes))), Level.FAULT, "10.0.0.2:443")


async def test_an_authority_that_lacks_hosts_is_doubtful(tmp_path: Path) -> None:
    boxes = [{"name": "box", "authority_lacks": ["new.example.com"]}]
    needs_care(
        bad(await looked(tmp_path, status(tmp_path, sandboxes=boxes))), Level.WARNING, "new.example.com"
    )


async def test_an_authority_that_was_replaced_on_the_disk_is_doubtful(tmp_path: Path) -> None:
    own = Authority.create("default", NOW)
    boxes: list[dict[str, object]] = [{"name": "default", "authority": own.fingerprint}]
    assert is_content(await looked(tmp_path, status(tmp_path, sandboxes=boxes), authority=own))
    found = await looked(
        tmp_path, status(tmp_path, sandboxes=boxes), authority=Authority.create("default", NOW)
    )
    needs_care(bad(found), Level.WARNING, "another authority")


async def test_what_was_killed_is_worth_knowing(tmp_path: Path) -> None:
    found = await looked(tmp_path, status(tmp_path, killed={"host": ["a.example.com"]}))
    assert found[-1].level is Level.NOTE
    assert (found[-1].name, found[-1].fact) == ("killed host", "a.example.com")


async def test_one_that_does_not_answer_properly_is_a_fault(tmp_path: Path) -> None:
    def broken() -> Answer:
        raise UnreadableError("the proxy did not answer: badstatusline", "check its log")

    found = answering(patient(tmp_path), broken)
    needs_care(
        only(running_proxy.check(found, await running_proxy.ask(found), None)), Level.FAULT, "badstatusline"
    )


async def test_one_that_never_answers_is_a_fault_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_proxy, "ANSWER_TIMEOUT", 0.1)
    end = threading.Event()

    def silent() -> Answer:
        end.wait()
        return 200, {}

    found = answering(patient(tmp_path), silent)
    told = only(running_proxy.check(found, await running_proxy.ask(found), None))
    end.set()
    needs_care(told, Level.FAULT, "no proxy answered within 0.1 s")


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"ready": True, "rules": [], "sandboxes": {"a": 1}, "killed": [1]},
        {"sandboxes": [None, 3, {"failed": 7, "listeners": None}], "problems": "x", "killed": {"host": 1}},
    ],
)
async def test_an_answer_of_another_shape_breaks_nothing(answer: dict[str, object], tmp_path: Path) -> None:
    assert await looked(tmp_path, answer)
    assert RunningProxy(200, answer).open_at == frozenset()


def test_every_address_at_which_it_listens_is_known(tmp_path: Path) -> None:
    boxes = [{"listeners": ["127.0.0.1:1"], "transparent": ["10.0.0.2:443"], "dns": ["10.0.0.2:53"]}]
    assert RunningProxy(200, {"sandboxes": boxes}).open_at == {"127.0.0.1:1", "10.0.0.2:443", "10.0.0.2:53"}


@pytest.mark.parametrize(
    ("running", "is_there"),
    [
        (RunningProxy(), False),
        (RunningProxy(404), True),
        (RunningProxy(problem=UnreadableError("it hangs", "wait")), True),
    ],
)
def test_one_that_does_not_answer_is_there_all_the_same(running: RunningProxy, *, is_there: bool) -> None:
    assert running.is_there is is_there


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        ({"rules": {"secrets": ["a", "b"]}}, {"a", "b"}),
        ({"rules": {"secrets": []}}, set()),
        ({"rules": {"secrets": "a"}}, None),
        ({}, None),
    ],
)
def test_the_secrets_of_its_rules_are_known_where_it_says_them(
    answer: dict[str, object], names: set[str] | None
) -> None:
    assert RunningProxy(200, answer).secrets == names
