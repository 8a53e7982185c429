"""Values go over the API and come back equal."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from egress.api.schema import FleetView, Problem, SandboxEventView, SandboxSettings, SandboxView, StartMessage
from egress.errors import UsageError
from egress.fleet.api_values import (
    command_from,
    error_of,
    event_of,
    exec_settings,
    fleet_info,
    fleet_view,
    lifetime_from,
    problem_of,
    sandbox_view,
    settings_of,
    spec_from,
    start_message,
    status_of,
)
from egress.fleet.errors import FleetFaultError, SandboxDiffersError
from egress.fleet.lifetime import SandboxLifetime
from egress.fleet.protocol import FleetInfo, SandboxStatus
from egress.runtime.errors import SpecError
from egress.runtime.spec import Command, Event, Info, Mount, RunRights, SandboxLimits, Spec, Terminal

FULL = Spec(
    name="one",
    image="any:1",
    profile="p",
    parameters={"repo": "acme/site"},
    user=5,
    group=6,
    workdir="/work",
    env={"A": "b"},
    mounts=(Mount(source=Path("/srv"), target="/srv", writable=True),),
    limits=SandboxLimits(memory_mib=64, cpus=0.5, disk_mib=9),
    read_only=True,
    ports=(8443,),
    labels={"a": "b"},
)
TERMS = SandboxLifetime(timeout=5, idle_timeout=6, on_idle="sleep", snapshot="s", owner="me")


def over[T: msgspec.Struct](value: T) -> T:
    """The value as the other side reads it."""
    return msgspec.json.decode(msgspec.json.encode(value), type=type(value))


def test_a_sandbox_is_made_with_the_settings_that_were_sent() -> None:
    settings = over(settings_of(FULL, TERMS, start=False))
    other = Spec(name="other", image="other")
    assert spec_from("one", settings, other) == FULL
    assert lifetime_from(settings) == TERMS


def test_settings_that_are_left_out_are_those_of_the_server() -> None:
    defaults = replace(
        FULL, mounts=(), limits=SandboxLimits(), read_only=False, ports=(), parameters={}, env={}, labels={}
    )
    assert spec_from("one", SandboxSettings(), defaults) == defaults
    with pytest.raises(SpecError):
        spec_from("No Name", SandboxSettings(), defaults)


def test_a_status_comes_back_equal() -> None:
    info = Info(
        name="one", image="any", state="paused", created=datetime(2026, 1, 2, tzinfo=UTC), exit_code=3
    )
    status = SandboxStatus(info=info, terms=TERMS, left=4.5, idle=0.25)
    view: SandboxView = over(sandbox_view(status))
    assert status_of(view) == status


def test_facts_of_a_fleet_come_back_equal() -> None:
    about = FleetInfo(kind="docker", why="w", cautions=("c",), audit=Path("/a"), engine=Path("/e"), image="i")
    view: FleetView = over(fleet_view(about))
    assert fleet_info(view) == about


def test_a_command_comes_back_without_its_input() -> None:
    rights = RunRights(profile="wide", parameters={"repo": "acme/site"}, by="me", is_delegated=True)
    command = Command(argv=("a", "b"), cwd="/", env={"A": "b"}, timeout=5, grace=1, rights=rights)
    settings = exec_settings(command)
    assert settings is not None
    assert (settings.profile, settings.params) == ("wide", {"repo": "acme/site"})
    message: StartMessage = over(start_message(command, has_input=True, is_detached=True))
    # The server says whose rights they are, and whether the rules have to delegate them.
    assert (message.profile, message.params) == ("wide", {"repo": "acme/site"})
    assert command_from(message, 10) == replace(command, most_output=10, rights=None)
    assert message.detached
    closed = over(start_message(command, has_input=False, is_detached=False))
    assert command_from(closed, 10).input == b""
    shown = Command(argv=("a",), terminal=Terminal(columns=9, rows=8))
    assert (
        command_from(over(start_message(shown, has_input=False, is_detached=False)), 1).terminal
        == shown.terminal
    )


def test_an_error_comes_back_as_its_class_with_its_text() -> None:
    for error in (SandboxDiffersError("m", "h"), UsageError("m", "h"), FleetFaultError("m")):
        back = error_of(over(problem_of(error)))
        assert (type(back), back.message, back.hint) == (type(error), error.message, error.hint)


def test_an_unexpected_error_loses_its_text_and_an_unknown_code_is_a_fault() -> None:
    told = problem_of(RuntimeError("hush-hush"))
    assert "hush" not in told.message + told.hint
    assert isinstance(error_of(Problem(type="of.a.later.version", message="m")), FleetFaultError)


def test_an_event_comes_back() -> None:
    assert event_of(over(SandboxEventView(kind="died", sandbox="one"))) == Event("died", "one")
