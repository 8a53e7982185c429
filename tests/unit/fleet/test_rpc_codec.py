"""What one side of a fleet's socket writes, the other reads as the same value."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.fleet import rpc_codec
from egress.fleet.errors import FleetProtocolError
from egress.fleet.json_fields import JsonFields, read
from egress.fleet.lifetime import SandboxLifetime
from egress.fleet.protocol import FleetInfo, Preview, SandboxStatus
from egress.runtime.errors import SpecError
from egress.runtime.spec import Command, Event, ExecResult, Info, Mount, SandboxLimits, Spec, Terminal

SPEC = Spec(
    name="one",
    image="image:1",
    profile="small",
    user=7,
    group=8,
    workdir="/work",
    env={"A": "1"},
    mounts=(Mount(source=Path("/srv/data"), target="/data", writable=True),),
    limits=SandboxLimits(memory_mib=64, cpus=0.5, processes=10, temporary_mib=5, disk_mib=6),
    read_only=True,
    ports=(8443,),
    labels={"team": "a"},
)
INFO = Info(
    name="one",
    image="image:1",
    state="stopped",
    profile="small",
    labels={"team": "a"},
    created=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    exit_code=137,
)
TERMS = SandboxLifetime(timeout=5, idle_timeout=2.5, owner="me")


def over(written: rpc_codec.Json) -> JsonFields:
    return JsonFields(json.loads(json.dumps(written)))


def test_specifications_come_over_whole() -> None:
    assert read(Spec, over(rpc_codec.write(SPEC))) == SPEC
    plain = Spec(name="two", image="any")
    assert read(Spec, over(rpc_codec.write(plain))) == plain


def test_no_field_of_a_specification_is_forgotten() -> None:
    """A field that is added to it has to be added here, or it would be dropped in silence."""
    assert set(rpc_codec.write(SPEC)) == set(Spec.__dataclass_fields__)
    limits = rpc_codec.write(SPEC)["limits"]
    assert isinstance(limits, dict)
    assert set(limits) == set(SandboxLimits.__dataclass_fields__)
    assert set(rpc_codec.write(TERMS)) == set(SandboxLifetime.__dataclass_fields__)
    assert set(rpc_codec.write(INFO)) == set(Info.__dataclass_fields__)
    aside = {"input", "most_output"}
    command = Command(argv=("true",))
    assert set(rpc_codec.write_command(command)) == set(Command.__dataclass_fields__) - aside


def test_what_cannot_be_is_refused_as_where_it_is_made() -> None:
    written = rpc_codec.write(SPEC)
    with pytest.raises(SpecError):
        read(Spec, over({**written, "name": "../etc"}))
    with pytest.raises(FleetProtocolError):
        read(Spec, over({**written, "more": 1}))
    with pytest.raises(SpecError):
        read(SandboxLifetime, over({**rpc_codec.write(TERMS), "timeout": -1}))


@given(
    argv=st.lists(st.text(st.characters(exclude_characters="\0"), min_size=1), min_size=1, max_size=4),
    timeout=st.none() | st.floats(0.001, 1000),
    value=st.text(st.characters(exclude_characters="\0")),
)
def test_commands_come_over_whole(argv: list[str], timeout: float | None, value: str) -> None:
    command = Command(argv=tuple(argv), cwd="/x", env={"A": value}, timeout=timeout, grace=1)
    found = rpc_codec.read_command(over(rpc_codec.write_command(command)), command.most_output)
    assert found == command


def test_a_terminal_comes_over() -> None:
    command = Command(argv=("sh",), terminal=Terminal(columns=100, rows=30))
    assert rpc_codec.read_command(over(rpc_codec.write_command(command)), 5).terminal == command.terminal


def test_results_come_over_with_the_output_that_went_before() -> None:
    result = ExecResult(
        exit_code=3, stdout_bytes=b"o", stderr_bytes=b"e", duration=1.5, timed_out=True, truncated=True
    )
    assert rpc_codec.read_result(over(rpc_codec.write_result(result)), b"o", b"e", truncated=True) == result


def test_what_there_is_comes_over() -> None:
    assert read(Info, over(rpc_codec.write(INFO))) == INFO
    young = Info(name="two", image="any", state="created")
    assert read(Info, over(rpc_codec.write(young))) == young
    standing = SandboxStatus(info=INFO, terms=TERMS, left=1.5, idle=2.0)
    assert read(SandboxStatus, over(rpc_codec.write(standing))) == standing
    preview = Preview("one", 80, "http://80-one.localhost:1/?token=x")
    assert read(Preview, over(rpc_codec.write(preview))) == preview
    about = FleetInfo(
        kind="docker", why="it answers", cautions=("a",), audit=Path("/a"), runtime_dir=Path("/b")
    )
    assert read(FleetInfo, over(rpc_codec.write(about))) == about
    assert read(Event, over(rpc_codec.write(Event("died", "one")))) == Event("died", "one")


@pytest.mark.parametrize(
    "wrong", [{"state": "gone"}, {"created": "yesterday"}, {"exit_code": "1"}, {"labels": {"a": 1}}]
)
def test_what_no_fleet_says_is_refused(wrong: rpc_codec.Json) -> None:
    with pytest.raises(FleetProtocolError):
        read(Info, over({**rpc_codec.write(INFO), **wrong}))
    with pytest.raises(FleetProtocolError):
        read(Event, over({"kind": "exploded", "sandbox": "one"}))
