"""What the proxy tells the audit cannot hold what the audit must not write."""

from __future__ import annotations

from dataclasses import fields

import pytest

from egress.audit.reported_facts import (
    AuditStoppedError,
    ConnectionFacts,
    ExchangeFacts,
    Intent,
    RefusalFacts,
    Ticket,
    TunnelFacts,
)
from egress.errors import CODES


@pytest.mark.parametrize("kind", [Intent, ExchangeFacts, ConnectionFacts, RefusalFacts, TunnelFacts])
def test_there_is_no_field_for_a_value_a_query_or_a_body(kind: type) -> None:
    names = {field.name for field in fields(kind)}
    assert not names & {"query", "target", "body", "headers", "value", "secret", "path"}


def test_a_ticket_begins_unspent() -> None:
    assert not Ticket(3).is_spent


def test_the_sandbox_gets_an_answer_for_it() -> None:
    assert AuditStoppedError.code in CODES
