"""What each page shows."""

from __future__ import annotations

import html
import re
import time
from pathlib import Path
from urllib.parse import quote

import pytest

from egress.ui import pages
from egress.ui.pages import KINDS, MAX_NEAR_LINES, PAGE_LINES, PAGES
from tests.unit.ui.page_app import app, ask, denied, line, rules, write

BAD = "<script>window.pwned=1</script>\"'>\u202e\x1b[2J&lt;"
"""What a sandbox or an upstream may choose."""
FIELDS: tuple[str, ...] = (
    "sandbox",
    "profile",
    "listener",
    "entry",
    "connection",
    "request",
    "scheme",
    "host",
    "address",
)
FIELDS += ("sni", "method", "path", "code", "rule", "place", "policy", "client_tls", "upstream_tls", "alpn")


def test_the_list_shows_the_newest_first(tmp_path: Path) -> None:
    text = ask(app(tmp_path), "/").text
    lines = text[text.index('id="lines"') :]
    assert lines.index("docs.example.com") < lines.index("/gists") < lines.index("l-1-0")


@pytest.mark.parametrize(
    ("query", "there", "gone"),
    [
        ("verdict=deny", "/gists", "docs.example.com"),
        ("verdict=denied", "/gists", "docs.example.com"),
        ("host=docs.*", "docs.example.com", "/gists"),
        ("grep=gist", "/gists", "docs.example.com"),
        ("status=4xx&method=post", "/gists", "docs.example.com"),
    ],
)
def test_filters_stand_in_the_address(tmp_path: Path, query: str, there: str, gone: str) -> None:
    body = ask(app(tmp_path), f"/lines?{query}").text
    assert there in body
    assert gone not in body


def test_a_wrong_filter_is_told_beside_what_was_typed(tmp_path: Path) -> None:
    answer = ask(app(tmp_path), "/?verdict=maybe")
    assert answer.status == 400
    assert "there is no such verdict" in answer.text


def test_older_lines_are_on_another_page(tmp_path: Path) -> None:
    site = app(tmp_path, [line(n, path=f"/item-{n}.") for n in range(1, PAGE_LINES + 11)])
    first = ask(site, "/").text
    found = re.search(r'id="older" href="([^"]+)"', first)
    assert found is not None
    second = ask(site, html.unescape(found[1])).text
    assert "/item-60." in first
    assert "/item-10." not in first
    assert "/item-10." in second
    assert 'hx-get="/lines' not in second
    assert ask(site, "/?before=nonsense").status == 400


def test_new_lines_come_by_asking_for_them(tmp_path: Path) -> None:
    site = app(tmp_path)
    found = re.search(r'hx-get="(/lines[^"]+)"', ask(site, "/").text)
    assert found is not None
    again = html.unescape(found[1])
    assert ask(site, again).status == 204
    write(tmp_path, [line(9, path="/brand-new")])
    seen = None
    # The index counts as fresh for a second.
    for _ in range(200):
        answer = ask(site, again)
        if answer.status == 200:
            seen = answer
            break
        time.sleep(0.02)
    assert seen is not None
    assert "/brand-new" in seen.text


def test_a_held_list_asks_for_nothing(tmp_path: Path) -> None:
    assert 'hx-get="/lines' not in ask(app(tmp_path), "/?live=off").text


def test_a_request_has_all_its_stages_and_the_line_that_decided(tmp_path: Path) -> None:
    place = f"{rules(tmp_path)}:9"
    text = ask(app(tmp_path, [line(1, place=place)]), "/request?id=r-1").text
    for stage in ("came in", "decided", "answered", "ended"):
        assert stage in text
    assert "5 ms in total" in text
    assert "id: read, methods: [GET, HEAD]" in text
    assert "What would allow it?" not in text


def test_the_stages_stand_one_after_the_other(tmp_path: Path) -> None:
    """Each bar begins where the one before it ended; the last one is what was left of the whole."""
    took = {"secret_us": 100, "connect_us": 200, "first_byte_us": 500, "total_us": 1000}
    text = ask(app(tmp_path, [line(1, **took)]), "/request?id=r-1").text
    bars = re.findall(r'class="accent" x="([\d.]+)" y="0" width="([\d.]+)"', text)
    assert [(float(x), float(width)) for x, width in bars] == [(0, 10), (10, 20), (30, 50), (80, 20)]


def test_times_that_do_not_add_up_leave_the_bars_inside(tmp_path: Path) -> None:
    """A line is data: its parts may come to more than the whole."""
    text = ask(
        app(tmp_path, [line(1, connect_us=900, first_byte_us=900, total_us=10)]), "/request?id=r-1"
    ).text
    bars = re.findall(r'class="accent" x="([\d.]+)" y="0" width="([\d.]+)"', text)
    assert len(bars) == 3
    assert all(float(x) + float(width) <= 100 for x, width in bars)


def test_a_denied_request_leads_to_what_would_allow_it(tmp_path: Path) -> None:
    site = app(tmp_path)
    assert "/suggest?id=r-2" in ask(site, "/request?id=r-2").text
    answer = ask(site, "/suggest?id=r-2")
    assert answer.status == 200
    assert "/gists" in answer.text
    assert "methods: [POST]" in answer.text
    assert ask(site, "/suggest?id=none").status == 404


def test_a_line_without_an_id_is_found_by_its_place(tmp_path: Path) -> None:
    lines = [line(1, event="started", request="", connection="", verdict=None, host="")]
    site = app(tmp_path, lines)
    assert "/request?at=1%3A0" in ask(site, "/?events=on").text
    assert ask(site, "/request?at=1:0").status == 200
    assert ask(site, "/request?at=1:5").status == 404
    assert ask(site, "/request?id=none").status == 404
    assert ask(site, "/request").status == 400


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("sandbox", "agent-1"),
        ("host", "api.github.com"),
        ("secret", "github"),
        ("rule", "api.github.com#read"),
    ],
)
def test_every_thing_has_its_page(tmp_path: Path, kind: str, name: str) -> None:
    answer = ask(app(tmp_path), f"/{kind}?name={quote(name)}")
    assert answer.status == 200
    assert "<svg" in answer.text
    assert name in answer.text
    assert ask(app(tmp_path), f"/{kind}?name=none").status == 404


@pytest.mark.parametrize("path", ["/charts?", "/host?name=api.github.com&"])
def test_charts_leave_out_a_text_and_say_so(tmp_path: Path, path: str) -> None:
    """The totals are those without the text: searching every line would take minutes."""
    site = app(tmp_path)

    def totals(text: str) -> str:
        found = re.search(r'<dl class="tiles">.*?</dl>', text, re.DOTALL)
        assert found is not None
        return found[0]

    plain, searched = ask(site, path).text, ask(site, f"{path}grep=gists").text
    assert totals(searched) == totals(plain)
    assert "ignore the text filter" in searched
    assert "ignore the text filter" not in plain
    assert "/?grep=gists" in searched or "&amp;grep=gists" in searched


def test_the_rules_page_counts_and_marks(tmp_path: Path) -> None:
    text = ask(app(tmp_path), "/rules").text
    assert "shadowed" in text
    assert "unused" in text
    assert "api.github.com#narrow" in text


PLANTED = """\
version: 1
canaries: { key: { like: aws, env: AWS_ACCESS_KEY_ID } }
hosts:
  pinned.example.com: { intercept: never }
  api.github.com: { methods: [GET] }
"""


def test_canaries_and_what_passes_unread_are_no_unknown_rules(tmp_path: Path) -> None:
    canary = {"code": "canary.seen", "rule": "canaries#key", "place": "hosts.yaml:2"}
    unread = {"event": "tunnel", "host": "pinned.example.com", "rule": None, "code": "host.allowed"}
    site = app(tmp_path, [denied(1, **canary), line(2, **unread)])
    rules(tmp_path).write_text(PLANTED)
    text = ask(site, "/rules").text
    assert "canaries#key" in text
    assert "not in the files" not in text
    assert "is not in the current rule files" not in ask(site, "/rule?name=canaries%23key").text
    rows = {row.split("</a>")[0].rpartition(">")[2]: row for row in text.split("<tr")[2:]}
    assert "unused" not in rows["pinned.example.com#host"]
    assert "unused" in rows["api.github.com#host"]
    one = ask(site, "/rule?name=pinned.example.com%23host")
    assert one.status == 200
    # What it shows are its tunnels, for they name no rule.
    assert "/?host=pinned.example.com&amp;event=tunnel" in one.text
    assert "r-2" in one.text
    assert "No matching requests." not in one.text


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_canary_gets_no_yaml_whether_the_rules_allow_its_request_or_not(
    tmp_path: Path, method: str
) -> None:
    site = app(tmp_path, [denied(1, code="canary.seen", rule="canaries#key", method=method, path="/gists")])
    text = ask(site, "/suggest?id=r-1").text
    assert 'class="problem">No suggestion: it carried a canary' in text
    assert "Write in <b>" not in text
    assert "Verdict with the change" not in text


def test_drafts_and_replays(tmp_path: Path) -> None:
    site = app(tmp_path)
    made = ask(site, "/draft?what=draft&since=7d").text
    assert "api.github.com:" in made
    assert "Nothing newly denied; 3 unchanged." in made
    assert "Newly denied: 1 request; " in ask(site, "/draft?what=replay&since=7d").text
    assert "Newly denied: 1 request; " in ask(site, "/replay?since=7d").text
    # The first visit shows a draft at once, where that costs little.
    assert "api.github.com:" in ask(site, "/draft?since=7d").text
    assert ask(site, "/draft?what=draft&since=soon").status == 400


def test_the_chain_is_on_every_page(tmp_path: Path) -> None:
    site = app(tmp_path)
    queries = {
        "/request": "?id=r-1",
        "/suggest": "?id=r-2",
        **{f"/{kind}": "?name=agent-1" for kind in KINDS},
    }
    for path in PAGES.keys() - {"/lines", "/strip"}:
        assert 'id="chain"' in ask(site, path + queries.get(path, "")).text, path
    part = ask(site, "/chain", {"hx-request": "true"}).text
    assert part.startswith('<a id="chain"')
    assert "not verified yet" in part


def test_nothing_of_a_line_is_markup_on_any_page(tmp_path: Path) -> None:
    """Every field holds the payload; the good twin, an unescaped page, is in tests/ui."""
    bad = dict.fromkeys(FIELDS, BAD)
    injected = [{"secret": BAD, "slot": BAD}]
    lines = [line(1, **bad, injected=injected, scrubbed={BAD: 1}), denied(2, **bad, facts={"body_item": BAD})]
    lines.append(
        line(3, event=BAD, verdict=None, host="", request="", connection="", reason=BAD, **{BAD: BAD})
    )
    site = app(tmp_path, lines)
    name = quote(BAD)
    paths = [
        "/",
        "/lines",
        "/strip",
        "/charts",
        "/rules",
        "/draft?what=draft&since=7d",
        f"/request?id={name}",
    ]
    paths += ["/draft?what=replay&since=7d", f"/suggest?id={name}", f"/?grep={name}&verdict={name}", "/chain"]
    paths += [f"/{kind}?name={name}" for kind in KINDS] + [f"/?code={name}", f"/?host={name}"]
    for path in paths:
        answer = ask(site, path)
        assert answer.status in (200, 204, 400, 404), path
        assert "<script>window" not in answer.text, path
        assert "\u202e" not in answer.text, path
        assert "\x1b" not in answer.text, path
    assert "&lt;script&gt;window.pwned=1" in ask(site, "/").text


def test_a_connection_of_days_does_not_make_a_page_of_days(tmp_path: Path) -> None:
    site = app(tmp_path, [line(n, connection="c-1") for n in range(1, 200)])
    assert ask(site, "/request?id=r-150").text.count("<tr class=") == MAX_NEAR_LINES


def test_a_first_visit_does_not_read_a_large_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MAX_DRAFTED", 2)
    site = app(tmp_path)
    for path in ("/draft", "/replay"):
        text = ask(site, f"{path}?since=7d").text
        assert "There are 3 requests in this time" in text
        assert "unchanged" not in text
    assert "unchanged" in ask(site, "/draft?what=draft&since=7d").text


ABOUT_PROXY: dict[str, object] = {"request": "", "connection": "", "verdict": None, "host": ""}


def test_events_of_the_proxy_are_left_out_of_the_list_until_they_are_asked_for(tmp_path: Path) -> None:
    about = ABOUT_PROXY
    site = app(tmp_path, [line(1, event="started", **about), line(2), line(3, event="stopped", **about)])
    for path in ("/", "/lines"):
        text = ask(site, path).text
        assert "2 events of the proxy left out" in text
        assert ">started<" not in text
    for path in ("/?events=on", "/?event=started", "/lines?events=on"):
        text = ask(site, path).text
        assert "left out" not in text
        assert ">started<" in text
    # The live list goes on with the choice.
    assert "&amp;events=on" in ask(site, "/?events=on").text


def test_a_gap_in_the_log_is_never_left_out(tmp_path: Path) -> None:
    assert ">gap<" in ask(app(tmp_path, [line(1, event="gap", **ABOUT_PROXY)]), "/").text


def test_equal_lines_are_one_row_with_their_number(tmp_path: Path) -> None:
    text = ask(app(tmp_path, [denied(n) for n in range(1, 21)]), "/?verdict=deny").text
    assert text.partition('id="lines"')[2].count('<tr class="deny">') == 1
    assert "×20</b>" in text
    assert "20 equal lines, the first at 2026-03-01 09:30:01 UTC" in text


def test_refused_pushes_of_different_refs_are_rows_of_their_own(tmp_path: Path) -> None:
    refs = ["refs/heads/main", "refs/heads/main", "refs/heads/other"]
    lines = [denied(n, facts={"body_item": f"update {ref}"}) for n, ref in enumerate(refs, 1)]
    text = ask(app(tmp_path, lines), "/?verdict=deny").text.partition('id="lines"')[2]
    assert (text.count('<tr class="deny">'), text.count("update refs/heads/main")) == (2, 1)
    assert "update refs/heads/other" in text


def test_what_was_stopped_stands_first_by_host_and_reason(tmp_path: Path) -> None:
    lines = [denied(n, path=f"/{n}") for n in range(5)]
    lines += [denied(9, host="evil.example", code="host.unknown", sandbox="agent-2"), line(10)]
    site = app(tmp_path, lines)
    text = ask(site, "/").text
    assert "Stopped: 6 requests in 2 groups" in text
    assert "/?verdict=deny&amp;host=evil.example&amp;code=host.unknown" in text
    assert "and 2 other paths" in text
    assert text.index('id="denied"') < text.index('id="lines"')
    assert "Stopped" not in ask(site, "/?verdict=allow").text
    assert "Stopped: 1 request in 1 group" in ask(site, "/?sandbox=agent-2").text


def test_a_view_is_exported_as_it_is_filtered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = [line(1), denied(2, path="/=1+1"), line(3)]
    site = app(tmp_path, raw)
    made = ask(site, "/export?format=csv&verdict=deny")
    assert made.headers["content-disposition"] == 'attachment; filename="egress-log.csv"'
    assert [row.count("r-2") for row in made.text.splitlines()] == [0, 1]
    assert ask(site, "/export?format=json").text.encode() == b"".join(reversed(raw))
    monkeypatch.setattr(pages, "MAX_EXPORTED", 2)
    made = ask(site, "/export?format=json")
    assert made.headers["content-disposition"] == 'attachment; filename="egress-log-newest.jsonl"'
    assert made.text.encode() == raw[2] + raw[1]
    assert ask(site, "/export?format=xml").status == 400
    assert ask(site, "/export?format=csv&status=no").status == 400


WITH_PRESET = "version: 1\nuse: [{ github: { read: [acme/app] } }]\n"


@pytest.mark.parametrize(("place", "is_shown"), [("hosts.yaml:2", True), ("hosts.yaml:9", False)])
def test_a_denial_of_a_preset_shows_its_line_where_it_is_the_line_that_decided(
    tmp_path: Path, place: str, *, is_shown: bool
) -> None:
    rule = {"host": "api.github.com", "path": "/graphql", "rule": "api.github.com#github-no-graphql"}
    site = app(tmp_path, [denied(1, **rule, place=place, code="rule.denied")])
    rules(tmp_path).write_text(WITH_PRESET)
    text = ask(site, "/request?id=r-1").text
    assert "GraphQL says in its body what it does" in text
    assert "<code>graphql: read-write</code>" in text
    assert ("<figcaption>preset github:" in text) is is_shown
    assert ("id: no-graphql" in text) is is_shown


def test_rules_are_grouped_by_entry_searched_and_sorted(tmp_path: Path) -> None:
    site = app(tmp_path, [line(1, rule="b.example.com#host"), line(2, rule="b.example.com#host")])
    hosts = "hosts:\n  a.example.com: {}\n  b.example.com: {}\n"
    rules(tmp_path).write_text(WITH_PRESET + hosts)
    text = ask(site, "/rules").text
    assert '<details class="group"><summary><b class="t">api.github.com' in text
    assert '<details class="group" open><summary><b class="t">a.example.com' in text
    assert text.index(">a.example.com<") < text.index(">b.example.com<")
    text = ask(site, "/rules?sort=hits").text
    assert text.index(">b.example.com<") < text.index(">a.example.com<")
    text = ask(site, "/rules?find=GRAPHQL").text
    assert "github-no-graphql" in text
    assert ">a.example.com<" not in text
    assert "No rule fits." in ask(site, "/rules?find=nothing-like-that").text


def test_a_request_can_be_copied_as_a_command(tmp_path: Path) -> None:
    text = ask(app(tmp_path, [line(1, path="/it's;x")]), "/request?id=r-1").text
    copied = [html.unescape(each) for each in re.findall(r'data-copy="([^"]*)"', text)]
    assert """curl -i -X GET 'https://api.github.com/it'"'"'s;x'""" in copied
    assert 'data-copy="r-1"' in text


def test_a_suggestion_for_a_package_index_offers_its_preset(tmp_path: Path) -> None:
    asked = denied(1, method="GET", host="packages.example.org", path="/simple/a/", code="host.unknown")
    text = ask(app(tmp_path, [asked]), "/suggest?id=r-1").text
    assert "<h2>Or a preset</h2>" in text
    assert "- { python-index: {index: packages.example.org, files: [packages.example.org]} }" in text
    assert "Or a preset" not in ask(app(tmp_path, [denied(2)]), "/suggest?id=r-2").text


def test_a_suggestion_that_has_nothing_leads_on(tmp_path: Path) -> None:
    site = app(tmp_path, [denied(1, code="canary.seen", rule="canaries#key")])
    text = ask(site, "/suggest?id=r-1").text
    assert "<h2>Next</h2>" in text
    assert "/request?id=r-1" in text
    assert "/host?name=api.github.com" in text


def test_the_lines_of_every_run_are_one_list_by_time_page_by_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PAGE_LINES", 2)
    write(tmp_path, [line(1, path="/1", run="one"), denied(4, run="one"), line(5, path="/5", run="one")])
    (tmp_path / "log/chains/0002").mkdir(parents=True)
    (tmp_path / "log/chains/0002/audit-000001.jsonl").write_bytes(
        line(2, path="/2", run="two") + line(3, path="/3", run="two")
    )
    site, address, found = app(tmp_path, [line(6, path="/6", run="one")]), "/", list[str]()
    while address:
        text = ask(site, address).text
        found += re.findall(r'id="l-[^"]*" href="/request\?id=(r-\d)"', text[text.index('id="lines"') :])
        older = re.search(r'id="older" href="([^"]*)"', text)
        address = html.unescape(older[1]) if older else ""
    assert found == [f"r-{number}" for number in range(6, 0, -1)]
    assert "run two" in ask(site, "/request?id=r-3").text
    assert "r-3" in ask(site, "/lines?run=two").text
    assert "r-4" not in ask(site, "/lines?run=two").text
