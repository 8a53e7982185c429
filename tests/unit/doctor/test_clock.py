"""The clock is held against what is over for certain, and against certificates that are good."""

from __future__ import annotations

from pathlib import Path

import certifi
import pytest

from egress.ca.issue import CLOCK_SKEW, DAY_SECONDS
from egress.doctor import clock
from egress.doctor.diagnosis import Diagnosis, Level, fault, ok
from egress.doctor.roots import made_at
from egress.doctor.upstreams import Misfit, ProbeResult
from tests.unit.doctor.proxy_setups import by_name, is_content, needs_care, patient

RELEASED = made_at(certifi.__version__) or 0
NOW = RELEASED + 10 * DAY_SECONDS


def looked(
    folder: Path, *reached: ProbeResult, now: int = NOW, begins: int | None = None
) -> dict[str, Diagnosis]:
    return by_name(clock.check(patient(folder, now=now), begins, reached))


def fitting(begins: int, ends: int) -> ProbeResult:
    return ProbeResult(ok("a:443", "verified"), begins, ends)


def misfit(how: Misfit) -> ProbeResult:
    return ProbeResult(fault("a:443", "verification failed", "look"), misfit=how)


def test_a_clock_that_is_right_is_fine(tmp_path: Path) -> None:
    found = looked(tmp_path, begins=NOW - CLOCK_SKEW)
    assert is_content(found.values())


@pytest.mark.parametrize("now", [0, RELEASED - 1])
def test_a_clock_before_the_release_of_the_roots_is_a_fault(now: int, tmp_path: Path) -> None:
    needs_care(looked(tmp_path, now=now)["time"], Level.FAULT, "roots were released")


def test_a_clock_before_the_authority_was_made_is_a_fault(tmp_path: Path) -> None:
    needs_care(
        looked(tmp_path, begins=NOW + DAY_SECONDS)["time"], Level.FAULT, "authority of the sandbox was made"
    )


def test_certificates_of_upstreams_bound_how_wrong_it_can_be(tmp_path: Path) -> None:
    found = looked(
        tmp_path,
        fitting(NOW - 30 * DAY_SECONDS, NOW + 60 * DAY_SECONDS),
        fitting(NOW - 3 * DAY_SECONDS, NOW + 90 * DAY_SECONDS),
    )["upstreams"]
    assert found.level is Level.OK
    assert found.fact == "within the certificates of 2 upstreams: at most 3 days ahead, 60 behind"


@pytest.mark.parametrize(("how", "said"), [("early", "are not valid yet"), ("late", "have expired")])
def test_upstreams_that_all_seem_wrong_are_a_fault_of_the_clock(
    how: Misfit, said: str, tmp_path: Path
) -> None:
    needs_care(looked(tmp_path, misfit(how), misfit(how))["upstreams"], Level.FAULT, said, "all 2")


@pytest.mark.parametrize("others", [[], [fitting(NOW - DAY_SECONDS, NOW + DAY_SECONDS), misfit("late")]])
def test_one_that_seems_wrong_among_others_is_no_fault_of_the_clock(
    others: list[ProbeResult], tmp_path: Path
) -> None:
    assert is_content([looked(tmp_path, misfit("late"), *others)["upstreams"]])
