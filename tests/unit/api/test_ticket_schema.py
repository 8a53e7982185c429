"""A ticket is shown by its field alone."""

from __future__ import annotations

from egress.api.ticket_schema import TicketView


def test_a_ticket_does_not_show_itself() -> None:
    made = TicketView(id="t-1", ticket="egress-run-x", expires=1)
    assert "egress-run" not in f"{made!r} {made}"
    assert made.ticket == "egress-run-x"
