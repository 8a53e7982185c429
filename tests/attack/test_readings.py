"""What a server may read in another way than the rules: parameters, headers, escapes, charsets.

The neighbours of S-16 and S-17: each case comes with the plain request, which passes.
"""

from __future__ import annotations

import pytest

from egress.exchange.content_coding import ContentCoding
from egress.exchange.response import coding_of
from tests.unit.rules.rule_samples import decision_text, errors, policy

HOST = "https://a.example.com"
LIST = policy("hosts: {a.example.com: {allow: [{id: list, methods: [GET], query: {action: list}}]}}")
SAFE = policy("hosts: {a.example.com: {allow: [{id: safe, query: {delete: {absent: true}}}]}}")
SCOPED = policy(
    """
    hosts:
      a.example.com: {allow: [{id: open, paths: ["/open/**"]}], deny: [{id: no, paths: [/open/admin]}]}
    """
)
HEADED = policy(
    """
    hosts:
      a.example.com: {allow: [{id: list, headers: {x-target: List}}]}
      b.example.com: {allow: all, deny: [{id: drop, headers: {x-target: Drop}}]}
    """
)


def test_the_plain_twins_pass() -> None:
    assert decision_text(LIST, f"GET {HOST}/?action=list&x=1") == "allow list"
    assert decision_text(SAFE, f"GET {HOST}/?x=1") == "allow safe"
    assert decision_text(SCOPED, f"GET {HOST}/open/x") == "allow open"
    assert decision_text(HEADED, f"GET {HOST}/", headers=(("x-target", "List"),)) == "allow list"
    assert (
        decision_text(HEADED, "GET https://b.example.com/", headers=(("x-target", "List"),)) == "allow host"
    )


@pytest.mark.parametrize(
    "query",
    [
        "x=1;action=drop&action=list", "action=list&x;action=drop", "action=list&Action=drop",
        "action=list&action%00=drop", "action=list&+action=drop", "action=list&action[]=drop",
        "action=list;action=drop",
    ],
)  # fmt: skip
def test_an_allow_wants_every_parameter_to_fit_that_may_be_taken_for_it(query: str) -> None:
    assert decision_text(LIST, f"GET {HOST}/?{query}") == "deny rule.none"


@pytest.mark.parametrize("query", ["x;delete=1", "Delete=1", "delete[]=1", "+delete", "delete%00x=1"])
def test_absent_means_absent_in_every_reading(query: str) -> None:
    assert decision_text(SAFE, f"GET {HOST}/?{query}") == "deny rule.none"


def test_headers_that_servers_join_are_one() -> None:
    both = (("x-target", "List"), ("x_target", "Drop"))
    assert decision_text(HEADED, f"GET {HOST}/", headers=both) == "deny rule.none"
    for spelling in (("x_target", "Drop"), ("x-target", "List, Drop"), ("x_target", "drop , List")):
        assert decision_text(HEADED, "GET https://b.example.com/", headers=(spelling,)) == "deny drop"


@pytest.mark.parametrize("path", ["/open/admin%3Fx", "/open/x%3f", "/open/%3F/y"])
def test_an_escaped_question_mark_is_refused_where_rules_look_at_paths(path: str) -> None:
    assert decision_text(SCOPED, f"GET {HOST}{path}") == "deny path.ambiguous"


@pytest.mark.parametrize("name", ["x-original-url", "x-rewrite-url", "x_original_url", "x-original-uri"])
def test_a_header_cannot_replace_the_path_that_was_matched(name: str) -> None:
    assert (
        decision_text(SCOPED, f"GET {HOST}/open/x", headers=((name, "/open/admin"),)) == "deny path.override"
    )


@pytest.mark.parametrize(
    "charset", ["utf-16le", "UTF-16", "utf-32", "cp037", "ibm500", "utf-7", "hz-gb-2312"]
)
def test_a_charset_that_hides_ascii_counts_as_a_coding(charset: str) -> None:
    """A secret in UTF-16 has a NUL behind every letter: no needle would find it."""
    assert coding_of((("content-type", f"text/plain; charset={charset}"),)) is ContentCoding.UNREADABLE
    odd = f'text/plain; a=b; Charset = "{charset}"'
    assert coding_of((("content-type", odd),)) is ContentCoding.UNREADABLE


@pytest.mark.parametrize(
    "value",
    ["text/html", "text/html; charset=utf-8", 'a/b; charset="ISO-8859-1"', "a/b;charset=windows-1252"],
)
def test_a_usual_charset_passes(value: str) -> None:
    assert coding_of((("content-type", value),)) is ContentCoding.PLAIN


def test_texts_that_mean_something_else_to_others_are_refused() -> None:
    (found,) = errors("hosts: {a.example.com: {ports: [0443]}}")
    assert "this must be a whole number" in found
    (found,) = errors("hosts: {a.example.com: {methods: ['*']}}")
    assert "remove `methods` to allow every method" in found
    (found,) = errors("hosts: {a.example.com: {}}\nprofiles: {default: {hosts: [a.example.com], rules: []}}")
    assert "`rules` is empty" in found
