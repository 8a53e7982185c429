"""What many gateways need, on paper: `python -m bench.kubernetes.on_paper [NAME=NUMBER ...]` prints tables.

The measured inputs come from `python -m bench kubernetes` and `python -m bench proxy`; the others are a guess
about the fleet. Every input can be given on the command line, by its name below.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Final

WATCHES: Final = 4
WATCH_SECONDS: Final = 30
DAY: Final = 86_400


@dataclass(frozen=True, slots=True)
class Fleet:
    """A guess about the fleet: put your own in."""

    gateways: float = 100
    replicas: float = 2
    sandboxes: float = 1000
    """On one gateway."""
    peak: float = 1
    """Requests of a sandbox in a second, while all of them work."""
    requests_per_day: float = 5000
    """Of a sandbox."""
    requests_per_connection: float = 20
    lifetime: float = 3600
    """Seconds from a claim to its end."""
    days: float = 30
    """How long the log is kept."""
    price: float = 0.025
    """Of a gigabyte of storage for a month, in a currency of your choice."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one gateway needs."""

    request_us: float = 414
    """Processor for a request on a kept connection."""
    connection_us: float = 1633
    """Processor for a new connection with its request."""
    claim_ms: float = 3.3
    """Processor for all events of a claim, from the pool to its end."""
    rest_mib: float = 95
    """Memory while nobody has connected."""
    peak_mib: float = 202
    """Memory with 1,000 sandboxes that ask all the time."""
    line_bytes: float = 1183
    packed_bytes: float = 150
    """A line in a file that gzip has packed."""
    claim_kb: float = 94
    """All events of a claim, as the API server sends them."""
    listed_kb: float = 15
    """A pod, its sandbox and its claim in a list."""
    claim_events: float = 16


type Line = tuple[str, str, float, str]


def lines(fleet: Fleet, found: Measured) -> Iterator[Line]:
    """What, by which formula, how much, and the unit. Formulas leave out what units need."""
    claims = fleet.sandboxes / fleet.lifetime
    new = 1 / fleet.requests_per_connection
    request = ((1 - new) * found.request_us + new * found.connection_us) / 1e6
    cores = fleet.sandboxes * fleet.peak * request + claims * found.claim_ms / 1e3
    mib = found.rest_mib + (found.peak_mib - found.rest_mib) * fleet.sandboxes / 1000
    processes = fleet.gateways * fleet.replicas
    sandboxes = fleet.gateways * fleet.sandboxes
    logged = sandboxes * fleet.requests_per_day
    kept = fleet.days * logged * found.packed_bytes / 1e9
    yield "sandboxes, S", "gateways x sandboxes", sandboxes, ""
    yield "processor of a gateway at the peak, P", "sandboxes x peak x R + C x claim_ms", cores, "cores"
    yield "processor of all gateways", "gateways x P", fleet.gateways * cores, "cores"
    yield "memory of a replica, M", "rest_mib + (peak_mib - rest_mib) x sandboxes / 1000", mib, "MiB"
    yield "memory of all replicas", "gateways x replicas x M", processes * mib / 1024, "GiB"
    yield "lines of the log in a day, L", "S x requests_per_day", logged / 1e6, "million"
    yield "the log of a day", "L x line_bytes", logged * found.line_bytes / 1e9, "GB"
    yield "the same, packed", "L x packed_bytes", logged * found.packed_bytes / 1e9, "GB"
    yield "the packed log that is kept, K", "days x L x packed_bytes", kept, "GB"
    yield "what K costs in a month", "K x price", kept * fleet.price, ""
    yield "watches at the API servers, W", "gateways x replicas x 4", processes * WATCHES, ""
    yield "watches that begin anew", "W / 30", processes * WATCHES / WATCH_SECONDS, "/s"
    events = processes * claims
    yield "events for gateways", "gateways x replicas x C x claim_events", events * found.claim_events, "/s"
    yield "their bytes", "gateways x replicas x C x claim_kb", events * found.claim_kb / 1e3, "MB/s"
    listed = fleet.sandboxes * found.listed_kb / 1e3
    yield "what a replica reads when it starts", "sandboxes x listed_kb", listed, "MB"


def table(fleet: Fleet, found: Measured) -> str:
    """Return the results in Markdown."""
    head = ["| what | formula | |", "| --- | --- | ---: |"]
    rows = (
        (f"{number(value)} {unit}".strip(), what, formula)
        for what, formula, value, unit in lines(fleet, found)
    )
    return "\n".join([*head, *(f"| {what} | `{formula}` | {value} |" for value, what, formula in rows)])


def inputs(fleet: Fleet, found: Measured) -> str:
    """Return the inputs in Markdown."""
    head = ["| input | |", "| --- | ---: |"]
    given = (asdict(fleet) | asdict(found)).items()
    return "\n".join([*head, *(f"| `{name}` | {value:,g} |" for name, value in given)])


def number(value: float) -> str:
    """Write three digits; more would be more than the inputs are worth."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 or rounded == int(rounded) else f"{rounded:g}"


def read(words: list[str]) -> tuple[Fleet, Measured]:
    """Return the inputs with those that were given."""
    fleet, found = Fleet(), Measured()
    for word in words:
        name, _, text = word.partition("=")
        if name in asdict(fleet):
            fleet = replace(fleet, **{name: float(text)})
        elif name in asdict(found):
            found = replace(found, **{name: float(text)})
        else:
            sys.exit(f"on_paper: no such input: {name}")
    return fleet, found


if __name__ == "__main__":
    given = read(sys.argv[1:])
    print(f"{inputs(*given)}\n\n{table(*given)}")
