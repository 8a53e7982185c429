"""Canaries in namespaces: they are where the rules say, and no sandbox is without them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from egress.runtime.errors import SandboxDiedError, SandboxStateError
from tests.runtime import planting_cases
from tests.runtime.namespace.namespace_lab import NamespaceLab, NamespaceLabSandbox
from tests.runtime.planting_cases import CASES, SYSTEMS, Case, LabCanaryRules


@pytest.fixture
def bed(house: NamespaceLab) -> Iterator[LabCanaryRules[NamespaceLabSandbox]]:
    with planting_cases.lab_canary_rules(house) as bed:
        yield bed


@pytest.mark.parametrize("promise", [*CASES, *SYSTEMS], ids=lambda case: case.__name__)
def test_a_promise_is_kept_and_nothing_is_left(
    promise: Case, bed: LabCanaryRules[NamespaceLabSandbox]
) -> None:
    promise(bed)


def test_one_that_is_started_again_without_its_canaries_does_not_run(
    house: NamespaceLab, bed: LabCanaryRules[NamespaceLabSandbox]
) -> None:
    bed.plant("key: { like: aws, file: ~/deep/key }")
    box = house.box("one")
    box.sh("rm -r ~/deep && echo x >~/deep").check()
    bed.runtime.stop("one")
    with pytest.raises(SandboxStateError, match="a file is there already"):
        bed.runtime.start("one")
    assert bed.runtime.info("one").state == "stopped"
    with pytest.raises(SandboxDiedError):
        box.run("true")


# A sandbox that sends what it has found ---------------------------------------------------------------


def test_whoever_sends_one_is_told_from_whoever_does_not(own_house: NamespaceLab) -> None:
    planting_cases.whoever_sends_one_is_told_from_whoever_does_not(own_house)


def test_one_that_stops_takes_all_access(own_house: NamespaceLab) -> None:
    planting_cases.one_that_stops_takes_all_access(own_house)


def test_a_proxy_that_returns_knows_what_is_planted(own_house: NamespaceLab) -> None:
    planting_cases.a_proxy_that_returns_knows_what_is_planted(own_house)
