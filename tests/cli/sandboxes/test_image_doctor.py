"""`egress doctor --image`: a table for people, JSON for programs, and a status for scripts."""

from __future__ import annotations

import json

import pytest

from egress.cli.main import main
from egress.cli.sandboxes.stacks import stack_trial
from egress.cli.sandboxes.stacks.known_stacks import STACKS, Stack
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.images.demo import demo_image
from tests.cli.sandboxes.trial_fixtures import answering, engine, folder, namespaces, refusal
from tests.runtime.kit.host_programs_image import installed

__all__ = ["answering", "engine", "folder", "namespaces", "refusal"]

Captured = pytest.CaptureFixture[str]
QUICK = ("curl", "git", "python urllib")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what starts quickly: all of it takes a while."""
    narrow(monkeypatch, tuple(stack for stack in STACKS if stack.name in QUICK))


def narrow(monkeypatch: pytest.MonkeyPatch, stacks: tuple[Stack, ...]) -> None:
    monkeypatch.setattr(stack_trial.StackTrial.try_stacks, "__defaults__", (stacks,))


def rows(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines()]


@pytest.mark.system("curl", "curl")
@pytest.mark.usefixtures("namespaces", "folder")
def test_the_programs_of_this_machine_are_tried_in_a_namespace(capsys: Captured) -> None:
    assert main(["doctor", "--image", "host"]) == 0
    head, *found = rows(capsys.readouterr().out)
    assert head == ["stack", "version", "trusts", "injected"]
    assert found[0][0] == "curl"
    assert all(row[-2:] == ["yes", "yes"] for row in found)


@pytest.mark.timeout(400)
@pytest.mark.usefixtures("namespaces", "folder")
def test_every_stack_of_this_machine_trusts_and_is_given_the_credential(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that are looked for, and what is not here is said to be absent."""
    narrow(monkeypatch, STACKS)
    status = main(["doctor", "--image", "host", "--json"])
    said = json.loads(capsys.readouterr().out)
    found = {each["stack"]: each for each in said["stacks"]}
    assert {name: each["said"] for name, each in found.items() if not each["injected"]} == {}
    assert (status, said["ok"]) == (0, True)
    assert {*found, *said["absent"]} == {stack.name for stack in STACKS}
    assert not set(found) & set(said["absent"])
    assert installed() <= set(found)


@pytest.mark.usefixtures("folder")
def test_an_image_of_an_engine_is_tried_in_a_container(engine: DockerEngine, capsys: Captured) -> None:
    assert main(["doctor", "--image", demo_image(engine), "--runtime", "docker", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["ok"]
    assert "python urllib" in [each["stack"] for each in said["stacks"]]
    assert all(each["trusts"] and each["injected"] for each in said["stacks"])


@pytest.mark.usefixtures("namespaces", "folder")
def test_one_that_does_not_trust_is_shown_with_what_to_do(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow(monkeypatch, (Stack("blind", "echo 7.1", "echo why >&2; exit 1", "look at its settings"),))
    assert main(["doctor", "--image", "host"]) == 1
    assert capsys.readouterr().out.splitlines()[1:] == [
        "blind  7.1      no      no",
        "blind: look at its settings",
        "  its output: why",
    ]


@pytest.mark.usefixtures("namespaces", "folder")
def test_an_image_with_nothing_in_it_is_not_well(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow(monkeypatch, ())
    assert main(["doctor", "--image", "host"]) == 1
    assert "no HTTPS client" in capsys.readouterr().out


@pytest.mark.usefixtures("namespaces", "folder")
def test_what_is_not_there_is_named(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = tuple(Stack(name, "nonesuch --version", "true", "none") for name in ("one", "the other"))
    narrow(monkeypatch, (STACKS[0], *absent))
    assert main(["doctor", "--image", "host"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "not in the image: one, the other"


@pytest.mark.usefixtures("folder")
def test_a_kind_is_for_an_image_alone(capsys: Captured) -> None:
    assert main(["doctor", "--runtime", "docker"]) == 2
    assert "--image" in capsys.readouterr().err


@pytest.mark.usefixtures("namespaces", "folder")
def test_an_image_that_is_none_is_told(capsys: Captured) -> None:
    assert main(["doctor", "--image", "/nonexistent"]) != 0
    assert capsys.readouterr().err.startswith("error: ")
