"""The audit log under every small change and every kill: a change is found, a kill is told, once."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.audit import Durations, ExchangeFacts, Intent, Sink, Ticket, Verification, checkpoint
from egress.audit.chain import Keys
from egress.audit.lines import not_negative
from egress.proxy.lanes.relay_services import UpstreamRoute, durations, microseconds_between
from egress.relay.ports import ExchangeTiming
from egress.types import Identity
from tests.unit.audit.sample import (
    DENIED,
    FACTS,
    KEY,
    NAME,
    OPENING,
    RECORD,
    TUNNEL,
    WAY,
    Clock,
    Moment,
    abandon,
    check,
    files,
    kinds,
    moment,
    moments,
    opened,
    read,
    sound,
)
from tests.unit.audit.tampering import KINDS, Change, changeable, is_found, is_in_window

STEPS = st.lists(
    st.sampled_from(["exchange", "denied", "refusal", "tunnel", "event", "begin", "flush"]),
    min_size=1,
    max_size=12,
)
ANY_TEXT = st.text(st.characters(max_codepoint=0xFF), max_size=60) | st.text(max_size=30)


@contextmanager
def folder() -> Iterator[Path]:
    """Hypothesis runs many examples in one test, each in a folder of its own."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name, "log")


@dataclass
class Play:
    """Does the steps, and knows which requests have begun."""

    sink: Sink
    begun: list[str]

    def ticket(self) -> Ticket:
        request = f"r-{len(self.begun)}"
        self.begun.append(request)
        ticket = self.sink.begin(replace(OPENING, request=request))
        self.sink.sent(ticket)
        return ticket

    def do(self, step: str) -> None:
        match step:
            case "exchange":
                ticket = self.ticket()
                self.sink.exchange(ticket, RECORD, replace(FACTS, request=self.begun[-1]))
            case "tunnel":
                ticket = self.ticket()
                self.sink.tunnel(ticket, replace(TUNNEL, request=self.begun[-1]))
            case "denied":
                self.sink.exchange(None, DENIED, FACTS)
            case "refusal":
                self.sink.refusal(NAME)
            case "event":
                self.sink.event("reloaded", policy="5f2b8c0d")
            case "begin":
                self.ticket()
            case _:
                self.sink.flush()


def play(directory: Path, steps: list[str], *, rotate_at: int = 1 << 26) -> Play:
    """Do the steps on a log that is left open."""
    doing = Play(opened(directory, in_flight=64, rotate_at=rotate_at), [])
    for step in steps:
        doing.do(step)
    return doing


def written(directory: Path, steps: list[str], *, rotate_at: int = 1 << 26) -> None:
    doing = play(directory, steps, rotate_at=rotate_at)
    doing.sink.event("stopped", reason="asked")
    doing.sink.close()


def recorded(directory: Path) -> Counter[object]:
    """How often each request that had a ticket is in the log."""
    ticketed = (line for line in read(directory) if line["event"] in ("exchange", "tunnel", "lost"))
    return Counter(line["request"] for line in ticketed if line.get("verdict") != "deny")


# Changes ----------------------------------------------------------------------------------------


CHANGES = st.builds(Change, st.sampled_from(KINDS), st.floats(0, 1), st.integers(1, 255))


def changed(log: Path, change: Change, data: st.DataObject) -> tuple[Path, bytes, bytes] | None:
    """Do one thing to one file; returns the file, and what was and is in it. None when nothing changed."""
    file = data.draw(st.sampled_from(changeable(log)))
    before = file.read_bytes()
    after = change.apply(before) if before else bytes([change.byte])
    if after == before:
        return None
    file.write_bytes(after)
    return file, before, after


@given(STEPS, CHANGES, st.data())
def test_one_change_of_any_file_is_found(steps: list[str], change: Change, data: st.DataObject) -> None:
    with folder() as log:
        written(log, [*steps, "flush", *steps], rotate_at=1500)
        sound(log)
        if done := changed(log, change, data):
            assert not check(log).is_sound, (done[0].name, change)


@given(STEPS, st.data())
def test_one_missing_file_is_found(steps: list[str], data: st.DataObject) -> None:
    with folder() as log:
        written(log, ["event", "flush", *steps, "flush", *steps], rotate_at=300)
        names = [path for path in sorted(log.iterdir()) if path.name != "in-flight"]
        file = data.draw(st.sampled_from(names))
        file.unlink()
        assert not check(log).is_sound, file.name


@given(STEPS, st.data())
def test_a_change_while_the_proxy_was_down_is_told_for_ever(steps: list[str], data: st.DataObject) -> None:
    """The next start goes on, says what it found, and what it wrote is part of the chain."""
    with folder() as log:
        written(log, steps)
        file = files(log)[0]
        before = file.read_bytes()
        cut = data.draw(st.integers(0, len(before) - 1))
        file.write_bytes(before[:cut])
        written(log, ["refusal"])
        assert "gap" in [fault.kind for fault in check(log).faults]
        assert kinds(log)[-2:] == ["refusal", "stopped"]
        assert kinds(log).count("gap") == 1


# Kills ------------------------------------------------------------------------------------------


def restarted(log: Path, begun: list[str]) -> Verification:
    """Start after a kill: the chain is whole, and every request is in it exactly once."""
    opened(log, in_flight=64).close()
    verified = sound(log)
    assert recorded(log) == Counter(begun)
    gaps = [line for line in read(log) if line["event"] == "gap"]
    assert {gap["kind"] for gap in gaps} <= {"killed"}
    numbers = [int(str(line["seq"])) for line in read(log)]
    assert numbers == sorted(set(numbers))
    return verified


def test_a_kill_at_every_byte_of_a_write(tmp_path: Path) -> None:
    log = tmp_path / "log"
    doing = play(log, ["event", "flush", "begin", "exchange", "refusal"])
    found = moments(log, doing.sink.flush)
    abandon(doing.sink)
    assert len(found) > 1000
    other = tmp_path / "other"
    for left in found:
        left.put(other)
        restarted(other, doing.begun)


@given(STEPS, st.data())
def test_a_kill_and_a_kill_of_the_start_after_it(steps: list[str], data: st.DataObject) -> None:
    """Wherever the second kill hits the start that reports the first, nothing is told twice or not at all."""
    with folder() as log:
        doing = play(log, steps, rotate_at=1500)
        found = moments(log, doing.sink.flush, every=97)
        abandon(doing.sink)
        data.draw(st.sampled_from(found)).put(log)
        again: list[Moment] = []
        sinks: list[Sink] = []
        again += moments(log, lambda: sinks.append(opened(log, in_flight=64)), every=53)
        abandon(sinks[0])
        data.draw(st.sampled_from(again)).put(log)
        restarted(log, doing.begun)


@given(STEPS, st.integers(0, 400))
def test_before_the_next_start_a_killed_log_is_sound_and_says_it_is_unfinished(
    steps: list[str], at: int
) -> None:
    with folder() as log:
        doing = play(log, [*steps, "refusal"])
        found = moments(log, doing.sink.flush, every=31)
        abandon(doing.sink)
        found[at % len(found)].put(log)
        verified = sound(log)
        assert verified.unfinished >= 0
        assert verified.unfinished == 0 or at % len(found)


@given(STEPS, st.data())
def test_a_tail_that_is_cut_after_a_kill_is_no_kill(steps: list[str], data: st.DataObject) -> None:
    """What was confirmed before the kill must be there: the window of one write is all a kill explains."""
    with folder() as log:
        doing = play(log, ["event", *steps, "flush"])
        confirmed = files(log)[0].stat().st_size
        doing.do("refusal")
        found = moments(log, doing.sink.flush, every=53)
        abandon(doing.sink)
        data.draw(st.sampled_from(found)).put(log)
        file = files(log)[0]
        cut = data.draw(st.integers(0, confirmed - 1))
        file.write_bytes(file.read_bytes()[:cut])
        assert not check(log).is_sound
        opened(log).close()
        assert not check(log).is_sound


def killed(log: Path, steps: list[str], data: st.DataObject) -> None:
    """A log of several files, as a kill leaves it at any step of a write that may begin another file."""
    doing = play(log, ["event", *steps, "flush", *steps, "refusal"], rotate_at=900)
    found = moments(log, doing.sink.flush, every=97)
    abandon(doing.sink)
    data.draw(st.sampled_from(found)).put(log)
    sound(log)


@given(STEPS, CHANGES, st.data())
def test_one_change_after_a_kill_is_found_but_in_the_window_of_the_last_write(
    steps: list[str], change: Change, data: st.DataObject
) -> None:
    """In the window a line can be lost, as a kill loses it; none can be made up, and the next start tells."""
    with folder() as log:
        killed(log, steps, data)
        macs = {str(line["mac"]) for line in read(log)}
        done = changed(log, change, data)
        if done is None:
            return
        if is_found(log):
            return
        assert is_in_window(log, *done), (done[0].name, change)
        verified = sound(log)
        assert verified.unfinished
        assert verified.mac in macs
        opened(log, in_flight=64).close()
        assert "gap" in kinds(log)


@given(STEPS, CHANGES, st.data())
def test_one_change_after_a_kill_and_a_start_is_found(
    steps: list[str], change: Change, data: st.DataObject
) -> None:
    """The start closes the window: what the kill left, the beginning of a line too, is accounted for."""
    with folder() as log:
        killed(log, steps, data)
        opened(log, in_flight=64).close()
        sound(log)
        if done := changed(log, change, data):
            assert is_found(log), (done[0].name, change)


@given(STEPS, st.data())
def test_no_line_can_be_cut_after_a_start_that_wrote_nothing(steps: list[str], data: st.DataObject) -> None:
    """Also where the kill came between the lines and the head, and the next start had nothing to say."""
    with folder() as log:
        # Without open tickets and loose refusals a start has nothing to report.
        doing = play(log, ["event", "flush", *(step for step in steps if step in ("exchange", "tunnel"))])
        doing.do("exchange")
        # The last moments: all lines are there, and the head may not say so yet.
        found = moments(log, doing.sink.flush, every=1 << 20)
        abandon(doing.sink)
        data.draw(st.sampled_from(found)).put(log)
        for _ in range(data.draw(st.integers(1, 2))):
            opened(log, in_flight=64).close()
        file = files(log)[-1]
        size = file.stat().st_size
        sound(log)
        known = checkpoint.decode((log / checkpoint.FILE_NAME).read_bytes(), Keys.of(KEY).head)
        assert known is not None
        assert known.written == known.intended
        os.truncate(file, data.draw(st.integers(0, size - 1)))
        assert not check(log).is_sound
        opened(log, in_flight=64).close()
        assert not check(log).is_sound, "and it stays found"


# Lines ------------------------------------------------------------------------------------------


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT, st.integers(0, 2**63))
def test_a_line_is_plain_json_whatever_the_sandbox_sends(
    path: str, method: str, host: str, number: int
) -> None:
    with folder() as log:
        sink = opened(log)
        ticket = sink.begin(Intent(path, host, "agent-1", host, 443, method, (path,)))
        facts = ExchangeFacts(replace(WAY, sni=host), path, FACTS.durations)
        record = replace(
            RECORD, path=path, method=method, bytes_up=number, identity=Identity("agent-1", host)
        )
        sink.exchange(ticket, record, facts)
        sink.refusal(replace(NAME, host=host, sni=path))
        sink.begin(Intent(path, host, "agent-1", host, 443, method, (path,) * 20))
        sink.flush()
        abandon(sink)
        opened(log).close()
        sound(log)
        raw = files(log)[0].read_bytes()
        lines = raw.split(b"\n")
        assert lines.pop() == b""
        assert all(0x20 <= byte < 0x7F for line in lines for byte in line)
        first = json.loads(lines[0])
        assert (first["path"], first["method"], first["bytes_up"]) == (path, method, number)
        assert [json.loads(line)["event"] for line in lines] == ["exchange", "refusal", "lost"]


@given(st.lists(st.integers(-(10**18), 10**19), min_size=2, max_size=10))
def test_the_sequence_grows_whatever_the_clock_does(jumps: list[int]) -> None:
    with folder() as log:
        clock = Clock()
        sink = opened(log, clock)
        for jump in jumps:
            clock.ns = max(jump, 0)
            sink.refusal(NAME)
        sink.close()
        assert [line["seq"] for line in read(log)] == list(range(1, len(jumps) + 1))
        sound(log)


@pytest.mark.parametrize("rotate_at", [1, 400, 1 << 20])
def test_rotation_changes_no_line(rotate_at: int, tmp_path: Path) -> None:
    written(tmp_path / "log", ["exchange", "flush", "refusal", "flush", "tunnel"], rotate_at=rotate_at)
    sound(tmp_path / "log")
    told = [line["event"] for line in read(tmp_path / "log") if line["event"] != "rotated"]
    assert told == ["exchange", "refusal", "tunnel", "stopped"]
    assert moment(tmp_path / "log").files.keys() >= {"head", "audit-000001.jsonl"}


# Numbers ----------------------------------------------------------------------------------------


MOMENTS = st.just(0.0) | st.floats(0, 1e9)
TIMINGS = st.builds(ExchangeTiming, *(MOMENTS,) * 7, wire=st.sampled_from([-1, 1]))
MICROSECONDS = st.integers(-(2**61), 2**61)
DURATIONS = st.builds(Durations, *(MICROSECONDS,) * 6)


def negative(value: object) -> list[object]:
    """Every negative number in a line, however deep."""
    if isinstance(value, dict | list):
        return [
            bad for item in (value.values() if isinstance(value, dict) else value) for bad in negative(item)
        ]
    return [value] if isinstance(value, int | float) and value < 0 else []


@given(st.lists(TIMINGS | DURATIONS, min_size=1, max_size=6))
def test_no_line_holds_a_negative_number(given_times: list[ExchangeTiming | Durations]) -> None:
    """Whatever stages were reached, and whatever the clock did."""
    with folder() as log:
        sink = opened(log)
        for each in given_times:
            took = each if isinstance(each, Durations) else durations(each, UpstreamRoute())
            assert isinstance(each, Durations) or took == not_negative(took), "already where it is made"
            sink.exchange(sink.begin(OPENING), RECORD, replace(FACTS, durations=took))
            sink.tunnel(sink.begin(OPENING), replace(TUNNEL, durations=took))
        sink.close()
        sound(log)
        assert [bad for line in read(log) for bad in negative(line)] == []


@given(MOMENTS, MOMENTS)
def test_the_time_between_two_moments_is_never_negative(began: float, ended: float) -> None:
    took = microseconds_between(began, ended)
    assert took >= 0
    if 0 < began <= ended:
        assert took == int((ended - began) * 1_000_000)
