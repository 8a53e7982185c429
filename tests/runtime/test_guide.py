"""The program of the guide to sandboxes on Kubernetes, on the other runtime that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.fleet import Fleet
from egress.sandbox.default_fleet import _NAMED_FLEETS, DefaultFleet
from tests.runtime.docker_lab import DockerLab

GUIDE = Path(__file__).parents[2] / "docs/guides/kubernetes-sandboxes.md"
PRINTED = "1\nremember\n['ready', 'hello'] 0\n"


def program() -> str:
    """The first program of the guide."""
    return GUIDE.read_text("utf-8").partition("```python\n")[2].partition("```")[0]


def test_the_program_of_the_guide_runs_on_docker(
    own_house: DockerLab, image: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = Fleet(own_house.runtime, tick=None)
    served = DefaultFleet(lambda: fleet)  # type: ignore[arg-type, return-value] # it is there already
    monkeypatch.setitem(_NAMED_FLEETS, "docker", served)
    monkeypatch.setattr(served, "_runtime", fleet)
    monkeypatch.setattr("sys.argv", ["program", "docker", image])
    exec(compile(program(), str(GUIDE), "exec"), {"__name__": "program"})
    assert capsys.readouterr().out == PRINTED
