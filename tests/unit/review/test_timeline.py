"""The story of a request: its stages in order, and nothing that did not happen."""

from __future__ import annotations

from pathlib import Path

from egress.review import LogEntry, parse
from egress.review.timeline import build_timeline
from tests.unit.audit.sample import abandon, files, opened
from tests.unit.review.sample import OPENING, write


def stories(folder: Path) -> list[dict[str, str]]:
    return [
        {stage.name: stage.text for stage in build_timeline(parse(line))}
        for line in files(folder)[0].read_bytes().splitlines()
    ]


def test_an_exchange_is_told_stage_by_stage(tmp_path: Path) -> None:
    write(tmp_path)
    told = stories(tmp_path)
    first = told[1]
    assert list(first)[:4] == ["from", "came in", "asked", "decided"]
    assert first["asked"] == "GET https://api.github.com/repos/acme/app"
    assert first["decided"] == "allow, rule.allowed, by rule api.github.com#read, at hosts.yaml:14"
    assert first["secrets"] == "github into header:authorization"
    assert first["scrubbed"] == "github 2 times"
    assert told[4]["asked"] == "POST https://mail.example.com:8443/send/Größe"
    assert told[4]["answered"] == "with 502"
    assert "secrets" not in told[3]
    assert told[6]["asked"] == "evil.example"
    assert told[0]["files"] == "hosts.yaml"


def test_a_request_of_a_pod_says_which_claim_pod_and_replica() -> None:
    fields = {
        "event": "exchange",
        "sandbox": "python-x4k2p",
        "claim": "agent-7",
        "namespace": "agents",
        "pod": "python-x4k2p-0",
        "peer": "10.244.0.17",
        "replica": "egress-proxy-1",
        "entry": "sni",
        "listener": "default",
    }
    told = {stage.name: stage.text for stage in build_timeline(LogEntry(1, "", 0, "exchange", fields, b""))}
    assert told["from"] == "sandbox python-x4k2p, claim agent-7"
    assert told["pod"] == "agents/python-x4k2p-0, at 10.244.0.17"
    assert told["came in"] == "by sni at listener default of egress-proxy-1"


def test_what_a_kill_interrupted_says_whether_it_was_sent(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    sink.sent(sink.begin(OPENING))
    abandon(sink)
    opened(tmp_path).close()
    told = stories(tmp_path)[-1]
    assert told["lost"] == "the proxy was killed meanwhile; the first byte had gone out"
    assert told["secrets"] == "github"


def test_fields_of_any_type_make_a_story() -> None:
    raw = (
        b'{"seq":1,"time":"2026-03-01T09:30:00.000123Z","event":"exchange","injected":[1,{"a":2}],'
        b'"scrubbed":[],"status":"x","mac":""}'
    )
    assert build_timeline(parse(raw))


def test_facts_and_fields_with_a_title_are_told() -> None:
    facts = {"graphql.operation": "query", "depth": 3, "cached": True, "empty": ""}
    line = LogEntry(1, "", 0, "exchange", {"event": "exchange", "facts": facts}, b"")
    found = [stage.text for stage in build_timeline(line) if stage.name == "found"]
    assert found == ["graphql.operation query", "depth 3", "cached yes"]


def test_a_fact_does_not_pose_as_a_stage() -> None:
    line = LogEntry(
        1, "", 0, "exchange", {"event": "exchange", "method": "GET", "facts": {"asked": "x"}}, b""
    )
    told = {stage.name: stage.text for stage in build_timeline(line)}
    assert (told["asked"].split()[0], told["found"]) == ("GET", "asked x")


def test_the_reason_of_a_deny_is_told_with_the_decision() -> None:
    fields = {"event": "exchange", "verdict": "deny", "code": "rule.denied", "facts": {"reason": "Why not."}}
    told = {stage.name: stage for stage in build_timeline(LogEntry(1, "", 0, "exchange", fields, b""))}
    assert told["decided"].note.endswith("rule denies this request. Why not.")
    assert not told["found"].text if "found" in told else True
