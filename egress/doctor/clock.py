"""The clock, held against what cannot lie in the future, and against the certificates of upstreams.

No server is asked for the time. Public roots that were released tomorrow, an authority that begins tomorrow,
and upstreams that all seem to have ended: each says that the clock is wrong, and by how much at least.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import certifi

from egress.ca.issue import CLOCK_SKEW, DAY_SECONDS
from egress.doctor.diagnosis import Diagnosis, counted, fault, note, ok
from egress.doctor.proxy_setup import ProxySetup
from egress.doctor.roots import made_at
from egress.doctor.upstreams import ProbeResult

FIX: Final = "set the clock, and keep it: `timedatectl set-ntp true`, here or on the host of this machine"
MIN_SUSPECT_UPSTREAMS: Final = 2
"""Upstreams that seem wrong at once before the clock is suspected: one may have forgotten to renew."""


def check(patient: ProxySetup, begins: int | None, reached: Sequence[ProbeResult]) -> Iterator[Diagnosis]:
    """Look at the clock; `begins` is when the authority of the sandbox does."""
    now = patient.clock.now()
    yield _past(now, _moments(begins))
    yield _upstreams(now, reached)


def _moments(begins: int | None) -> Iterator[tuple[int, str]]:
    """What is known to be over."""
    released = made_at(certifi.__version__)
    if released is not None:
        yield released, "the public roots were released"
    if begins is not None:
        yield begins + CLOCK_SKEW, "the authority of the sandbox was made"


def _past(now: int, moments: Iterable[tuple[int, str]]) -> Diagnosis:
    ahead = [(moment, what) for moment, what in moments if moment > now]
    if not ahead:
        return ok("time", f"{_text(now)}, and nothing here was made later")
    moment, what = max(ahead)
    return fault("time", f"it is {_text(now)} by this clock, and {what} at {_text(moment)}", FIX)


def _upstreams(now: int, reached: Sequence[ProbeResult]) -> Diagnosis:
    fitting = [one for one in reached if one.begins and one.ends]
    early = [one for one in reached if one.misfit == "early"]
    late = [one for one in reached if one.misfit == "late"]
    for found, what in ((early, "have not begun"), (late, "have ended")):
        if len(found) >= MIN_SUSPECT_UPSTREAMS and not fitting:
            return fault(
                "upstreams", f"by this clock the certificates of all {len(found)} upstreams {what}", FIX
            )
    if not fitting:
        return note("upstreams", "not compared: no certificate of an upstream was seen")
    behind = (now - max(one.begins or 0 for one in fitting)) // DAY_SECONDS
    ahead = (min(one.ends or 0 for one in fitting) - now) // DAY_SECONDS
    count = counted(len(fitting), "upstream")
    return ok("upstreams", f"within the certificates of {count}: at most {behind} days ahead, {ahead} behind")


def _text(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
