"""Identities and faults."""

from __future__ import annotations

from dataclasses import replace

from egress.kubernetes.pod_identity import IdentityFault, IdentityState, PodIdentity

WISHES = (("egress/profile", "reviewer"),)


def test_rights_depend_on_pod_sandbox_claim_and_wishes_alone() -> None:
    claimed = PodIdentity("ns", "p", "p1", "s", "s1", IdentityState.CLAIMED, "c", "c1", WISHES)
    assert claimed.profile == "reviewer"
    assert replace(claimed, state=IdentityState.ENDING).rights == claimed.rights
    for other in (
        replace(claimed, pod_uid="p2"),
        replace(claimed, sandbox_uid="s2"),
        replace(claimed, claim_uid=""),
        replace(claimed, annotations=()),
        replace(claimed, annotations=(*WISHES, ("egress/param.REPO", "acme/app"))),
    ):
        assert other.rights != claimed.rights


def test_every_fault_has_a_code_of_its_own() -> None:
    assert len(set(IdentityFault)) == len(IdentityFault.__members__)
    assert all(fault.startswith("identity.") for fault in IdentityFault)
