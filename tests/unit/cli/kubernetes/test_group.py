"""`egress k8s` lists its commands."""

from __future__ import annotations

import pytest

from egress.cli.main import main


def test_the_group_lists_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["k8s", "--help"]) == 0
    out = capsys.readouterr().out
    assert {"check", "inject"} <= set(out.split())
