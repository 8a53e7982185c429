"""What a session promises, here and over the API, and what its settings, ids and lines may be."""

from __future__ import annotations

import inspect
import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from egress.fleet.remote_sessions import RemoteSessionCommand, RemoteSessions
from egress.fleet.session_interface import (
    SessionCommand,
    SessionTracker,
    ShellSettings,
    check_line,
    check_session_id,
)
from egress.fleet.session_table import SessionTable, TableCommand
from egress.runtime.errors import SpecError


@pytest.mark.parametrize(
    ("promise", "kind"),
    [
        (SessionTracker, SessionTable),
        (SessionTracker, RemoteSessions),
        (SessionCommand, TableCommand),
        (SessionCommand, RemoteSessionCommand),
    ],
    ids=str,
)
def test_both_can_do_all_of_it(promise: type, kind: type) -> None:
    for name in {name for name in dir(promise) if not name.startswith("_")}:
        promised, kept = getattr(promise, name), getattr(kind, name)
        assert inspect.signature(promised).parameters.keys() == inspect.signature(kept).parameters.keys(), (
            name
        )


@given(some.text(max_size=70))
def test_an_id_never_leads_elsewhere_in_a_path(text: str) -> None:
    with suppress(SpecError):
        check_session_id(text)
        assert re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]*", text)
        assert text != ".."
        assert len(text) <= 64


def test_settings_are_those_of_a_command() -> None:
    wrongs: list[dict[str, Any]] = [{"shell": 5}, {"shell": ""}, {"cwd": "relative"}, {"env": {"A": "\0"}}]
    for wrong in wrongs:
        with pytest.raises(SpecError):
            ShellSettings(**wrong)
    with pytest.raises(SpecError):
        check_line("a\0b")
    assert ShellSettings(cwd="/", env={"A": "1"}).given == {"cwd": "/", "env": {"A": "1"}}
