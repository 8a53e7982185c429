"""Hostile values in every position: a value opens its own literal text, and nothing else."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from egress.rules.compile.load import RuleText, load
from egress.rules.decide.decision import decide
from egress.rules.language.value_pattern import parse_value_pattern, value_fault
from egress.types import Head, Identity

PATTERN = "[a-zA-Z0-9._~@:+=,/-]+"
"""As wide as a pattern can be."""
RULES = f"""\
version: 1
parameters: {{p: {{pattern: "{PATTERN}"}}}}
hosts:
  a.example:
    allow:
      - {{id: path, paths: ["/repos/{{param.p}}/pulls", "/x-{{param.p}}.git/**"]}}
      - {{id: query, paths: [/query], query: {{q: "a{{param.p}}b"}}}}
      - {{id: header, paths: [/header], headers: {{x-h: "a{{param.p}}b"}}}}
    deny:
      - {{id: no, paths: ["/repos/acme/secret/**"]}}
"""
LOADED = load([RuleText("hosts.yaml", RULES)]).policy
assert LOADED is not None
POLICY = LOADED
HOSTILE = st.one_of(
    st.text("ab/.*%2eEfF{}?#;&\\ +=:@~-_", max_size=12),
    st.sampled_from(
        [
            "**",
            "*",
            "a/**",
            "..",
            "a/../b",
            "a/%2e%2e/b",
            "%2e%2e",
            "a//b",
            "/",
            "a/",
            "a%2Fb",
            "a;b",
            "a?b=c",
            "{param.p}",
            "${p}",
            "a\r\nx: y",
            "a\x00b",
            "é",
            "．．",
            "a|b",
            "(a)",
            "[a]",
            "acme/secret",
        ]
    ),
    st.text(max_size=8),
)
VALID = st.text("abAB09._~@:+=,/-", min_size=1, max_size=12).filter(lambda value: not value_fault(value))


def allows(value: str, target: str, headers: tuple[tuple[str, str], ...] = ()) -> bool:
    head = Head("GET", "https", "a.example", 443, target, headers)
    return decide(POLICY, Identity("box", None, (("p", value),)), head, 0).allowed


@given(HOSTILE, HOSTILE)
@example("acme/site", "acme/site")
@example("a/**", "a/b/c")
@example("*", "b")
def test_a_path_is_open_exactly_where_the_value_stands_in_it(value: str, asked: str) -> None:
    wire = asked.encode("utf-8", "replace").decode("latin-1")
    if allows(value, f"/repos/{wire}/pulls"):
        # Only the spelling of unreserved characters may differ: the text that is forwarded is the value's.
        head = Head("GET", "https", "a.example", 443, f"/repos/{wire}/pulls")
        target = decide(POLICY, Identity("box", None, (("p", value),)), head, 0).target
        assert target == f"/repos/{value}/pulls"
    if allows(value, f"/x-{wire}.git/info"):
        head = Head("GET", "https", "a.example", 443, f"/x-{wire}.git/info")
        target = decide(POLICY, Identity("box", None, (("p", value),)), head, 0).target
        assert target.startswith(f"/x-{value}.git/")


@given(HOSTILE, HOSTILE)
def test_a_query_and_a_header_are_open_for_the_value_alone(value: str, asked: str) -> None:
    wire = asked.encode("utf-8", "replace").decode("latin-1")
    escaped = "".join(f"%{ord(character):02X}" for character in wire)
    assert allows(value, f"/query?q=a{escaped}b") == (asked == value and not value_fault(value))
    assert allows(value, "/header", (("x-h", f"a{wire}b"),)) == (asked == value and not value_fault(value))


@given(VALID)
def test_every_sound_value_opens_its_path_and_a_deny_still_wins(value: str) -> None:
    assert parse_value_pattern(PATTERN).matches(value)
    is_denied = value.lower().startswith("acme/secret")
    assert allows(value, f"/repos/{value}/pulls") != is_denied
    assert allows(value, f"/x-{value}.git/info/refs")
    assert not allows(value, f"/repos/{value}")
    assert not allows(value, f"/repos/{value}x/pulls")
    assert not allows("acme/secret", "/repos/acme/secret/pulls")


@given(HOSTILE, st.sampled_from(["/open", "/repos/a/pulls", "/query?q=ab"]))
def test_an_unsound_value_opens_nothing_at_all(value: str, target: str) -> None:
    if value_fault(value):
        head = Head("GET", "https", "a.example", 443, target)
        assert decide(POLICY, Identity("box", None, (("p", value),)), head, 0).code == "parameter.refused"
