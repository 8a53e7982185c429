"""The file of what is under way: slots, their one word, and what a killed process leaves in them."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.audit import inflight
from egress.audit.fields import CUT_MARK
from egress.audit.files import IN_FLIGHT
from egress.audit.inflight import DROPPED, FOLDED, LOOSE, MAX_TEXT_BYTES, SLOT, InFlight, _packed, _short
from egress.audit.reported_facts import AuditStoppedError, Intent
from tests.unit.audit.sample import MOMENT, OPENING


def test_what_was_taken_is_found_by_the_next_process(tmp_path: Path) -> None:
    first = InFlight(tmp_path, 4)
    slot = first.take(OPENING, MOMENT)
    first.take(replace(OPENING, request="c-18"), MOMENT)
    first.sent(slot)
    first.close()
    second = InFlight(tmp_path, 4)
    left = {found.opening.request: found for found in second.leftovers()}
    assert left["c-17-3"].opening == OPENING
    assert (left["c-17-3"].began, left["c-17-3"].sent, left["c-17-3"].line) == (MOMENT, True, 0)
    assert not left["c-18"].sent
    second.close()


def test_what_was_freed_is_gone_and_what_was_marked_names_its_line(tmp_path: Path) -> None:
    flight = InFlight(tmp_path, 4)
    marked, freed = flight.take(OPENING, 1), flight.take(OPENING, 2)
    flight.mark(marked, 77)
    flight.free(freed)
    assert [(left.slot, left.line) for left in flight.leftovers()] == [(marked, 77)]
    flight.close()


def test_a_slot_that_is_used_again_holds_nothing_of_before(tmp_path: Path) -> None:
    flight = InFlight(tmp_path, 1)
    flight.sent(slot := flight.take(replace(OPENING, secrets=("a" * 200,)), 1))
    flight.free(slot)
    flight.take(Intent("r", "c", "s", "h", 1), 2)
    (left,) = flight.leftovers()
    assert (left.opening, left.sent) == (Intent("r", "c", "s", "h", 1), False)
    flight.close()


def test_when_all_slots_are_taken_nothing_more_may_be_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inflight, "MAX_SLOTS", 2)
    flight = InFlight(tmp_path, 2)
    slots = [flight.take(OPENING, 1), flight.take(OPENING, 1)]
    had_room = flight.has_free_slot
    with pytest.raises(AuditStoppedError):
        flight.take(OPENING, 1)
    flight.free(slots[0])
    assert (had_room, flight.has_free_slot) == (False, True)
    flight.close()


def test_there_are_more_slots_as_soon_as_more_is_under_way(tmp_path: Path) -> None:
    """So many tunnels were a hidden limit, refused as if the log could not be written."""
    flight = InFlight(tmp_path, 4)
    flight.set_count(FOLDED, 77)
    slots = [flight.take(replace(OPENING, request=f"r{number}"), MOMENT) for number in range(20)]
    assert sorted(slots) == list(range(1, 21))
    assert flight.slots == 32
    for slot in slots[:5]:
        flight.sent(slot)
    flight.free(slots[0])
    flight.close()
    again = InFlight(tmp_path, 4)
    left = {found.opening.request: found.sent for found in again.leftovers()}
    assert left == {f"r{number}": number < 5 for number in range(1, 20)}
    assert again.count(FOLDED) == 77
    found = (tmp_path / IN_FLIGHT).stat()
    assert found.st_blocks * 512 >= found.st_size == 33 * SLOT
    again.close()


def test_a_disk_that_is_full_keeps_the_slots_that_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flight = InFlight(tmp_path, 2)
    slots = [flight.take(OPENING, MOMENT) for _ in range(2)]

    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patched:
        patched.setattr(os, "posix_fallocate", full)
        with pytest.raises(AuditStoppedError):
            flight.take(OPENING, MOMENT)
    assert flight.slots == 2
    flight.free(slots[0])
    assert flight.take(OPENING, MOMENT) == slots[0]
    assert flight.take(OPENING, MOMENT) == 3, "and goes on where there is space again"
    assert len(flight.leftovers()) == 3
    flight.close()


def test_the_file_never_shrinks(tmp_path: Path) -> None:
    flight = InFlight(tmp_path, 8)
    last = [flight.take(OPENING, 1) for _ in range(8)]
    flight.close()
    smaller = InFlight(tmp_path, 2)
    assert len(smaller.leftovers()) == len(last) == smaller.slots
    smaller.close()
    assert (tmp_path / IN_FLIGHT).stat().st_size == 9 * SLOT


def test_the_file_has_no_holes(tmp_path: Path) -> None:
    """A page that has no block yet would end the process when the disk is full."""
    flight = InFlight(tmp_path, 255)
    found = (tmp_path / IN_FLIGHT).stat()
    assert found.st_blocks * 512 >= found.st_size == 256 * SLOT
    flight.close()


def test_counters_are_kept(tmp_path: Path) -> None:
    flight = InFlight(tmp_path, 1)
    for counter in (LOOSE, FOLDED, DROPPED):
        flight.set_count(counter, 1000 + counter)
    flight.close()
    again = InFlight(tmp_path, 1)
    assert [again.count(counter) for counter in (LOOSE, FOLDED, DROPPED)] == [1000, 1001, 1002]
    assert again.leftovers() == []
    again.close()


TEXT = st.text(st.characters(max_codepoint=0xFF), max_size=300)


@given(TEXT, TEXT, st.lists(TEXT, max_size=20))
def test_an_opening_always_fits_into_its_slot(request: str, host: str, secrets: list[str]) -> None:
    opening = Intent(request, request, request, host, 65535, "GET", tuple(secrets))
    packed = _packed(opening)
    assert len(packed if len(packed) <= MAX_TEXT_BYTES else _short(opening)) <= MAX_TEXT_BYTES


def test_of_too_many_secrets_the_first_are_kept_and_the_cut_is_marked(tmp_path: Path) -> None:
    flight = InFlight(tmp_path, 1)
    flight.take(replace(OPENING, secrets=tuple(f"{n}" * 90 for n in range(10, 26))), 1)
    (left,) = flight.leftovers()
    assert left.opening.secrets == ("10" * 90, "11" * 90, "12" * 90, "13" * 90, CUT_MARK)
    assert left.opening.host == OPENING.host
    flight.close()


@pytest.mark.parametrize("junk", [b"", b"{", b"[]", b"[1,2]", b"\xff" * 40, b'["r","c","s","h","x","m",[]]'])
def test_a_slot_that_makes_no_sense_is_still_something_that_was_lost(junk: bytes, tmp_path: Path) -> None:
    """The file has no MAC, so it is read like anything that others may have written."""
    flight = InFlight(tmp_path, 1)
    flight.take(OPENING, 1)
    flight.close()
    path = tmp_path / IN_FLIGHT
    data = bytearray(path.read_bytes())
    data[SLOT + 32 :] = junk.ljust(SLOT - 32, b" ")
    path.write_bytes(data)
    again = InFlight(tmp_path, 1)
    (left,) = again.leftovers()
    assert left.opening == Intent("", "", "", "", 0)
    again.close()
