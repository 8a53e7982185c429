"""Check the clock against times in the past, and against the certificates of upstreams.

No server is asked for the time. Public roots released tomorrow, an authority that begins tomorrow, or
upstreams that all seem to have expired show that the clock is wrong, and by how much at least.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import certifi

from egress.ca.issue import CLOCK_SKEW, DAY_SECONDS
from egress.doctor.diagnosis import Diagnosis, counted, fault, note, ok
from egress.doctor.proxy_under_check import ProxyUnderCheck
from egress.doctor.roots import made_at
from egress.doctor.upstreams import ProbeResult

FIX: Final = (
    "set the clock and keep it synchronised: `timedatectl set-ntp true`, here or on the host of this machine"
)
MIN_SUSPECT_UPSTREAMS: Final = 2
"""Upstreams that must seem wrong before the clock is suspected: a single one may just have expired."""


def check(setup: ProxyUnderCheck, begins: int | None, reached: Sequence[ProbeResult]) -> Iterator[Diagnosis]:
    """Check the clock; `begins` is the start of the authority of the sandbox."""
    now = setup.clock.now()
    yield _past(now, _moments(begins))
    yield _upstreams(now, reached)


def _moments(begins: int | None) -> Iterator[tuple[int, str]]:
    """Yield times that are certainly in the past."""
    # The release date needs no network and cannot be changed by a peer.
    released = made_at(certifi.__version__)
    if released is not None:
        yield released, "the public roots were released"
    if begins is not None:
        yield begins + CLOCK_SKEW, "the authority of the sandbox was made"


def _past(now: int, moments: Iterable[tuple[int, str]]) -> Diagnosis:
    ahead = [(moment, event) for moment, event in moments if moment > now]
    if not ahead:
        return ok("time", f"{_text(now)}, later than everything made here")
    # The latest moment shows best by how much the clock is wrong.
    moment, event = max(ahead)
    return fault("time", f"the clock says {_text(now)}, but {event} at {_text(moment)}", FIX)


def _upstreams(now: int, reached: Sequence[ProbeResult]) -> Diagnosis:
    fitting = [one for one in reached if one.begins and one.ends]
    early = [one for one in reached if one.misfit == "early"]
    late = [one for one in reached if one.misfit == "late"]
    for found, what in ((early, "are not valid yet"), (late, "have expired")):
        # A single fitting certificate clears the clock: the others are wrong themselves.
        if len(found) >= MIN_SUSPECT_UPSTREAMS and not fitting:
            return fault(
                "upstreams", f"by this clock, the certificates of all {len(found)} upstreams {what}", FIX
            )
    if not fitting:
        return note("upstreams", "not compared: no upstream certificate was seen")
    behind = (now - max(one.begins or 0 for one in fitting)) // DAY_SECONDS
    ahead = (min(one.ends or 0 for one in fitting) - now) // DAY_SECONDS
    count = counted(len(fitting), "upstream")
    return ok("upstreams", f"within the certificates of {count}: at most {behind} days ahead, {ahead} behind")


def _text(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
