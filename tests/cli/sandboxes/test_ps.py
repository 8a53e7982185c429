"""`egress ps`: what is there, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from egress.cli.main import main
from egress.fleet import Fleet, FleetInfo, SandboxLifetime
from egress.runtime.fake import FakeRuntime
from egress.runtime.spec import Spec
from tests.cli.sandboxes.conftest import serving
from tests.cli.sandboxes.fake_control import answering

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


def test_a_sandbox_of_egress_up_that_is_revoked_says_so(folder: Path, capsys: Captured) -> None:
    """Its runtime knows nothing of that: the proxy is asked."""
    place = folder / "embedded/0a1b2c3d"
    place.mkdir(parents=True)
    about = FleetInfo(kind="fake", why="for a test", runtime_dir=place)
    status = {"run": "0a1b2c3d", "killed": {"sandbox": ["one"]}, "sandboxes": [{"name": "one"}]}
    with serving(FakeRuntime(), folder, about) as fleet, answering(place, status):
        for name in ("one", "two"):
            fleet.create(Spec(name=name, image="any"))
            fleet.start(name)
        assert main(["ps", "--runtime-dir", str(folder)]) == 0
        _, one, two = (line.split() for line in capsys.readouterr().out.splitlines())
        assert (one[:3], two[:2]) == (["one", "running,", "revoked"], ["two", "running"])
        assert main(["ps", "--json", "--runtime-dir", str(folder)]) == 0
        assert [each["revoked"] for each in json.loads(capsys.readouterr().out)] == [True, False]


@pytest.mark.usefixtures("box")
def test_a_program_gets_all_of_it_but_for_tokens(fleet: Fleet, folder: Path, capsys: Captured) -> None:
    url = fleet.expose("one", 8080).url
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
