"""The story that the stored logs tell: every kind of line, plain values and hostile ones.

Version 0.1.0 wrote `written/`, `killed/` and `pruned/` by these calls, which must give the same bytes today.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from egress.audit import Durations, ExchangeFacts, RefusalFacts, Sink
from egress.audit.reported_facts import NO_DURATIONS, Intent
from egress.exchange import Destination
from egress.review.pruning import Retention, prune
from egress.types import Identity, Place, RuleRef, Slot
from tests.unit.audit.sample import (
    DENIED,
    FACTS,
    KEY,
    NAME,
    OPENING,
    RECORD,
    TUNNEL,
    WAY,
    Clock,
    abandon,
    files,
    full_at,
    moments,
    opened,
)

POLICY = "5f2b8c0d9e1a4b7c"
HOSTILE = '"quoted" \\ back\nline\ttab\x00\x1b[31m\x7f é Ω 😀 \u2028 \u202e \ud800 </script> =1+1'
SECOND = 1_000_000_000


def written(directory: Path) -> None:
    """A log of several files with every kind of line but `pruned`."""
    clock = Clock()
    sink = opened(directory, clock)
    operator_events(sink)
    exchanges(sink, clock)
    others(sink, clock)
    counted(sink, clock)
    full_disk(sink, directory, clock)
    sink.event("stopped", reason="SIGTERM")
    sink.close()
    quota(directory, clock)
    killed_and_started_again(directory, clock)


def killed(directory: Path) -> None:
    """A log as a kill in the middle of a write leaves it: a fragment, and two exchanges under way."""
    clock = Clock()
    sink = opened(directory, clock)
    sink.event("started", version="0.1.0", policy=POLICY, files="config/hosts.yaml")
    killed_in_a_write(sink, directory, clock)


def pruned(directory: Path) -> None:
    """A log whose oldest files an operator deleted, and which was written on."""
    clock = Clock()
    sink = opened(directory, clock, rotate_at=2_000)
    for _ in range(8):
        sink.exchange(sink.begin(OPENING), RECORD, FACTS)
        sink.flush()
    sink.close()
    prune(directory, KEY, Retention(files=2), by="root", now=clock.ns // 1000 + SECOND)
    sink = opened(directory, clock)
    sink.event("stopped", reason="SIGINT")
    sink.close()


def operator_events(sink: Sink) -> None:
    fingerprint = ":".join(["9F", "2C", "11", "D4"] * 8)
    sink.event("started", version="0.1.0", policy=POLICY, files="config/hosts.yaml")
    sink.event("started", version="0.1.0", policy=POLICY, files=f"{HOSTILE}, caf\udce9.yaml")
    sink.event("reloaded", policy=POLICY, policy_before="0a1b2c3d4e5f6071", files="a.yaml, b.yaml")
    sink.event("reload.refused", policy=POLICY, file="a.yaml", line=12, column=5, reason=HOSTILE * 40)
    sink.event("reload.refused", policy=POLICY, reason="the file cannot be read")
    sink.event("killed", kind="host", name="api.github.com", connections=2, policy=POLICY)
    sink.event("kill.undone", kind="host", name="api.github.com", policy=POLICY)
    sink.event("sandbox.added", sandbox="agent-2", profile=None, authority=fingerprint, policy=POLICY)
    sink.event("sandbox.removed", sandbox="agent-2", connections=1, policy=POLICY)
    told = {"sandbox": "agent-1", "address": "10.0.0.2", "reason": "address already in use"}
    sink.event("listener.failed", **told, port=8443, policy=POLICY)


def exchanges(sink: Sink, clock: Clock) -> None:
    """Exchanges that were sent, and some that were not; each a second after the one before."""
    other = RuleRef("*.example.com", "write-" + "x" * 600, Place("config/long-" + "n" * 600 + ".yaml", 3, 1))
    both = (
        ("github", Slot("header", "authorization")),
        ("key", Slot("query", "api_key")),
        ("pw", Slot("basic")),
    )
    bare = replace(
        WAY, address="", sni="", client_tls="", upstream_tls="", alpn="h2", upstream_alpn="", entry="host"
    )
    records = (
        replace(RECORD, policy=POLICY),
        replace(
            RECORD, identity=Identity("agent-2", None), method="POST", path="/", status=0, code="client.left"
        ),
        replace(RECORD, injected=both, scrubbed=(("github", 2), ("key", 1)), place=None, observed=True),
        replace(RECORD, rule=None, place=Place("hosts.yaml", 3, 1), policy="", injected=(), scrubbed=()),
        replace(RECORD, rule=other, place=other.place, path="/" + "p" * 5000, bytes_down=1 << 40),
        replace(RECORD, identity=Identity(HOSTILE, HOSTILE), path=HOSTILE, method="", code="observed"),
        replace(RECORD, destination=Destination("http", "h" * 300, 65535), path="\xff" * 4100),
        replace(RECORD, path="", status=599, bytes_up=0, bytes_down=0, replaced=False),
    )
    for record in records:
        opening = replace(OPENING, host=record.destination.host, sandbox=record.identity.sandbox)
        sink.exchange(sink.begin(opening), record, FACTS)
        way = replace(WAY, connection=HOSTILE, sni=HOSTILE, listener="l" * 300)
        sink.exchange(sink.begin(opening), record, ExchangeFacts(way, HOSTILE, Durations(1, 2, 3, 4, 5, 6)))
        sink.exchange(None, replace(record, verdict=DENIED.verdict), ExchangeFacts(bare, "", NO_DURATIONS))
        clock.ns += SECOND
        clock.seconds += 1
    sink.flush()


def others(sink: Sink, clock: Clock) -> None:
    tunnel = replace(TUNNEL, place=Place("config/hosts.yaml", 31, 3), sni=TUNNEL.host, policy=POLICY)
    rule = RuleRef("pinned.example.com", "tunnel", Place("hosts.yaml", 9, 5))
    took = Durations(9, 8, 7, 6, 5, 4)
    for value in (
        replace(tunnel, bytes_up=1804, bytes_down=91520),
        replace(tunnel, rule=rule, observed=True, durations=took, code="quota.bytes", host=HOSTILE),
        replace(tunnel, place=None, sni="", address="", request="", policy=""),
    ):
        opening = replace(OPENING, request=value.request, host=value.host, method="", secrets=())
        sink.tunnel(sink.begin(opening), value)
    for refused in (
        NAME,
        replace(NAME, rule=rule, policy=POLICY, host=HOSTILE),
        RefusalFacts(
            Identity("agent-3"), "agent-3", "", "", "protocol.refused", connection="c-9", sni="x.example"
        ),
        RefusalFacts(
            Identity("agent-3"),
            "agent-3",
            "sni",
            "y.example",
            "host.unknown",
            443,
            "c-10",
            place=Place("r", 1, 1),
        ),
    ):
        sink.refusal(refused)
    sink.flush()


def counted(sink: Sink, clock: Clock) -> None:
    """More refusals within a second than are written one by one."""
    clock.seconds += 10
    for number in range(50):
        sink.refusal(replace(NAME, code="host.unknown" if number % 3 else HOSTILE))
    clock.seconds += 2
    clock.ns += 2 * SECOND
    sink.tick()


def full_disk(sink: Sink, directory: Path, clock: Clock) -> None:
    """The disk is full for a while: some line fits in part, and later all of them."""
    with full_at(files(directory)[-1].stat().st_size + 700):
        sink.exchange(sink.begin(OPENING), replace(RECORD, policy=POLICY), FACTS)
        sink.flush()
        clock.seconds += 1.5
        sink.flush()
    clock.seconds += 3
    clock.ns += 4 * SECOND
    sink.tick()


def quota(directory: Path, clock: Clock) -> None:
    """One sandbox writes as much as it may in a day."""
    sink = opened(directory, clock, quota=20_000)
    long = replace(RECORD, path="/" + "q" * 4000, identity=Identity("agent-9", "coding"))
    opening = replace(OPENING, sandbox="agent-9")
    while sink.may_work("agent-9"):
        sink.exchange(sink.begin(opening), long, FACTS)
    sink.close()
    clock.ns += SECOND


def killed_and_started_again(directory: Path, clock: Clock) -> None:
    sink = opened(directory, clock, rotate_at=30_000)
    # A small limit lets the log go on in further files.
    for _ in range(80):
        sink.exchange(sink.begin(OPENING), RECORD, FACTS)
        sink.flush()
    killed_in_a_write(sink, directory, clock)
    clock.ns += 9 * SECOND
    dropping = opened(directory, clock, drop=True)
    with full_at(files(directory)[-1].stat().st_size):
        for _ in range(17):
            dropping.exchange(dropping.begin(OPENING), RECORD, FACTS)
            dropping.flush()
    clock.seconds += 5
    dropping.tick()
    dropping.exchange(dropping.begin(OPENING), RECORD, FACTS)
    dropping.close()


def killed_in_a_write(sink: Sink, directory: Path, clock: Clock) -> None:
    sink.sent(sink.begin(replace(OPENING, request="c-21-1", connection="c-21")))
    sink.begin(Intent("c-22-1", "c-22", HOSTILE[:40], "upload.example.com", 8443, "PUT", ("a", "b")))
    for _ in range(3):
        sink.refusal(replace(NAME, policy=POLICY))
    steps = moments(directory, sink.flush, every=250)
    abandon(sink)
    steps[4].put(directory)
