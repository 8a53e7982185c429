"""From traffic to rules, whatever the traffic: a draft denies nothing of it and opens nothing else."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from egress.review.drafting import Traffic, draft
from egress.review.drafting.observation import observe
from egress.review.drafting.rule_outline import WIDER
from egress.rules.compile.load import RuleText, load
from egress.rules.compile.rule_tests import run_rule_tests
from egress.rules.decide.decision import decide, decide_host
from egress.rules.language.credential_guess import looks_like_credential
from egress.types import Head, Identity
from tests.tiers import examples
from tests.unit.review.drafting.sample import NOW, exchange, tunnel

HOSTS = ["api.example.com", "files.example.com", "x.y.example.net", "192.0.2.7", "xn--bcher-kva.example"]
METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PROPFIND", "no", "M-SEARCH"]
WORDS = [
    "repos",
    "acme",
    "issues",
    "user",
    "v1",
    "v2",
    "no",
    "true",
    "-",
    "~",
    "a*b",
    "**",
    "*",
    "a:b",
    "@x",
    "%2A",
]
IDENTIFIERS = [
    *(str(number) for number in range(1, 30)),
    *(f"2026-03-{day:02}" for day in range(1, 6)),
    *(f"report-{number}.csv" for number in range(4)),
    *(f"1.{number}.0" for number in range(4)),
    "0123456789abcdef0123456789abcdef01234567",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "7d444840-9dc0-11d1-b245-5ffdce74fad2",
    "aB3dE5gH7j",
    "a%2Fb",
    "%20",
    "a;b",
    "",
    "%E2%82%AC",
    "\x1b[31m",
    "\u202eevil",
    "#x",
    ": y",
    "'\"",
]
SEGMENTS = st.sampled_from(WORDS + IDENTIFIERS) | st.text(max_size=6)
PATHS = st.lists(SEGMENTS, max_size=5).map(lambda segments: "/" + "/".join(segments)) | st.just("*")
SECRETS = st.sampled_from(
    [
        [],
        [("github", "header:authorization")],
        [("other", "header:authorization")],
        [("key", "query:api_key"), ("github", "header:x-token")],
        [("Bad Name", "header:\nx")],
        [("path", "path")],
    ]
)
CODES = st.sampled_from(["observed", "rule.allowed", "upstream.closed", "upstream.unresolved"])


@st.composite
def lines(draw: st.DrawFn) -> list[dict[str, object]]:
    """Lines as a log may hold them, and lines as nobody wrote them."""
    found: list[dict[str, object]] = []
    for _ in range(draw(st.integers(0, 14))):
        host = draw(st.sampled_from(HOSTS) | st.text(max_size=8))
        if draw(st.integers(0, 8)) == 0:
            found.append(tunnel(host))
            continue
        line = exchange(
            draw(st.sampled_from(METHODS) | st.text(max_size=4)),
            host,
            draw(PATHS),
            scheme=draw(st.sampled_from(["https", "https", "https", "http"])),
            port=draw(st.sampled_from([443, 443, 8443, 80])),
            status=draw(st.sampled_from([200, 200, 101])),
            alpn=draw(st.sampled_from(["http/1.1", "h2"])),
            address=draw(st.sampled_from(["93.184.216.34", "10.0.0.9", ""])),
            injected=draw(SECRETS),
            code=draw(CODES),
        )
        if draw(st.integers(0, 9)) == 0:
            line |= {
                "verdict": "deny",
                "code": draw(st.sampled_from(["rule.none", "host.unknown", "limit.requests"])),
            }
        elif draw(st.integers(0, 4)) == 0:
            # Cut, as this version writes it and as version 0.1.0 did.
            line |= {
                "verdict": draw(st.sampled_from(["cut", "allow"])),
                "code": draw(st.sampled_from(["canary.seen", "limit.response_body", "access.withdrawn"])),
            }
        found.append(line)
    return found


@settings(max_examples=examples(250), deadline=None)
@given(lines())
def test_a_draft_denies_nothing_of_what_it_was_made_from(found: list[dict[str, object]]) -> None:
    traffic = Traffic.of(found)
    made = draft(traffic, None, NOW)
    denied = sum(change.count for change in made.replayed.denied)
    # What cannot be written into any rule is said in so many words, and nothing else is missing.
    assert denied <= sum(one.count for one in made.left_out), (made.text, made.replayed.denied)
    if not made.left_out:
        assert not made.replayed.denied


@settings(max_examples=examples(250), deadline=None)
@given(lines())
def test_a_draft_opens_no_host_and_no_method_that_did_not_pass(found: list[dict[str, object]]) -> None:
    made = draft(Traffic.of(found), None, NOW)
    read = [one for line in found if (one := observe(line)) is not None]
    # Judged by the code alone: whatever its verdict says, a line that tells of a stop is none that passed.
    whole = {"rule.allowed", "host.allowed", "observed", "upstream.closed"}
    read = [one for one in read if one.code in whole or not one.passed]
    passed = {(one.host, one.method) for one in read if one.passed and one.kind == "request"}
    hosts = {one.host for one in read if one.passed}
    who = Identity("test")
    for host in {*HOSTS, *(one.host for one in read), "elsewhere.example.com"}:
        ports = {one.port for one in read if one.host == host and one.passed}
        for port in (443, 8443, 80, 22):
            for scheme in ("https", "http"):
                if decide_host(made.policy, who, host, port, NOW, scheme=scheme).allowed:
                    assert host in hosts
                    assert port in ports
        if any(one.kind == "tunnel" and one.host == host for one in read):
            continue
        for method in METHODS:
            for path in ("/", "/1", "/repos/acme", "*"):
                head = Head(method, "https", host, 443, path)
                assert not decide(made.policy, who, head, NOW).allowed or (host, method) in passed


@settings(max_examples=examples(250), deadline=None)
@given(lines())
def test_a_draft_is_sound_steady_and_holds_nothing_that_looks_like_a_credential(
    found: list[dict[str, object]],
) -> None:
    made = draft(Traffic.of(found), None, NOW)
    loaded = load([RuleText("draft", made.text)], None, NOW)
    assert loaded.policy is not None
    assert [str(one) for one in loaded.findings if "not a common method" not in one.message] == []
    assert not any(result.problem for result in run_rule_tests(loaded.policy, NOW))
    assert draft(Traffic.of(found), None, NOW).text == made.text
    assert draft(Traffic.of(reversed(found)), None, NOW).text == made.text
    assert all(line.isprintable() for line in made.text.split("\n"))
    assert not any(looks_like_credential(word) for word in made.text.split())


@settings(max_examples=examples(150), deadline=None)
@given(lines())
def test_whatever_is_not_literal_is_marked(found: list[dict[str, object]]) -> None:
    """An asterisk in a path, a rule without paths and an unread host each say that they are wider."""
    above = ""
    for line in draft(Traffic.of(found), None, NOW).text.splitlines():
        value = line.partition("  #")[0]
        if value.lstrip().startswith(('- "/', "- /")) and "*" in value:
            assert WIDER in line + above, line
        above = line
