"""Tests of `egress net-lock`, as far as it refuses before it sets anything; tests/netlock lets it lock."""

from __future__ import annotations

import os

import pytest

from egress.cli.main import main


def test_outside_of_a_pod_it_locks_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr("egress.netlock.lock.lock_network", lambda _: pytest.fail("the machine is cut off"))
    assert main(["net-lock"]) == 2
    assert "this is no pod of a cluster" in capsys.readouterr().err


def test_it_does_not_run_as_the_user_of_the_proxy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setattr(os, "geteuid", lambda: 10001)
    assert main(["net-lock"]) == 2
    assert "could prove nothing" in capsys.readouterr().err


@pytest.mark.parametrize("user", ["0", "-1", "root"])
def test_the_proxy_is_never_root(user: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["net-lock", f"--proxy-user={user}"]) == 2
    assert "--proxy-user" in capsys.readouterr().err
