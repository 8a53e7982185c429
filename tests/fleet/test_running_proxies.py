"""The proxies that run: those of several runs at once, and of none that has ended or hangs."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from egress.cli.main import main
from egress.control_client import ask_proxy
from egress.fleet import open_fleet, opening, running_proxies
from egress.fleet.protocol import FleetInfo
from egress.fleet.running_proxies import proxy_folders
from egress.fleet.runtime_choice import RuntimeChoice, RuntimeParameters
from egress.runtime.fake import FakeRuntime
from egress.runtime.protocol import Runtime
from egress.runtime.spec import Spec
from tests.cli.command import put
from tests.fleet.memory_fleet import short_folder
from tests.fleet.test_opening import rules

__all__ = ["rules"]

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A runtime folder, with sandboxes in memory at real proxies."""

    def made(_: RuntimeChoice, place: RuntimeParameters) -> tuple[Runtime, FleetInfo]:
        return FakeRuntime(place.proxy, provision=place.provision), FleetInfo(kind="fake")

    monkeypatch.setattr(opening, "open_runtime", made)
    with short_folder() as folder:
        yield folder


@pytest.fixture
def runs(rules: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Two runs, `first` and `second`, each with a sandbox of its own, and one that both call `same`."""
    monkeypatch.setenv("EGRESS_RUNTIME_DIR", str(folder))
    with ExitStack() as parts:
        for name in ("first", "second"):
            monkeypatch.setenv("EGRESS_RUN_ID", name)
            fleet = parts.enter_context(open_fleet(rules=[rules], runtime="namespace", runtime_dir=folder))
            for sandbox in (f"of-{name}", "same"):
                fleet.create(Spec(name=sandbox, image="any"))
                fleet.start(sandbox)
        yield folder


def test_every_run_is_listed_with_its_sandboxes(runs: Path, capsys: Captured) -> None:
    found = {proxy.run: proxy for proxy in running_proxies.running_proxies(runs)}
    assert {name: sorted(proxy.sandboxes) for name, proxy in found.items()} == {
        "first": ["of-first", "same"],
        "second": ["of-second", "same"],
    }
    assert len({proxy.pid for proxy in found.values()}) == 2
    assert main(["ps"]) == 0
    head, *rows = (line.split() for line in capsys.readouterr().out.splitlines())
    assert head == ["sandbox", "state", "image", "profile", "made", "left", "run"]
    listed = {(row[0], row[-1]) for row in rows}
    assert listed == {("of-first", "first"), ("same", "first"), ("of-second", "second"), ("same", "second")}
    assert main(["ps", "--json", "--runtime-dir", str(runs)]) == 0
    assert {(each["name"], each["run"]) for each in json.loads(capsys.readouterr().out)} == listed


def killed(runs: Path) -> set[tuple[str, str]]:
    """The sandboxes that are revoked, with their runs."""
    found = set()
    for proxy in running_proxies.running_proxies(runs):
        _, answer = ask_proxy(proxy.folder, "GET", "/status")
        told = answer["killed"]
        assert isinstance(told, dict)
        found |= {(name, proxy.run) for names in told.values() for name in names}
    return found


def test_a_kill_reaches_every_run_that_knows_the_name(runs: Path, capsys: Captured) -> None:
    assert main(["kill", "of-second"]) == 0
    assert capsys.readouterr().out.startswith("revoked: the sandbox of-second, 0 connections closed\n")
    assert killed(runs) == {("of-second", "second")}
    assert main(["kill", "same"]) == 0
    assert capsys.readouterr().out.startswith("revoked: the sandbox same in 2 runs, 0 connections closed\n")
    assert main(["kill", "api.example.test"]) == 0
    assert killed(runs) >= {("api.example.test", "first"), ("api.example.test", "second")}
    assert main(["kill", "--undo", "api.example.test", "--json"]) == 0
    assert '"runs": 2' in capsys.readouterr().out
    assert main(["kill", "nothing"]) == 2
    said = capsys.readouterr().err
    assert "there is no sandbox, host or secret of this name" in said
    assert "hint: the sandboxes are: of-first, of-second, same; a host is written" in said
    assert main(["kill", "--secret", "nothing", "--run", "first"]) == 2
    assert capsys.readouterr().err.endswith("\nhint: the secrets are: none\n")
    # One that both have, in one of them.
    before = killed(runs)
    assert main(["kill", "--undo", "same", "--run", "first"]) == 0
    assert before - killed(runs) == {("same", "first")}
    assert main(["kill", "same", "--run", "third"]) == 2
    assert "no run third is running" in capsys.readouterr().err


def test_a_revoked_sandbox_is_listed_as_revoked(runs: Path, capsys: Captured) -> None:
    assert main(["kill", "of-second"]) == 0
    capsys.readouterr()
    assert main(["ps"]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines() if "running, revoked" in line]
    assert [row[0] for row in shown] == ["of-second"]
    assert main(["ps", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(each["name"], each["run"]) for each in listed if each["revoked"]] == [("of-second", "second")]


def test_folders_without_a_proxy_are_no_runs(folder: Path, capsys: Captured) -> None:
    assert proxy_folders(folder / "none") == []
    put(folder / "embedded/0a1b2c3d/proxy.log", "")
    assert proxy_folders(folder) == []
    assert main(["ps", "--runtime-dir", str(folder)]) == 3
    assert "`egress up` is not running" in capsys.readouterr().err


def test_one_that_hangs_holds_up_neither_a_list_nor_a_kill(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(running_proxies, "_ASK_TIMEOUT", 0.3)
    (runs / "embedded/hanging").mkdir()
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(runs / "embedded/hanging/control.sock"))
        silent.listen()
        assert {proxy.run for proxy in running_proxies.running_proxies(runs)} == {"first", "second"}
        monkeypatch.setattr("egress.control_client.ASK_TIMEOUT", 0.3)
        monkeypatch.setattr("egress.control_client.ask_proxy.__defaults__", (None, 0.3))
        assert main(["kill", "of-first"]) == 1
    said = capsys.readouterr()
    # What could be revoked is; that one proxy is not sure is an error all the same.
    assert said.out.startswith("revoked: the sandbox of-first")
    assert "did not answer" in said.err
