"""Labels by which everything is found again."""

from __future__ import annotations

from egress.runtime.docker import labels


def test_everything_names_its_role_and_its_owner() -> None:
    found = labels.owner_labels(labels.ROLE_DOOR, "/run/l.lease")
    assert found == {"egress.role": "door", "egress.lease": "/run/l.lease"}
