"""Which of those that were made ahead a sandbox gets, if any; with an engine it is tried in tests/runtime."""

from __future__ import annotations

from pathlib import Path

from egress.runtime.docker.container_pool import pool_key
from egress.runtime.spec import Mount, SandboxLimits, Spec

SPEC = Spec(name="one", image="any")


def test_only_whose_it_is_makes_no_difference() -> None:
    same = Spec(name="two", image="any", profile="coding", env={"A": "b"}, labels={"team": "a"})
    assert pool_key(same) == pool_key(SPEC)
    for other in (
        Spec(name="one", image="other"),
        Spec(name="one", image="any", user=7),
        Spec(name="one", image="any", group=7),
        Spec(name="one", image="any", workdir="/elsewhere"),
        Spec(name="one", image="any", limits=SandboxLimits(memory_mib=64)),
        Spec(name="one", image="any", read_only=True),
        Spec(name="one", image="any", ports=(8443,)),
        Spec(name="one", image="any", mounts=(Mount(source=Path("/data"), target="/data"),)),
    ):
        assert pool_key(other) != pool_key(SPEC)


def test_nothing_of_its_maker_is_in_a_kind() -> None:
    kind = pool_key(Spec(name="one", image="any", profile="p", env={"A": "b"}, labels={"team": "a"}))
    assert (kind.profile, dict(kind.env), dict(kind.labels)) == (None, {}, {})
