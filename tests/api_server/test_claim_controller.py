"""A claim has one sandbox, which comes and goes with it, whatever happens between."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import override

import pytest

from egress.fleet.lifetime import SandboxLifetime
from egress.runtime.errors import EngineUnavailableError, SandboxStateError
from egress.runtime.spec import NO_VALUES, Info, Spec, Values
from tests.api_server.claim_lab import ClaimLab, claim_lab, manifest, ready_of, served_claims
from tests.fleet.memory_fleet import PortMemoryRuntime, spec


class SlowRuntime(PortMemoryRuntime):
    """Makes sandboxes once it may, and starts none that is to fail."""

    def __init__(self) -> None:
        super().__init__({})
        self.began, self.may = threading.Event(), threading.Event()
        self.fails = self.is_lost = False

    @override
    def create(self, spec: Spec) -> Info:
        self.began.set()
        assert self.may.wait(30)
        return super().create(spec)

    @override
    def start(self, name: str) -> Info:
        if self.fails:
            raise SandboxStateError("the disk is full", "make room")
        return super().start(name)

    @override
    def list(self, labels: Values = NO_VALUES) -> tuple[Info, ...]:
        if self.is_lost:
            raise EngineUnavailableError("the engine does not answer", "start it")
        return super().list(labels)


@pytest.fixture
def runtime() -> SlowRuntime:
    return SlowRuntime()


@pytest.fixture
def lab(runtime: SlowRuntime, tmp_path: Path) -> Iterator[ClaimLab]:
    with claim_lab(tmp_path, runtime) as lab:
        yield lab


def test_a_claim_that_is_deleted_while_its_sandbox_is_made_leaves_none(
    lab: ClaimLab, runtime: SlowRuntime
) -> None:
    claim = lab.create("mine")
    assert runtime.began.wait(30)
    query = f"fieldSelector=metadata.name%3Dmine&resourceVersion={claim['metadata']['resourceVersion']}"
    answers: list[int] = []
    with lab.watching(query) as events:
        deleting = threading.Thread(target=lambda: answers.append(lab.ask("DELETE", "/mine", {})[0]))
        deleting.start()
        event = next(events)
        assert event["object"]["metadata"]["deletionTimestamp"]
        runtime.may.set()
        deleting.join()
        assert [next(events)["type"] for _ in range(2)] == ["MODIFIED", "DELETED"]
    assert answers == [200]
    assert not lab.fleet.list()
    lab.settled("mine")


def test_a_sandbox_that_does_not_start_is_removed_and_the_claim_says_why(
    lab: ClaimLab, runtime: SlowRuntime
) -> None:
    runtime.may.set()
    runtime.fails = True
    claim = lab.settled("mine")
    assert ready_of(claim) == ("False", "InvalidConfiguration")
    assert claim["status"]["conditions"][0]["message"] == "the disk is full (make room)"
    assert not lab.fleet.list()
    assert lab.ask("DELETE", "/mine", {})[0] == 200


def test_the_settings_are_those_of_the_pool_and_of_the_claim(lab: ClaimLab, runtime: SlowRuntime) -> None:
    runtime.may.set()
    claim = lab.settled(
        "mine",
        labels={"team": "a"},
        lifecycle={"shutdownTime": "2040-01-01T00:00:00Z", "shutdownPolicy": "Delete"},
        additionalPodMetadata={"annotations": {"egress/profile": "reviewer"}, "labels": {"tier": "b"}},
    )
    status = lab.fleet.status(claim["status"]["sandbox"]["name"])
    assert (status.info.profile, status.info.image) == ("reviewer", "any")
    assert {"team": "a", "tier": "b"}.items() <= dict(status.info.labels).items()
    assert status.terms.timeout is not None
    assert 3e8 < status.terms.timeout < 5e8
    assert status.terms.idle_timeout == 24 * 3600


def test_claims_come_back_with_their_sandboxes(
    lab: ClaimLab, runtime: SlowRuntime, tmp_path_factory: pytest.TempPathFactory
) -> None:
    runtime.may.set()
    lab.create("failed", warmPoolRef={"name": "none"})
    claim = lab.settled(
        "mine",
        "team-a",
        labels={"team": "a"},
        additionalPodMetadata={
            "annotations": {"egress/profile": "reviewer", "egress/param.repo": "acme/site"}
        },
    )
    # Neither of these is one of a claim.
    lab.fleet.create(spec("plain"))
    lab.fleet.create(spec("odd"), SandboxLifetime(owner="agent-sandbox"))
    with served_claims(lab.fleet, tmp_path_factory.mktemp("again")) as again:
        status, found = again.ask("GET", "/mine", namespace="team-a")
        assert (status, found["status"]["sandbox"]) == (200, claim["status"]["sandbox"])
        for field in ("name", "namespace", "uid", "labels"):
            assert found["metadata"][field] == claim["metadata"][field]
        assert found["spec"] == claim["spec"]
        assert again.ask("GET", "")[1]["items"] == []
        assert again.ask("DELETE", "/mine", {}, "team-a")[0] == 200
    assert {each.name for each in lab.fleet.list()} == {"plain", "odd"}


def test_there_is_an_end_to_claims(
    lab: ClaimLab, runtime: SlowRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.may.set()
    monkeypatch.setattr("egress.api_server.claim_controller.MAX_CLAIMS", 1)
    lab.settled("mine")
    status, answer = lab.ask("POST", "", manifest("other"))
    assert (status, answer["reason"]) == (403, "Forbidden")
    lab.ask("DELETE", "/mine", {})
    lab.settled("other")


def test_an_engine_that_does_not_answer_takes_no_claim_away(lab: ClaimLab, runtime: SlowRuntime) -> None:
    runtime.is_lost = True
    # Claims of the last run cannot be looked for.
    assert lab.ask("GET", "/mine")[0] == 503
    runtime.is_lost = False
    runtime.may.set()
    lab.settled("mine")
    runtime.is_lost = True
    status, answer = lab.ask("DELETE", "/mine", {})
    assert (status, answer["reason"]) == (503, "ServiceUnavailable")
    runtime.is_lost = False
    assert lab.ask("GET", "/mine")[0] == 200


def test_a_watch_ends_where_the_engine_does_not_answer(lab: ClaimLab, runtime: SlowRuntime) -> None:
    runtime.may.set()
    lab.settled("mine")
    with lab.watching("resourceVersion=0") as events:
        assert next(events)["type"] == "ADDED"
        runtime.is_lost = True
        assert list(events) == []
    assert lab.ask("GET", "?watch=true&resourceVersion=0")[0] == 503
