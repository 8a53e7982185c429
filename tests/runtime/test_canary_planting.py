"""Canaries in containers: they are where the rules say, and no sandbox is without them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from egress.runtime.docker import image_tree
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.errors import SandboxDiedError, SandboxStateError, UnsupportedError
from egress.runtime.spec import Spec
from tests.runtime import planting_cases
from tests.runtime.docker_lab import DockerLab, DockerLabSandbox
from tests.runtime.planting_cases import CASES, SYSTEMS, Case, LabCanaryRules


@pytest.fixture
def bed(house: DockerLab) -> Iterator[LabCanaryRules[DockerLabSandbox]]:
    with planting_cases.lab_canary_rules(house) as bed:
        yield bed


@pytest.mark.parametrize("promise", [*CASES, *SYSTEMS], ids=lambda case: case.__name__)
def test_a_promise_is_kept_and_nothing_is_left(promise: Case, bed: LabCanaryRules[DockerLabSandbox]) -> None:
    promise(bed)


def test_one_that_was_ready_has_its_own(house: DockerLab, bed: LabCanaryRules[DockerLabSandbox]) -> None:
    """It was made before anybody knew what is planted in it."""
    bed.plant("key: { like: aws, env: KEY, file: /tmp/key }")
    bed.runtime.prepare(bed.spec("any"), 1)
    pool = house.runtime._pool
    assert pool.until_ready()
    [(_, _, shelf)] = pool._kinds
    blank = shelf._things[0]
    box = house.box("one")
    assert house.runtime._register.get("one").unassigned is blank
    pool.close()
    assert box.run("cat", "/tmp/key").text == bed.value("one", "key") + "\n"
    assert f"KEY={bed.value('one', 'key')}" in box.run("env").text.splitlines()


def test_an_image_without_a_shell_is_named(
    bed: LabCanaryRules[DockerLabSandbox], engine: DockerEngine
) -> None:
    with image_tree.spool_archive(image_tree.small_system_tree(["cat"], python=False)) as (archive, _):
        engine.import_image(archive, "egress-test", "shell-less-planting")
    spec = Spec(name="one", image="egress-test:shell-less-planting")
    try:
        bed.plant("key: { like: aws, file: /tmp/key }")
        with pytest.raises(UnsupportedError, match="the image of the sandbox one has no /bin/sh"):
            bed.runtime.create(spec)
        assert bed.runtime.list() == ()
    finally:
        engine.remove_image(spec.image)


def test_one_that_is_started_again_without_its_canaries_does_not_run(
    house: DockerLab, bed: LabCanaryRules[DockerLabSandbox]
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


def test_whoever_sends_one_is_told_from_whoever_does_not(own_house: DockerLab) -> None:
    planting_cases.whoever_sends_one_is_told_from_whoever_does_not(own_house)


def test_one_that_stops_takes_all_access(own_house: DockerLab) -> None:
    planting_cases.one_that_stops_takes_all_access(own_house)


def test_a_proxy_that_returns_knows_what_is_planted(own_house: DockerLab) -> None:
    planting_cases.a_proxy_that_returns_knows_what_is_planted(own_house)
