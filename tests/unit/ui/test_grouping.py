"""Groups of lines: what is joined, what is counted, and that nothing is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from egress.review import LogEntry
from egress.review.entry import parse
from egress.ui.grouping import QUIET_EVENTS, denial_groups, folded
from tests.unit.ui.page_app import denied, line


def entries(*lines: bytes) -> list[LogEntry]:
    return [parse(each.rstrip(b"\n")) for each in lines]


def test_equal_lines_in_a_row_are_one_row() -> None:
    rows = folded(entries(denied(5), denied(4), denied(3), line(2), denied(1)))
    assert [(row.count, row.newest.seq, row.oldest.seq) for row in rows] == [(3, 5, 3), (1, 2, 2), (1, 1, 1)]


def test_lines_that_differ_in_anything_shown_stay_apart() -> None:
    others: list[dict[str, object]] = [{"path": "/b"}, {"sandbox": "agent-2"}, {"host": "b.example.com"}]
    others += [{"method": "PUT"}, {"code": "host.unknown"}, {"status": 404}]
    for other in others:
        assert len(folded(entries(denied(2), denied(1, **other)))) == 2


def test_events_of_the_proxy_are_never_joined() -> None:
    about: dict[str, object] = {"event": "gap", "verdict": None, "request": "", "host": ""}
    assert len(folded(entries(line(2, **about), line(1, **about)))) == 2
    assert "gap" not in QUIET_EVENTS


def test_denials_are_counted_by_host_and_reason() -> None:
    found = denial_groups(
        entries(
            denied(6, host="b.example.com", code="host.unknown"),
            denied(5, path="/a"),
            denied(4, path="/a", sandbox="agent-2"),
            *(denied(n, path=f"/{n}") for n in range(3)),
        )
    )
    assert [(group.newest.text("host"), group.count) for group in found] == [
        ("api.github.com", 5),
        ("b.example.com", 1),
    ]
    first = found[0]
    assert (first.newest.seq, first.examples[0], first.others) == (5, "POST /a", 1)
    assert (first.sandbox_examples, first.other_sandboxes) == (["agent-1", "agent-2"], 0)


def test_what_was_cut_is_a_group_of_its_own() -> None:
    found = denial_groups(entries(denied(2, code="canary.seen"), line(1, verdict="cut", code="canary.seen")))
    assert sorted(group.newest.verdict for group in found) == ["cut", "deny"]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["/x", "/y"]), st.booleans()), max_size=30))
def test_every_line_is_in_exactly_one_row_and_in_order(drawn: list[tuple[str, str, bool]]) -> None:
    lines = [
        (denied if is_denied else line)(n, host=f"{host}.example.com", path=path)
        for n, (host, path, is_denied) in enumerate(drawn)
    ]
    given_entries = entries(*lines)
    rows = folded(given_entries)
    assert [entry for row in rows for entry in row.entries] == given_entries
    stopped = [entry for entry in given_entries if entry.verdict == "deny"]
    assert sum(group.count for group in denial_groups(stopped)) == len(stopped)


def test_a_group_names_the_refs_that_were_refused() -> None:
    refused = [
        denied(number, path="/acme/app/git-receive-pack", method="POST", facts={"body_item": item})
        for number, item in enumerate(
            ("update refs/heads/main", "update refs/heads/main", "delete refs/heads/x")
        )
    ]
    (group,) = denial_groups(entries(*refused))
    assert group.examples == [
        "POST /acme/app/git-receive-pack update refs/heads/main",
        "POST /acme/app/git-receive-pack delete refs/heads/x",
    ]
