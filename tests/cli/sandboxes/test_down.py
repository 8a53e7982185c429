"""`egress down`: all is gone when it returns."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from egress.api_server.server import ApiServer
from egress.cli.main import main
from egress.fleet import Fleet, FleetInfo
from egress.runtime.fake import FakeRuntime
from egress.runtime.spec import Spec

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize(("count", "told"), [(0, "0 sandboxes"), (1, "1 sandbox"), (2, "2 sandboxes")])
def test_it_returns_when_nothing_is_served_any_more(
    count: int, told: str, folder: Path, capsys: Captured
) -> None:
    fleet = Fleet(FakeRuntime(), about=FleetInfo(kind="fake"))
    for number in range(count):
        fleet.create(Spec(name=f"box{number}", image="any"))
    ended = threading.Event()
    service = ApiServer(fleet, folder, ended.set)

    def end() -> None:
        ended.wait()
        service.close()
        fleet.close()

    thread = threading.Thread(target=end)
    thread.start()
    assert main(["down", "--runtime-dir", str(folder)]) == 0
    thread.join()
    assert capsys.readouterr().out == f"stopped; {told} removed\n"


def test_where_nothing_is_served_it_is_said(folder: Path, capsys: Captured) -> None:
    assert main(["down", "--runtime-dir", str(folder)]) == 3
    assert "`egress up` is not running" in capsys.readouterr().err
