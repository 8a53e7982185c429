"""Tickets: their form, their digest, and statements about them, which come from outside."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.run_ticket import (
    MAX_STATEMENT_CHARS,
    SEED_BYTES,
    TICKET_PREFIX,
    RunTicket,
    is_ticket,
    mask_tickets,
    read_statement,
    ticket_digest,
    ticket_id,
    ticket_text,
    write_statement,
)

DIGEST = "5e884898da280471" + "0" * 48
SOUND = {"digest": DIGEST, "pod": "p-uid", "expires": 2_000_000_000}


@given(st.binary(min_size=SEED_BYTES, max_size=SEED_BYTES))
def test_every_seed_makes_a_ticket_that_is_masked_wherever_it_stands(seed: bytes) -> None:
    ticket = ticket_text(seed)
    assert is_ticket(ticket)
    assert ticket not in mask_tickets(f"/a/{ticket}?{ticket}")
    assert ticket_id(ticket_digest(ticket)) == f"t-{ticket_digest(ticket)[:16]}"
    # What cannot stand in a URL as it is would be written in several ways.
    assert ticket.replace("-", "").replace("_", "").isalnum()


def test_a_ticket_needs_a_whole_seed() -> None:
    with pytest.raises(ValueError, match="32 random bytes"):
        ticket_text(b"short")


@pytest.mark.parametrize("text", ["", TICKET_PREFIX, TICKET_PREFIX + "a" * 42, TICKET_PREFIX + "a" * 44, "x"])
def test_other_texts_are_no_tickets(text: str) -> None:
    assert not is_ticket(text)
    assert is_ticket(TICKET_PREFIX + "a" * 43)


def test_a_text_without_a_ticket_is_not_changed() -> None:
    assert mask_tickets("/acme/site") == "/acme/site"


def test_a_statement_is_read_as_it_was_written() -> None:
    ticket = RunTicket(DIGEST, 2_000_000_000, "writer", (("repo", "acme/site"),))
    found = read_statement(write_statement(ticket, "p-uid"))
    assert found is not None
    assert (found.ticket, found.pod, found.ticket.id) == (ticket, "p-uid", "t-5e884898da280471")


@pytest.mark.parametrize(
    "change",
    [
        {"digest": DIGEST.upper()},
        {"digest": DIGEST + "\n"},
        {"pod": ""},
        {"pod": None},
        {"expires": -1},
        {"expires": "2000000000"},
        {"expires": 1.5},
        {"expires": True},
        {"profile": 1},
        {"params": {"repo": 1}},
        {"params": {f"p{number}": "x" for number in range(33)}},
        {"version": 2},
        {"admin": True},
    ],
)
def test_a_statement_that_is_not_sound_is_none(change: dict[str, Any]) -> None:
    assert read_statement(json.dumps(SOUND)) is not None
    assert read_statement(json.dumps({**SOUND, **change})) is None


@given(st.text(max_size=200) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_no_text_breaks_the_reader(text: str) -> None:
    found = read_statement(text)
    assert found is None or found.digest == found.ticket.digest


def test_a_statement_has_bounds() -> None:
    padded = json.dumps(SOUND) + " " * MAX_STATEMENT_CHARS
    assert read_statement(padded) is None
    assert read_statement("[" * 4000) is None
