"""A grant is read strictly, judged by the delegations, and judged again by other rules."""

from __future__ import annotations

import pytest

from egress.errors import UsageError
from egress.rules.compile.delegations import MAX_GRANT_SECONDS
from egress.rules.compile.grants import (
    MAX_CALLER_CHARS,
    MAX_GRANT_TEXTS,
    NotDelegatedError,
    covering,
    grant_fields,
    read_grant,
    read_terms,
    terms_text,
    with_overlays,
)
from egress.types import Identity
from tests.unit.rules.grant_samples import BOX, granted, with_profile
from tests.unit.rules.rule_samples import policy

GOOD = {"kind": "allow", "host": "files.example", "methods": ["GET"], "paths": ["/a/**"], "ttl": 60}
RULES = policy("""
    hosts: {a.example: {}}
    profiles: {default: {hosts: [a.example]}, wide: {hosts: [a.example]}}
    delegate:
      - {id: reads, to: {sandboxes: [box]}, ttl: 10m, hosts: ["*.example"], methods: [GET], paths: [/a/**]}
      - {id: stops, to: {sandboxes: ["*"]}, ttl: 1d, hosts: ["**.example"], may: [deny]}
      - {id: widen, to: {sandboxes: [box]}, ttl: 600, profiles: [wide]}
""")


# Reading ------------------------------------------------------------------------------------------


def test_a_change_is_read_as_a_rule_of_a_file_is() -> None:
    terms = read_terms({**GOOD, "host": "FILES.example.", "paths": ["/%61/**"], "by": "alice"})
    assert terms_text(terms) == "allow GET https://files.example/a/**"
    assert (terms.ttl, terms.port, terms.by) == (60, 443, "alice")
    whole = read_terms({"kind": "deny", "host": "*.example", "port": 8443, "ttl": 60})
    assert terms_text(whole) == "deny * https://*.example:8443/**"
    assert terms_text(read_terms({"kind": "profile", "profile": "wide", "ttl": 1})) == "profile wide"


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"kind": "maybe"}, "kind"),
        ({"kind": None}, "kind"),
        ({"ttl": None}, "time"),
        ({"ttl": 0}, "time"),
        ({"ttl": True}, "time"),
        ({"ttl": "60"}, "time"),
        ({"ttl": MAX_GRANT_SECONDS + 1}, "time"),
        ({"host": None}, "no host"),
        ({"host": "10.0.0.1"}, "a number"),
        ({"host": "a.example:443"}, "port"),
        ({"host": "https://a.example/"}, "URL"),
        ({"host": "a..example"}, "empty label"),
        ({"host": 'a.example": {}, "b.example'}, "not a host"),
        ({"host": "x" * 5000}, "characters"),
        ({"port": 0}, "no host"),
        ({"port": "443"}, "no host"),
        ({"port": 65536}, "no host"),
        ({"methods": "GET"}, "list of texts"),
        ({"methods": [1]}, "list of texts"),
        ({"methods": []}, "empty list"),
        ({"methods": ["get"]}, "upper case"),
        ({"methods": ["TRACE"]}, "never forwarded"),
        ({"methods": [f"M{n}" for n in range(MAX_GRANT_TEXTS + 1)]}, "at most"),
        ({"paths": ["a"]}, "slash"),
        ({"paths": ["/a/../b"]}, "canonical"),
        ({"paths": ["/a?b"]}, "query"),
        ({"paths": ["/\ud800"]}, ""),
        ({"paths": ["/ghp_" + "a1B2" * 9]}, "credential"),
        ({"by": 7}, "who asks"),
        ({"by": "a\nb"}, "who asks"),
        ({"by": "x" * (MAX_CALLER_CHARS + 1)}, "who asks"),
        ({"by": "ghp_" + "a1B2" * 9}, "credential"),
        ({"secret": "x"}, "unknown key"),
        ({"inject": []}, "unknown key"),
        ({"profile": "wide"}, "unknown key"),
        ({"headers": {}}, "unknown key"),
        ({"websocket": True}, "unknown key"),
        ({"kind": "profile"}, "unknown key"),
    ],
)
def test_anything_else_is_refused(wrong: dict[str, object], why: str) -> None:
    read_terms(GOOD)
    with pytest.raises(UsageError) as raised:
        read_terms(GOOD | wrong)
    assert why in raised.value.message
    assert "a1B2" not in raised.value.message


@pytest.mark.parametrize("profile", [None, "", 7])
def test_a_profile_is_named(profile: object) -> None:
    with pytest.raises(UsageError, match="no profile"):
        read_terms({"kind": "profile", "ttl": 60, "profile": profile})


# Judging ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "delegation"),
    [
        ({}, "reads"),
        ({"paths": ["/a", "/a/b/*"]}, "reads"),
        ({"ttl": 600}, "reads"),
        ({"host": "*.example"}, "reads"),
        ({"kind": "deny"}, "reads"),
        ({"kind": "deny", "host": "**.example", "port": 8443, "paths": None}, "stops"),
        ({"kind": "deny", "ttl": 86400}, "stops"),
    ],
)
def test_a_change_within_a_delegation_is_covered(change: dict[str, object], delegation: str) -> None:
    assert covering(RULES, BOX, read_terms(GOOD | change)).id == delegation


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"host": "a.b.example"}, "reads: other hosts"),
        ({"host": "**.example"}, "reads: other hosts"),
        ({"host": "example"}, "reads: other hosts"),
        ({"port": 8443}, "reads: other ports"),
        ({"methods": ["GET", "PUT"]}, "reads: other methods or paths"),
        ({"methods": None}, "reads: other methods or paths"),
        ({"paths": ["/a/b", "/b"]}, "reads: other methods or paths"),
        ({"paths": ["/**"]}, "reads: other methods or paths"),
        ({"paths": None}, "reads: other methods or paths"),
        ({"ttl": 601}, "reads: at most 10m"),
    ],
)
def test_a_change_beyond_every_delegation_is_refused_with_the_reason(
    change: dict[str, object], why: str
) -> None:
    with pytest.raises(NotDelegatedError) as raised:
        covering(RULES, BOX, read_terms(GOOD | change))
    assert why in raised.value.message
    assert "stops: no allow" in raised.value.message


def test_a_profile_is_chosen_where_it_is_delegated() -> None:
    terms = read_terms({"kind": "profile", "profile": "wide", "ttl": 60})
    assert covering(RULES, BOX, terms).id == "widen"
    for name, ttl in (("default", 60), ("wide", 601)):
        with pytest.raises(NotDelegatedError):
            covering(RULES, BOX, read_terms({"kind": "profile", "profile": name, "ttl": ttl}))


def test_a_chosen_profile_brings_no_delegation_of_its_own() -> None:
    """Else each profile that is chosen could open the next one."""
    rules = policy("""
        hosts: {a.example: {}}
        profiles: {default: {hosts: []}, wide: {hosts: []}, all: {hosts: [a.example]}}
        delegate:
          - {id: one, to: {profiles: [default]}, ttl: 600, profiles: [wide]}
          - {id: two, to: {profiles: [wide]}, ttl: 600, profiles: [all]}
    """)
    with pytest.raises(NotDelegatedError):
        with_profile(with_profile(rules, "wide"), "all")
    assert with_profile(rules, "all", Identity("box", "wide")).overlays


def test_a_sandbox_without_any_delegation_is_told_so() -> None:
    with pytest.raises(NotDelegatedError, match="nothing to this sandbox"):
        covering(policy("hosts: {a.example: {}}"), BOX, read_terms(GOOD))


# Other rules --------------------------------------------------------------------------------------

BEFORE = policy("""
    hosts: {a.example: {}}
    delegate: [{id: old, to: {sandboxes: [box]}, ttl: 1h, hosts: ["*.example"]}]
""")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("{id: new, to: {sandboxes: [box]}, ttl: 10m, hosts: [b.example]}", ["allow"]),
        ("{id: new, to: {sandboxes: [box]}, ttl: 10m, hosts: ['**.example']}", ["allow", "deny"]),
        ("{id: new, to: {sandboxes: [box]}, ttl: 9m, hosts: ['**.example']}", []),
        ("{id: new, to: {sandboxes: [other]}, ttl: 10m, hosts: ['**.example']}", []),
        ("{id: new, to: {sandboxes: [box]}, ttl: 10m, hosts: ['**.example'], may: [deny]}", ["deny"]),
        ("{id: new, to: {sandboxes: [box]}, ttl: 10m, hosts: ['**.example'], methods: [GET]}", []),
    ],
)
def test_other_rules_keep_the_grants_that_they_delegate(text: str, kept: list[str]) -> None:
    rules = granted(granted(BEFORE, "allow", "b.example"), "deny", "c.example")
    after = with_overlays(policy(f"hosts: {{a.example: {{}}}}\ndelegate: [{text}]\n"), rules.overlays)
    grants = after.overlays["box"].grants if kept else ()
    assert after.overlays.keys() == ({"box"} if kept else set())
    assert [grant.terms.kind for grant in grants] == kept
    # The grants stand on the new delegation.
    assert {grant.delegation for grant in grants} <= {"new"}


def test_routes_of_the_rules_before_are_not_kept() -> None:
    rules = granted(BEFORE, "allow", "b.example")
    after = with_overlays(rules, rules.overlays)
    assert after.overlays["box"].grants == rules.overlays["box"].grants
    assert after.overlays["box"].routes is not rules.overlays["box"].routes


def test_the_fields_of_a_grant_can_be_read_again() -> None:
    rules = with_profile(granted(RULES, "allow", "b.example", methods=["GET"], paths=["/a/é"]), "wide")
    for grant in rules.overlays["box"].grants:
        fields = grant_fields(grant)
        assert read_grant(fields, rules, BOX) == grant
        assert fields["change"] == terms_text(grant.terms)
        wrong: object
        for wrong in (None, [], {}, fields | {"id": 7}, fields | {"expires": "soon"}, fields | {"ttl": 0}):
            with pytest.raises(UsageError):
                read_grant(wrong, rules, BOX)
        with pytest.raises(NotDelegatedError):
            read_grant(fields, policy("hosts: {a.example: {}}"), BOX)
