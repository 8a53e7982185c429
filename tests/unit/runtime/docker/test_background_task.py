"""A call beside its caller: its failure comes out where its end is waited for."""

from __future__ import annotations

import pytest

from egress.runtime.docker.background_task import BackgroundTask


def broken() -> None:
    raise ZeroDivisionError


def test_what_goes_wrong_meanwhile_is_told_in_the_end() -> None:
    failing = BackgroundTask(broken)
    failing.join()
    with pytest.raises(ZeroDivisionError):
        failing.result()
    BackgroundTask(lambda: None).result()
