"""`egress snapshot`: files are kept under a name, listed and deleted, and a run begins with them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.api_server.server import ApiServer
from egress.cli.main import main
from egress.fleet import Fleet, FleetInfo
from egress.fleet.snapshot_store import SnapshotStore
from egress.runtime.spec import Command, Spec
from tests.unit.sandbox.local_runtime import LocalRuntime

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A runtime folder; short, since a socket is in it."""
    with tempfile.TemporaryDirectory(prefix="egress-") as name:
        yield Path(name)


@pytest.fixture
def fleet(folder: Path, tmp_path: Path) -> Iterator[Fleet]:
    about = FleetInfo(kind="fake", why="for a test", image="any")
    fleet = Fleet(LocalRuntime(tmp_path / "boxes"), about=about, snapshots=SnapshotStore(tmp_path))
    service = ApiServer(fleet, folder)
    fleet.create(Spec(name="one", image="any"))
    fleet.start("one")
    fleet.exec("one", Command(argv=("/bin/sh", "-c", "echo kept > file"))).check()
    yield fleet
    service.close()
    fleet.close()


def said(folder: Path, capsys: Captured, verb: str, *words: str) -> str:
    assert main(["snapshot", verb, "--runtime-dir", str(folder), *words]) == 0
    return capsys.readouterr().out


@pytest.mark.usefixtures("fleet")
def test_files_are_kept_listed_and_deleted(folder: Path, capsys: Captured) -> None:
    assert said(folder, capsys, "list") == "no snapshots\n"
    assert said(folder, capsys, "create", "one", "first").startswith("kept first: ")
    head, row = (line.split() for line in said(folder, capsys, "list").splitlines())
    assert head == ["snapshot", "kind", "size", "made", "sandbox", "image"]
    assert (row[:2], row[-2:]) == (["first", "workspace"], ["one", "any"])
    [data] = json.loads(said(folder, capsys, "list", "--json"))
    assert (data["name"], data["saved_image"], len(data["digest"])) == ("first", None, 64)
    assert said(folder, capsys, "rm", "first") == "deleted first\n"
    assert said(folder, capsys, "list", "--json") == "[]\n"


@pytest.mark.usefixtures("fleet")
def test_a_run_begins_with_them(folder: Path, capfd: Captured) -> None:
    said(folder, capfd, "create", "one", "first")
    words = ["run", "-q", "--runtime-dir", str(folder), "--snapshot"]
    assert main([*words, "first", "cat", "file"]) == 0
    assert capfd.readouterr().out == "kept\n"
    assert main([*words, "second", "cat", "file"]) == 3
    assert "no snapshot is named second" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "status", "cause"),
    [
        (["create", "one", "A"], 2, "not a valid name for a snapshot"),
        (["create", "two", "first"], 3, "two"),
        (["create", "--kind", "image", "one", "first"], 3, "only containers"),
        (["rm", "first"], 3, "no snapshot is named first"),
    ],
)
@pytest.mark.usefixtures("fleet")
def test_what_is_wrong_is_said(
    folder: Path, capsys: Captured, words: list[str], status: int, cause: str
) -> None:
    assert main(["snapshot", words[0], "--runtime-dir", str(folder), *words[1:]]) == status
    assert cause in capsys.readouterr().err


def test_a_wrong_name_is_that_of_an_option(capsys: Captured) -> None:
    assert main(["run", "--snapshot", "../x", "--", "true"]) == 2
    assert "--snapshot is not a valid name" in capsys.readouterr().err
