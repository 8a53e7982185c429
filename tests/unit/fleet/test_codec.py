"""What one side of a fleet's socket writes, the other reads as the same value."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.fleet import codec
from egress.fleet.errors import FleetProtocolError
from egress.fleet.fields import Fields
from egress.fleet.protocol import About, Preview, Standing
from egress.fleet.terms import Terms
from egress.runtime.errors import SpecError
from egress.runtime.spec import Command, Event, ExecResult, Info, Limits, Mount, Spec, Terminal

SPEC = Spec(
    name="one",
    image="image:1",
    profile="small",
    user=7,
    group=8,
    workdir="/work",
    env={"A": "1"},
    mounts=(Mount(source=Path("/srv/data"), target="/data", writable=True),),
    limits=Limits(memory_mib=64, cpus=0.5, processes=10, temporary_mib=5, disk_mib=6),
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
TERMS = Terms(timeout=5, idle_timeout=2.5, owner="me")


def over(written: codec.Json) -> Fields:
    return Fields(json.loads(json.dumps(written)))


def test_specifications_come_over_whole() -> None:
    assert codec.read_spec(over(codec.write_spec(SPEC))) == SPEC
    plain = Spec(name="two", image="any")
    assert codec.read_spec(over(codec.write_spec(plain))) == plain


def test_no_field_of_a_specification_is_forgotten() -> None:
    """A field that is added to it has to be added here, or it would be dropped in silence."""
    assert set(codec.write_spec(SPEC)) == set(Spec.__dataclass_fields__)
    limits = codec.write_spec(SPEC)["limits"]
    assert isinstance(limits, dict)
    assert set(limits) == set(Limits.__dataclass_fields__)
    assert set(codec.write_terms(TERMS)) == set(Terms.__dataclass_fields__)
    assert set(codec.write_info(INFO)) == set(Info.__dataclass_fields__)
    aside = {"input", "most_output"}
    command = Command(argv=("true",))
    assert set(codec.write_command(command)) == set(Command.__dataclass_fields__) - aside


def test_what_cannot_be_is_refused_as_where_it_is_made() -> None:
    written = codec.write_spec(SPEC)
    with pytest.raises(SpecError):
        codec.read_spec(over({**written, "name": "../etc"}))
    with pytest.raises(FleetProtocolError):
        codec.read_spec(over({**written, "more": 1}))
    with pytest.raises(SpecError):
        codec.read_terms(over({**codec.write_terms(TERMS), "timeout": -1}))


@given(
    argv=st.lists(st.text(st.characters(exclude_characters="\0"), min_size=1), min_size=1, max_size=4),
    timeout=st.none() | st.floats(0.001, 1000),
    value=st.text(st.characters(exclude_characters="\0")),
)
def test_commands_come_over_whole(argv: list[str], timeout: float | None, value: str) -> None:
    command = Command(argv=tuple(argv), cwd="/x", env={"A": value}, timeout=timeout, grace=1)
    found = codec.read_command(over(codec.write_command(command)), command.most_output)
    assert found == command


def test_a_terminal_comes_over() -> None:
    command = Command(argv=("sh",), terminal=Terminal(columns=100, rows=30))
    assert codec.read_command(over(codec.write_command(command)), 5).terminal == command.terminal


def test_results_come_over_with_the_output_that_went_before() -> None:
    result = ExecResult(exit_code=3, stdout=b"o", stderr=b"e", duration=1.5, timed_out=True, truncated=True)
    assert codec.read_result(over(codec.write_result(result)), b"o", b"e", truncated=True) == result


def test_what_there_is_comes_over() -> None:
    assert codec.read_info(over(codec.write_info(INFO))) == INFO
    young = Info(name="two", image="any", state="created")
    assert codec.read_info(over(codec.write_info(young))) == young
    standing = Standing(info=INFO, terms=TERMS, left=1.5, idle=2.0)
    assert codec.read_standing(over(codec.write_standing(standing))) == standing
    preview = Preview("one", 80, "http://80-one.localhost:1/?token=x")
    assert codec.read_preview(over(codec.write_preview(preview))) == preview
    about = About(kind="docker", why="it answers", cautions=("a",), audit=Path("/a"), runtime_dir=Path("/b"))
    assert codec.read_about(over(codec.write_about(about))) == about
    assert codec.read_event(over(codec.write_event(Event("died", "one")))) == Event("died", "one")


@pytest.mark.parametrize(
    "wrong", [{"state": "gone"}, {"created": "yesterday"}, {"exit_code": "1"}, {"labels": {"a": 1}}]
)
def test_what_no_fleet_says_is_refused(wrong: codec.Json) -> None:
    with pytest.raises(FleetProtocolError):
        codec.read_info(over({**codec.write_info(INFO), **wrong}))
    with pytest.raises(FleetProtocolError):
        codec.read_event(over({"kind": "exploded", "sandbox": "one"}))
