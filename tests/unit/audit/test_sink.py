"""The sink: one line for everything, tickets, folding, quotas, and what the next start reports."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from egress.audit import AuditStoppedError, Sink, inflight
from egress.audit.flood_limit import MAX_SINGLE_REFUSALS
from egress.audit.reported_facts import AuditCounts
from egress.errors import UnreadableError
from egress.types import Identity, Verdict
from tests.unit.audit.sample import (
    DENIED,
    FACTS,
    KEY,
    NAME,
    OPENING,
    RECORD,
    TUNNEL,
    Clock,
    abandon,
    files,
    kinds,
    moments,
    opened,
    read,
    sound,
)

OTHER = Identity("agent-2")


def test_each_thing_is_one_line_in_the_order_it_was_told(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    sink.event("started", version="1")
    sink.exchange(sink.begin(OPENING), RECORD, FACTS)
    sink.exchange(None, DENIED, FACTS)
    sink.refusal(NAME)
    sink.tunnel(sink.begin(OPENING), TUNNEL)
    sink.event("stopped", reason="asked")
    sink.close()
    assert kinds(tmp_path) == ["started", "exchange", "exchange", "refusal", "tunnel", "stopped"]
    sound(tmp_path)


def test_the_folder_is_made_and_is_not_for_everybody(tmp_path: Path) -> None:
    opened(tmp_path / "a/b").close()
    assert (tmp_path / "a/b").stat().st_mode & 0o007 == 0
    assert all(path.stat().st_mode & 0o007 == 0 for path in (tmp_path / "a/b").glob("audit-*"))


def test_a_second_sink_is_refused(tmp_path: Path) -> None:
    first = opened(tmp_path)
    with pytest.raises(UnreadableError, match="another process writes to the audit log"):
        opened(tmp_path)
    first.close()
    opened(tmp_path).close()


def test_a_folder_that_cannot_be_used_says_why_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnreadableError, match="cannot be opened: ") as error:
        opened(tmp_path / "file")
    assert error.value.hint


def test_a_key_of_another_length_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        Sink.open(tmp_path, b"short", clock=Clock())


# Tickets ----------------------------------------------------------------------------------------


def test_an_exchange_is_recorded_once(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    ticket = sink.begin(OPENING)
    sink.exchange(ticket, RECORD, FACTS)
    with pytest.raises(ValueError, match="spent"):
        sink.exchange(ticket, RECORD, FACTS)
    with pytest.raises(ValueError, match="spent"):
        sink.tunnel(ticket, TUNNEL)
    sink.sent(ticket)
    sink.close()
    assert kinds(tmp_path) == ["exchange"]


def test_when_too_much_is_under_way_nothing_more_may_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inflight, "MAX_SLOTS", 2)
    sink = opened(tmp_path, in_flight=2)
    tickets = [sink.begin(OPENING), sink.begin(OPENING)]
    assert not sink.may_work("agent-1")
    with pytest.raises(AuditStoppedError):
        sink.begin(OPENING)
    sink.exchange(tickets[0], RECORD, FACTS)
    assert sink.may_work("agent-1"), "its line is written first, since that makes room"
    sink.exchange(tickets[1], RECORD, FACTS)
    sink.close()


def test_an_exchange_that_was_refused_and_had_a_ticket_is_never_folded(tmp_path: Path) -> None:
    sink = opened(tmp_path, in_flight=64)
    for _ in range(40):
        sink.exchange(sink.begin(OPENING), DENIED, FACTS)
    sink.close()
    assert kinds(tmp_path) == ["exchange"] * 40


# After a kill -----------------------------------------------------------------------------------


def test_what_was_under_way_is_lost_once(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    sink.sent(sink.begin(OPENING))
    sink.exchange(sink.begin(replace(OPENING, request="c-17-4")), RECORD, FACTS)
    sink.flush()
    abandon(sink)
    opened(tmp_path).close()
    opened(tmp_path).close()
    assert kinds(tmp_path) == ["exchange", "lost"]
    lost = read(tmp_path)[1]
    assert (lost["request"], lost["secrets"], lost["sent"]) == ("c-17-3", ["github"], True)
    assert lost["began"] == "2026-03-01T09:30:00.000123Z"


def test_an_exchange_that_ended_in_the_turn_of_the_kill_is_lost_too(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    sink.exchange(sink.begin(OPENING), RECORD, FACTS)
    abandon(sink)
    opened(tmp_path).close()
    assert kinds(tmp_path) == ["lost"]


def test_more_are_lost_than_one_write_holds(tmp_path: Path) -> None:
    sink = opened(tmp_path, in_flight=3000)
    for number in range(1500):
        sink.begin(replace(OPENING, request=f"r-{number}"))
    abandon(sink)
    opened(tmp_path).close()
    assert {line["request"] for line in read(tmp_path)} == {f"r-{n}" for n in range(1500)}
    assert len(read(tmp_path)) == 1500
    sound(tmp_path)


def test_a_second_kill_between_two_writes_of_the_report_changes_nothing(tmp_path: Path) -> None:
    """Numbers that the first process had given and not announced are given again by the second one."""
    log, copy = tmp_path / "log", tmp_path / "copy"
    sink = opened(log, in_flight=2000)
    tickets = [sink.begin(replace(OPENING, request=f"r-{number}")) for number in range(1000)]
    for ticket in tickets[600:]:
        sink.exchange(ticket, RECORD, FACTS)
    abandon(sink)
    sinks: list[Sink] = []
    steps = moments(log, lambda: sinks.append(opened(log)), every=10**6)
    abandon(sinks[0])
    assert len(steps) > 6
    for step in steps:
        opened(step.put(copy)).close()
        told = sorted(str(line["request"]) for line in read(copy) if "request" in line)
        assert told == sorted(f"r-{n}" for n in range(1000))
        sound(copy)


def test_refusals_of_the_turn_of_the_kill_are_counted(tmp_path: Path) -> None:
    """They have no slot: it is known how many there were."""
    sink = opened(tmp_path)
    for _ in range(MAX_SINGLE_REFUSALS + 7):
        sink.refusal(NAME)
    abandon(sink)
    opened(tmp_path).close()
    (gap,) = read(tmp_path)
    assert (gap["kind"], gap["refusals"], gap["first"], gap["fragment_bytes"]) == (
        "killed",
        MAX_SINGLE_REFUSALS + 7,
        None,
        0,
    )
    sound(tmp_path)


def test_refusals_that_were_being_folded_are_counted(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    for _ in range(MAX_SINGLE_REFUSALS + 7):
        sink.refusal(NAME)
    sink.flush()
    abandon(sink)
    opened(tmp_path).close()
    assert kinds(tmp_path) == ["refusal"] * MAX_SINGLE_REFUSALS + ["gap"]
    assert read(tmp_path)[-1]["refusals"] == 7


def test_no_refusal_is_forgotten_wherever_the_kill_hits(tmp_path: Path) -> None:
    """A line, or a number that the gap names, or its count: together at least as many as there were."""
    log, copy = tmp_path / "log", tmp_path / "copy"
    sink = opened(log)
    for _ in range(MAX_SINGLE_REFUSALS + 7):
        sink.refusal(NAME)
    found = moments(log, sink.flush, every=211)
    abandon(sink)
    for here in found:
        here.put(copy)
        opened(copy).close()
        lines = read(copy)
        told = kinds(copy).count("refusal")
        for gap in (line for line in lines if line["event"] == "gap"):
            told += int(str(gap["refusals"]))
            if gap["first"] is not None:
                told += int(str(gap["last"])) - int(str(gap["first"])) + 1
        assert told == MAX_SINGLE_REFUSALS + 7


def test_a_start_after_a_clean_end_has_nothing_to_say(tmp_path: Path) -> None:
    for _ in range(3):
        sink = opened(tmp_path)
        sink.refusal(NAME)
        sink.close()
    assert kinds(tmp_path) == ["refusal"] * 3


# Folding and quotas -----------------------------------------------------------------------------


def test_refusals_beyond_the_first_of_a_second_are_one_line(tmp_path: Path) -> None:
    clock = Clock()
    sink = opened(tmp_path, clock)
    for _ in range(1000):
        sink.refusal(NAME)
        sink.exchange(None, DENIED, FACTS)
    sink.refusal(replace(NAME, identity=OTHER))
    clock.seconds += 1
    sink.tick()
    sink.close()
    assert kinds(tmp_path) == (["refusal", "exchange"] * 10 + ["refusal", "folded", "folded"])
    folded = {line["code"]: line["count"] for line in read(tmp_path) if line["event"] == "folded"}
    assert folded == {"host.unknown": 990, "rule.none": 990}
    assert read(tmp_path)[-1]["began"] == "2026-03-01T09:30:00.000123Z"
    sound(tmp_path)


def test_allowed_exchanges_are_never_folded(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    for _ in range(100):
        sink.exchange(sink.begin(OPENING), RECORD, FACTS)
        sink.flush()
    sink.close()
    assert kinds(tmp_path) == ["exchange"] * 100


def test_what_was_stopped_is_counted_by_how_far_it_had_got(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    cut, denied = replace(RECORD, verdict=Verdict.CUT), replace(RECORD, verdict=Verdict.DENY)
    for record in (RECORD, cut, denied, cut):
        sink.exchange(sink.begin(OPENING), record, FACTS)
    for verdict in Verdict:
        sink.tunnel(sink.begin(OPENING), replace(TUNNEL, verdict=verdict))
    assert (sink.tally.exchanges, sink.tally.tunnels, sink.tally.refused, sink.tally.cut) == (4, 3, 2, 3)
    sink.close()
    verdicts = ["allow", "cut", "deny", "cut", "allow", "deny", "cut"]
    assert [line["verdict"] for line in read(tmp_path)] == verdicts


def test_requests_that_were_given_up_before_they_were_sent_are_folded_too(tmp_path: Path) -> None:
    """A sandbox can begin and leave without end: its lines must stay few."""
    sink = opened(tmp_path)
    for _ in range(MAX_SINGLE_REFUSALS + 30):
        sink.exchange(None, replace(RECORD, code="client.left", injected=()), FACTS)
    sink.close()
    assert kinds(tmp_path) == ["exchange"] * MAX_SINGLE_REFUSALS + ["folded"]


def test_what_is_being_folded_is_written_at_the_end(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    for _ in range(MAX_SINGLE_REFUSALS + 3):
        sink.refusal(NAME)
    sink.close()
    assert kinds(tmp_path)[-1] == "folded"
    opened(tmp_path).close()
    assert kinds(tmp_path)[-1] == "folded"


def test_a_sandbox_that_used_up_its_quota_is_stopped_for_the_day(tmp_path: Path) -> None:
    clock = Clock()
    sink = opened(tmp_path, clock, quota=1500)
    for _ in range(2):
        assert sink.may_work("agent-1")
        sink.exchange(sink.begin(OPENING), RECORD, FACTS)
    assert not sink.may_work("agent-1")
    assert sink.may_work("agent-2")
    with pytest.raises(AuditStoppedError):
        sink.begin(OPENING)
    clock.ns += 24 * 3600 * 10**9
    assert sink.may_work("agent-1")
    sink.close()
    assert kinds(tmp_path) == ["exchange", "exchange", "sandbox.stopped"]
    told = read(tmp_path)[-1]
    assert (told["sandbox"], told["reason"], told["quota"]) == ("agent-1", "quota", 1500)


def test_behind_its_quota_a_sandbox_writes_a_line_a_minute_for_each_code(tmp_path: Path) -> None:
    clock = Clock()
    sink = opened(tmp_path, clock, quota=300)
    sink.refusal(NAME)
    for _ in range(600):
        clock.seconds += 1
        sink.refusal(NAME)
        sink.tick()
    sink.close()
    folded = [line["count"] for line in read(tmp_path) if line["event"] == "folded"]
    assert len(folded) in (10, 11)
    assert sum(map(int, map(str, folded))) + kinds(tmp_path).count("refusal") == 601


# A full disk ------------------------------------------------------------------------------------


def broken(monkeypatch: pytest.MonkeyPatch, *, by: int = errno.EIO) -> None:
    """A disk that fails in a way that cannot be asked for."""

    def write(descriptor: int, data: bytes) -> int:
        raise OSError(by, "broken")

    monkeypatch.setattr("os.write", write)


def test_first_the_sandbox_whose_line_did_not_fit_is_stopped_then_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    sink = opened(tmp_path, clock)
    sink.exchange(sink.begin(OPENING), RECORD, FACTS)
    with monkeypatch.context() as patch:
        broken(patch)
        sink.flush()
        assert (sink.may_work("agent-1"), sink.may_work("agent-2")) == (False, True)
        clock.seconds += 1
        assert (sink.may_work("agent-1"), sink.may_work("agent-2")) == (False, False)
        with pytest.raises(AuditStoppedError):
            sink.begin(OPENING)
    clock.seconds += 1
    assert (sink.may_work("agent-1"), sink.may_work("agent-2")) == (True, True)
    sink.close()
    assert kinds(tmp_path) == ["exchange", "resumed"]
    assert (read(tmp_path)[-1]["stopped"], read(tmp_path)[-1]["reason"]) == ("all", "EIO")


def test_an_event_that_did_not_fit_stops_everybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = opened(tmp_path)
    sink.event("started")
    with monkeypatch.context() as patch:
        broken(patch)
        sink.flush()
    assert not sink.may_work("agent-2")
    sink.close()


def test_by_setting_lines_are_dropped_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    sink = opened(tmp_path, clock, drop=1)
    sink.exchange(sink.begin(OPENING), RECORD, FACTS)
    with monkeypatch.context() as patch:
        broken(patch, by=errno.ENOSPC)
        sink.flush()
        for _ in range(50):
            assert sink.may_work("agent-1")
            sink.exchange(sink.begin(OPENING), RECORD, FACTS)
    clock.seconds += 1
    sink.tick()
    sink.close()
    assert kinds(tmp_path) == ["exchange", "resumed", "dropped"]
    assert read(tmp_path)[-1]["count"] == 50
    sound(tmp_path)


def test_dropped_lines_are_told_by_the_next_start_when_there_was_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = opened(tmp_path, drop=1)
    sink.exchange(sink.begin(OPENING), RECORD, FACTS)
    with monkeypatch.context() as patch:
        broken(patch, by=errno.ENOSPC)
        sink.flush()
        for _ in range(50):
            sink.exchange(sink.begin(OPENING), RECORD, FACTS)
    abandon(sink)
    opened(tmp_path).close()
    assert kinds(tmp_path) == ["gap", "lost", "dropped"]
    assert read(tmp_path)[-1]["count"] == 50
    sound(tmp_path)


def test_while_the_disk_is_full_refusals_take_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    sink = opened(tmp_path, clock)
    sink.event("started")
    with monkeypatch.context() as patch:
        broken(patch)
        sink.flush()
        for _ in range(10_000):
            sink.refusal(NAME)
            clock.seconds += 0.5
            sink.tick()
        assert len(sink._writer._lines) == 1
        assert len(sink._folder._over) <= 1
    clock.seconds += 60
    sink.tick()
    clock.seconds += 60
    sink.tick()
    sink.close()
    assert sum(int(str(line["count"])) for line in read(tmp_path) if line["event"] == "folded") == 10_000


def test_what_waits_for_space_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("egress.audit.writer.MAX_WAITING_BYTES", 3000)
    clock = Clock()
    sink = opened(tmp_path, clock, in_flight=128)
    tickets = [sink.begin(OPENING) for _ in range(40)]
    with monkeypatch.context() as patch:
        broken(patch)
        for ticket in tickets:
            sink.exchange(ticket, RECORD, FACTS)
            sink.flush()
    clock.seconds += 1
    sink.tick()
    sink.close()
    assert kinds(tmp_path) == ["exchange"] * 4 + ["resumed", "dropped"]
    assert read(tmp_path)[-1]["count"] == 36


def test_a_new_file_that_cannot_be_made_leaves_the_old_one_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = opened(tmp_path, rotate_at=500)
    with monkeypatch.context() as patch:

        def refuse(directory: Path, number: int) -> int:
            raise OSError(errno.ENOSPC, "no inode")

        patch.setattr("egress.audit.files.open_to_append", refuse)
        sink.exchange(sink.begin(OPENING), RECORD, FACTS)
        sink.flush()
        sink.exchange(sink.begin(OPENING), RECORD, FACTS)
        sink.flush()
    sink.exchange(sink.begin(OPENING), RECORD, FACTS)
    sink.close()
    assert kinds(tmp_path) == ["exchange"] * 3 + ["rotated"]
    sound(tmp_path)


def test_the_key_is_shown_nowhere(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    sink.refusal(NAME)
    sink.close()
    for path in tmp_path.iterdir():
        data = path.read_bytes()
        assert KEY not in data
        assert KEY.hex().encode() not in data


# Numbers ------------------------------------------------------------------------------------------


def test_what_was_told_is_counted(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    assert sink.tally == AuditCounts()
    sink.exchange(sink.begin(OPENING), RECORD, FACTS)
    sink.exchange(sink.begin(OPENING), replace(RECORD, injected=()), FACTS)
    sink.exchange(None, replace(RECORD, verdict=Verdict.DENY, injected=()), FACTS)
    sink.tunnel(sink.begin(OPENING), TUNNEL)
    for _ in range(MAX_SINGLE_REFUSALS + 7):
        sink.refusal(NAME)
    sink.close()
    assert sink.tally == AuditCounts(exchanges=3, tunnels=1, refused=MAX_SINGLE_REFUSALS + 8, with_secret=1)


def test_what_is_in_no_line_is_counted(tmp_path: Path) -> None:
    """By a disk that is full, and by a mistake: `None` is no path."""
    sink = opened(tmp_path)
    broken = replace(RECORD, path=cast("str", None))
    with pytest.raises((TypeError, AttributeError)):
        sink.exchange(sink.begin(OPENING), broken, FACTS)
    assert sink.tally.unrecorded == 1
    sink.close()


def test_the_number_of_the_newest_line_is_told(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    assert sink.newest == 0
    sink.refusal(NAME)
    assert sink.newest == 1
    sink.close()


def test_what_is_hidden_of_a_sandbox_is_in_no_line_also_of_one_that_was_lost(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    sink.hide = lambda sandbox, text: text.replace("decoy", "*****") if sandbox == "agent-1" else text
    name = "decoy.example"
    opening, facts = replace(OPENING, host=name), replace(FACTS, way=replace(FACTS.way, sni=name))
    record = replace(RECORD, destination=replace(RECORD.destination, host=name))
    sink.exchange(sink.begin(opening), record, facts)
    sink.tunnel(sink.begin(opening), replace(TUNNEL, host=name, sni=name))
    sink.refusal(replace(NAME, host=name, sni=name))
    sink.refusal(replace(NAME, host=name, identity=OTHER))
    sink.begin(opening)
    sink.flush()
    abandon(sink)
    opened(tmp_path).close()
    found = [line for line in read(tmp_path) if "host" in line]
    assert [line["event"] for line in found] == ["exchange", "tunnel", "refusal", "refusal", "lost"]
    assert [line["host"] for line in found] == [*["*****.example"] * 3, name, "*****.example"]
    assert [line["sni"] for line in found[:3]] == ["*****.example"] * 3


@pytest.mark.parametrize("is_cut", [False, True])
def test_damage_that_the_start_found_is_told_and_what_a_kill_leaves_is_none(
    tmp_path: Path, *, is_cut: bool
) -> None:
    sink = opened(tmp_path)
    sink.refusal(NAME)
    sink.flush()
    sink.exchange(sink.begin(OPENING), RECORD, FACTS)
    abandon(sink)
    if is_cut:
        files(tmp_path)[0].write_bytes(b"")
    again = opened(tmp_path)
    assert again.is_damaged is is_cut
    again.close()
