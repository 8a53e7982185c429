"""What went out of a sandbox, told in a few lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from egress.cli.sandboxes import summary
from egress.fleet import FleetInfo

Captured = pytest.CaptureFixture[str]


def line(event: str, **fields: object) -> bytes:
    head = {"seq": 1, "time": "2026-05-01T10:00:00.000000Z", "event": event}
    return json.dumps({**head, **fields, "mac": "00"}, separators=(",", ":")).encode() + b"\n"


def exchange(host: str, *secrets: str, sandbox: str = "mine") -> bytes:
    injected = [{"secret": secret, "slot": "header:authorization"} for secret in secrets]
    return line(
        "exchange", sandbox=sandbox, host=host, verdict="allow", code="rule.allowed", injected=injected
    )


def refusal(host: str, sandbox: str = "mine") -> bytes:
    return line("refusal", sandbox=sandbox, host=host, verdict="deny", code="host.unknown")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "audit-000001.jsonl").write_bytes(exchange("before.example.com"))
    return tmp_path


def told(log: Path, capsys: Captured, *lines: bytes, file: str = "audit-000001.jsonl") -> list[str]:
    about = FleetInfo(kind="fake", audit=log, runtime_dir=log)
    since = summary.mark(about)
    with (log / file).open("ab") as out:
        out.writelines(lines)
    summary.show(about, "mine", since)
    return capsys.readouterr().err.splitlines()[1:]


def test_only_what_came_since_then_and_of_this_sandbox_counts(log: Path, capsys: Captured) -> None:
    lines = told(
        log,
        capsys,
        exchange("a.example.com", "token"),
        exchange("a.example.com", "token", "other"),
        exchange("a.example.com", "foreign", sandbox="theirs"),
        refusal("b.example.com"),
        refusal("b.example.com"),
        refusal("c.example.com", sandbox="theirs"),
    )
    assert lines == [
        "egress: 4 requests: 2 allowed, 2 denied, 0 cut",
        "  denied b.example.com  host.unknown  2x",
        "  secrets used: other (1x), token (2x)",
        f"  more: egress log query --sandbox mine --dir {log}",
    ]


def test_a_denial_by_a_rule_names_the_rule(log: Path, capsys: Captured) -> None:
    """Two kinds of denials of one host are told apart: reports of an agent, and what it should not do."""

    def denied(rule: str) -> bytes:
        return line(
            "exchange", sandbox="mine", host="api.test", verdict="deny", code="rule.denied", rule=rule
        )

    reports, keys = denied("api.test#anthropic-no-telemetry"), denied("api.test#anthropic-no-admin")
    assert told(log, capsys, reports, keys, reports)[:3] == [
        "egress: 3 requests: 0 allowed, 3 denied, 0 cut",
        "  denied api.test  rule.denied  anthropic-no-telemetry  2x",
        "  denied api.test  rule.denied  anthropic-no-admin  1x",
    ]


def test_a_sandbox_that_asked_for_nothing_needs_one_line(log: Path, capsys: Captured) -> None:
    assert told(log, capsys) == ["egress: 0 requests: 0 allowed, 0 denied, 0 cut"]


def test_a_request_that_was_stopped_later_is_cut_and_not_allowed(log: Path, capsys: Captured) -> None:
    """Also one that version 0.1.0 recorded as allowed."""
    seen = line("exchange", sandbox="mine", host="a.example.com", verdict="cut", code="canary.seen")
    before = line(
        "exchange",
        sandbox="mine",
        host="a.example.com",
        verdict="allow",
        code="canary.seen",
        address="1.1.1.1",
    )
    lines = told(log, capsys, exchange("a.example.com"), seen, before)
    assert lines[:2] == [
        "egress: 3 requests: 1 allowed, 0 denied, 2 cut",
        "  cut a.example.com  canary.seen  2x",
    ]


def test_a_request_whose_upstream_failed_is_told_apart(log: Path, capsys: Captured) -> None:
    failed = line("exchange", sandbox="mine", host="a.test", verdict="allow", code="upstream.unresolved")
    lines = told(log, capsys, exchange("a.example.com"), failed)
    assert lines[0] == "egress: 2 requests: 2 allowed (1 failed), 0 denied, 0 cut"


def test_a_request_that_the_end_of_the_proxy_lost_has_no_verdict(log: Path, capsys: Captured) -> None:
    lines = told(log, capsys, line("lost", sandbox="mine", host="a.example.com"))
    assert lines == ["egress: 0 requests: 0 allowed, 0 denied, 0 cut"]


def test_further_files_belong_to_it(log: Path, capsys: Captured) -> None:
    lines = told(log, capsys, refusal("b.example.com"), file="audit-000002.jsonl")
    assert lines[0] == "egress: 1 request: 0 allowed, 1 denied, 0 cut"


def test_of_many_denials_the_most_frequent_are_shown(log: Path, capsys: Captured) -> None:
    lines = told(log, capsys, *(refusal(f"h{n}.example.com") for n in range(7)), refusal("h6.example.com"))
    assert lines[1] == "  denied h6.example.com  host.unknown  2x"
    assert lines[6] == "  and 2 more"


def test_lines_that_are_none_are_told_of(log: Path, capsys: Captured) -> None:
    lines = told(log, capsys, b"what is this\n", refusal("b.example.com"))
    assert "  some lines of the log could not be counted" in lines
    assert lines[0] == "egress: 1 request: 0 allowed, 1 denied, 0 cut"


def test_what_a_sandbox_chose_is_shown_as_text(log: Path, capsys: Captured) -> None:
    lines = told(log, capsys, refusal("b\x1b[31m.example.com"))
    assert lines[1] == r"  denied b\x1b[31m.example.com  host.unknown  1x"


def test_a_log_that_cannot_be_read_is_no_failure(tmp_path: Path, capsys: Captured) -> None:
    assert summary.mark(FleetInfo(kind="fake")) is None
    assert summary.mark(FleetInfo(kind="fake", audit=tmp_path / "none")) is None
    summary.show(FleetInfo(kind="fake"), "mine", None)
    assert "cannot be read" in capsys.readouterr().err
