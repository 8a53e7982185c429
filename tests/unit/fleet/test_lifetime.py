"""Terms are checked when they are made, and differences are named without values."""

from __future__ import annotations

import pytest

from egress.fleet.lifetime import (
    NO_TIME_LIMIT,
    SandboxLifetime,
    changed_lifetime,
    check_on_idle,
    differences,
    lifetime_differences,
)
from egress.runtime.errors import SpecError, SpecTypeError
from egress.runtime.spec import SandboxLimits, Spec


@pytest.mark.parametrize("wrong", [0, -1, float("inf"), float("nan")])
@pytest.mark.parametrize("name", ["timeout", "idle_timeout"])
def test_a_time_is_a_number_of_seconds(name: str, wrong: float) -> None:
    with pytest.raises(SpecError, match=f"{name} is out of range"):
        SandboxLifetime(**{name: wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [True, "5"])
@pytest.mark.parametrize("name", ["timeout", "idle_timeout"])
def test_a_time_of_another_type_is_refused(name: str, wrong: object) -> None:
    with pytest.raises(SpecTypeError, match=f"{name} is of type"):
        SandboxLifetime(**{name: wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize("owner", ["a\nb", "x" * 201])
def test_an_owner_is_a_short_text(owner: str) -> None:
    with pytest.raises(SpecError, match="owner"):
        SandboxLifetime(owner=owner)


def test_fields_that_differ_are_named_also_inside_others() -> None:
    one = Spec(name="one", image="a", env={"KEY": "value"})
    other = Spec(name="one", image="b", env={"KEY": "other"}, limits=SandboxLimits(cpus=1))
    assert differences(one, other) == ("image", "env", "limits.cpus")
    assert differences(one, Spec(name="one", image="a", env={"KEY": "value"})) == ()


def test_terms_that_differ_are_named() -> None:
    assert lifetime_differences(NO_TIME_LIMIT, SandboxLifetime(timeout=5, idle_timeout=1)) == (
        "timeout",
        "idle_timeout",
    )


def test_what_happens_when_idle_is_one_of_two() -> None:
    with pytest.raises(SpecError, match="on_idle is not delete or sleep"):
        SandboxLifetime(on_idle="nap")  # type: ignore[arg-type]
    with pytest.raises(SpecTypeError, match="on_idle"):
        SandboxLifetime(on_idle=None)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="without an idle_timeout"):
        SandboxLifetime(on_idle="sleep")


def test_only_a_disk_that_stays_can_sleep() -> None:
    sleeps = SandboxLifetime(idle_timeout=5, on_idle="sleep")
    bounded = Spec(name="one", image="a", limits=SandboxLimits(disk_mib=5))
    check_on_idle(bounded, SandboxLifetime(idle_timeout=5))
    check_on_idle(Spec(name="one", image="a"), sleeps)
    with pytest.raises(SpecError, match="would lose its files"):
        check_on_idle(bounded, sleeps)


def test_a_new_timeout_counts_from_now_and_the_rest_stays() -> None:
    before = SandboxLifetime(timeout=100, idle_timeout=30, owner="me", on_idle="sleep")
    after = changed_lifetime(before, {"timeout": 50}, 80)
    assert (after.timeout, after.idle_timeout, after.owner) == (130, 30, "me")
    assert changed_lifetime(before, {"timeout": None, "idle_timeout": 5}, 80).timeout is None
    assert changed_lifetime(before, {}, 80) == before


@pytest.mark.parametrize(
    "changes", [{"timeout": 0}, {"timeout": -1.0}, {"timeout": float("nan")}, {"idle_timeout": None}], ids=str
)
def test_an_impossible_time_is_refused(changes: dict[str, float | None]) -> None:
    before = SandboxLifetime(timeout=100, idle_timeout=30, on_idle="sleep")
    with pytest.raises(SpecError):
        changed_lifetime(before, changes, 80)
