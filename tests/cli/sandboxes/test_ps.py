"""`egress ps`: what is there, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from egress.cli.main import main
from egress.fleet import Fleet, SandboxLifetime
from egress.runtime.spec import Spec

Captured = pytest.CaptureFixture[str]


@pytest.mark.usefixtures("fleet")
def test_no_sandboxes_are_said_to_be_none(folder: Path, capsys: Captured) -> None:
    assert main(["ps", "--runtime-dir", str(folder)]) == 0
    assert capsys.readouterr().out == "no sandboxes\n"


@pytest.mark.usefixtures("box")
def test_each_has_its_line(fleet: Fleet, folder: Path, capsys: Captured) -> None:
    fleet.create(Spec(name="two", image="other"), SandboxLifetime(timeout=7200))
    assert main(["ps", "--runtime-dir", str(folder)]) == 0
    head, one, two = (line.split() for line in capsys.readouterr().out.splitlines())
    assert head == ["sandbox", "state", "image", "profile", "made", "left"]
    assert one[:4] == ["one", "running", "any", "ci"]
    assert two[:3] == ["two", "created", "other"]
    assert two[-1] in ("2h", "120m")


@pytest.mark.usefixtures("box")
def test_a_program_gets_all_of_it_but_for_tokens(fleet: Fleet, folder: Path, capsys: Captured) -> None:
    url = fleet.expose("one", 8080)
    assert main(["ps", "--json", "--runtime-dir", str(folder)]) == 0
    out = capsys.readouterr().out
    assert json.loads(out)[0]["ports"] == [8080]
    assert url.partition("=")[2]
    assert url.partition("=")[2] not in out


def test_where_nothing_is_served_it_is_said_how_to_begin(folder: Path, capsys: Captured) -> None:
    assert main(["ps", "--runtime-dir", str(folder)]) == 3
    err = capsys.readouterr().err
    assert "`egress up` is not running" in err
    assert "egress up" in err
