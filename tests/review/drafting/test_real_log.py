"""Lines as the proxy itself writes them: read back, drafted, replayed."""

from __future__ import annotations

from pathlib import Path

from egress.audit import ConnectionFacts, ExchangeFacts, Intent, RefusalFacts, TunnelFacts
from egress.exchange import ExchangeRecord
from egress.exchange.messages import Destination
from egress.review.drafting import TimeRange, Traffic, draft, find, read, replay
from egress.types import Identity, Slot, Verdict
from tests.unit.audit.sample import opened
from tests.unit.review.drafting.sample import NOW

WHO = Identity("agent-1", "coding")
WAY = ConnectionFacts("c-1", "agent-1", "connect", "93.184.216.34", "api.example.com")


def record(method: str, path: str, **fields: object) -> ExchangeRecord:
    given: dict[str, object] = {
        "verdict": Verdict.ALLOW,
        "code": "observed",
        "injected": (),
        "host": "api.example.com",
    } | fields
    return ExchangeRecord(
        identity=WHO,
        destination=Destination("https", str(given["host"]), 443),
        method=method,
        path=path,
        verdict=Verdict(str(given["verdict"])),
        code=str(given["code"]),
        rule=None,
        place=None,
        observed=True,
        status=200,
        injected=(("github", Slot("header", "authorization")),) if given["injected"] else (),
        replaced=False,
        scrubbed=(),
        bytes_up=0,
        bytes_down=0,
        policy="",
    )


def write(folder: Path) -> None:
    """A log with everything that a draft looks at, and a path that is cut."""
    sink = opened(folder / "audit", in_flight=32)
    records = [record("GET", f"/issues/{number}", injected=True) for number in range(5)]
    records += [
        record("POST", "/pay\x1b[31m\u2028load", host="b.example.com"),
        record("GET", "/" + "a" * 5000, host="c.example.com"),
        record("GET", "/no", verdict="deny", code="rule.none"),
    ]
    for number, one in enumerate(records):
        opening = Intent(f"c-1-{number}", "c-1", WHO.sandbox, one.destination.host, 443)
        ticket = sink.begin(opening) if one.verdict is Verdict.ALLOW else None
        sink.exchange(ticket, one, ExchangeFacts(WAY, f"c-1-{number}"))
    sink.tunnel(
        None, TunnelFacts(WHO, "agent-1", "sni", "c-2", "c-2", "pinned.example.net", 443, "host.allowed")
    )
    sink.refusal(RefusalFacts(WHO, "agent-1", "dns", "evil.example", "host.unknown"))
    sink.close()


def test_a_draft_of_a_real_log_allows_what_passed(tmp_path: Path) -> None:
    write(tmp_path)
    traffic = Traffic.of(read(tmp_path / "audit", TimeRange(0)), "coding")
    assert traffic.lines == 10
    made = draft(traffic, None, NOW)
    assert '- "/issues/*"' in made.text
    assert "bearer: github" in made.text
    assert "intercept: never" in made.text
    assert '- "/**"' in made.text
    # The one with control characters can be in no rule, and that is said.
    assert [(one.reason, one.count) for one in made.left_out] == [("the path has no canonical spelling", 1)]
    again = replay(traffic, made.policy, NOW)
    assert [(change.host, change.count) for change in again.denied] == [("b.example.com", 1)]
    assert [change.note for change in again.untold] == ["the path was too long for the log"]
    assert not again.allowed


def test_a_line_is_found_by_the_id_that_the_sandbox_was_told(tmp_path: Path) -> None:
    write(tmp_path)
    found = find(tmp_path / "audit", "c-1-7")
    assert found is not None
    assert found.text("path") == "/no"
    assert find(tmp_path / "audit", "c-1-70") is None
