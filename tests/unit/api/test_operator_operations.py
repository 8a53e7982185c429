"""A port offers the rules of single sandboxes, and nothing that is the operator's alone."""

from __future__ import annotations

from egress.api.operations import OPERATIONS
from egress.api.operator_operations import OPERATOR_OPERATIONS


def test_they_stand_in_the_table() -> None:
    assert set(OPERATOR_OPERATIONS) <= set(OPERATIONS.values())


def test_what_a_port_offers_is_about_one_sandbox() -> None:
    """Calls about the whole run, its rules and its secrets are for the owner alone."""
    offered = {each.path for each in OPERATOR_OPERATIONS if not each.owner_only} - {"/v1/healthz"}
    assert offered
    assert all(path.startswith("/v1/sandboxes/{name}") for path in offered)
