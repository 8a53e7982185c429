"""Labels by which everything is found again."""

from __future__ import annotations

from egress.runtime.docker import labels


def test_everything_names_its_role_its_owner_and_its_sandbox() -> None:
    found = labels.marked(labels.ROLE_DOOR, "/run/l.lease", "one")
    assert found == {"egress.role": "door", "egress.lease": "/run/l.lease", "egress.sandbox": "one"}
    # Said also where it is nobody's: an image's own label of that name would stand there else.
    assert labels.marked(labels.ROLE_DOOR, "l")[labels.SANDBOX] == ""
