"""Whatever is granted, no denial of the file is lifted, no secret moves, and no delegation is exceeded."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Literal

from hypothesis import Phase, assume, find, given, settings
from hypothesis import strategies as st

from egress.errors import UsageError
from egress.rules.compile.grants import NotDelegatedError, read_terms, terms_text
from egress.rules.decide.decision import decide, decide_host
from egress.rules.decide.policy import Policy
from egress.types import GrantRef, Head, Identity
from tests.property.test_rules import (
    ANY_HEAD,
    DENIES,
    ENTRIES,
    FEW,
    GLOBS,
    HEADS,
    KEYS,
    Json,
    numbered,
    rules_of,
)
from tests.unit.rules.grant_samples import BOX, TTL, granted
from tests.unit.rules.rule_samples import NOW

BOUNDS = st.fixed_dictionaries(
    {"hosts": st.lists(st.sampled_from([*KEYS, "other.example", "**.example"]), min_size=1, max_size=3)},
    optional={
        "methods": st.lists(st.sampled_from(["GET", "PUT", "HEAD"]), min_size=1, max_size=2, unique=True),
        "paths": st.lists(GLOBS, min_size=1, max_size=2),
    },
)
INJECTED = st.sampled_from(["a.example.com", "b.example.com", "*.b.example.com"])


def file(hosts: dict[str, dict[str, Json]], deny: Json, injected: str, bounds: dict[str, Json]) -> Json:
    """A file with a secret on one of its hosts, and a delegation."""
    entry: dict[str, Json] = {
        **hosts.get(injected, {"allow": "all"}),
        "mode": "enforce",
        "inject": [{"bearer": "token"}],
    }
    to: Json = {"sandboxes": ["box"]}
    all_hosts: dict[str, Json] = {**hosts, injected: entry}
    return {
        "version": 1,
        "secrets": {"token": {"from": "env:TOKEN", "hosts": ["**.example.com"]}},
        "hosts": all_hosts,
        "deny": deny,
        "delegate": [{"id": "x", "to": to, "ttl": "1h", **bounds}],
    }


FILES = st.builds(
    file,
    st.dictionaries(st.sampled_from(KEYS), ENTRIES, max_size=3),
    st.builds(numbered, DENIES, st.just("t")),
    INJECTED,
    BOUNDS,
)
Change = tuple[Literal["allow", "deny"], str, list[str] | None, list[str] | None]
KINDS: st.SearchStrategy[Literal["allow", "deny"]] = st.sampled_from(["allow", "allow", "deny"])
CHANGES: st.SearchStrategy[Change] = st.tuples(
    KINDS,
    st.sampled_from([*KEYS, "x.b.example.com", "other.example"]),
    st.none() | st.lists(st.sampled_from(["GET", "PUT"]), min_size=1, max_size=2, unique=True),
    st.none() | st.lists(GLOBS, min_size=1, max_size=2),
)


def changed(rules: Policy, changes: list[Change]) -> Policy:
    """The policy with those of the changes that it delegates."""
    for kind, host, methods, paths in changes:
        with suppress(NotDelegatedError):
            rules = granted(rules, kind, host, methods=methods, paths=paths)
    return rules


def bounds_as_rules(written: Json) -> Policy:
    """The delegation, read as entries that allow what it delegates."""
    assert isinstance(written, dict)
    listed = written["delegate"]
    assert isinstance(listed, list)
    item = listed[0]
    assert isinstance(item, dict)
    hosts = item["hosts"]
    rule: dict[str, Json] = {key: item[key] for key in ("methods", "paths") if key in item}
    assert isinstance(hosts, list)
    entry: Json = {"allow": [{"id": "x", **rule}]}
    return rules_of({"version": 1, "hosts": {str(host): entry for host in hosts}})


@FEW
@given(FILES, st.lists(CHANGES, min_size=1, max_size=4), HEADS)
def test_a_grant_lifts_no_denial_and_moves_no_secret(
    written: Json, changes: list[Change], head: Head
) -> None:
    rules = rules_of(written)
    over = changed(rules, changes)
    assume(over.overlays)
    before, after = decide(rules, BOX, head, NOW), decide(over, BOX, head, NOW)
    # A secret goes where the file says, never further.
    assert set(after.effects.needs) <= set(before.effects.needs)
    if after.allowed and not before.allowed:
        assert before.code in {"rule.none", "host.unknown"}
        assert isinstance(after.rule, GrantRef)
        # Nothing that is granted lies outside of what is delegated.
        assert decide(bounds_as_rules(written), BOX, head, NOW).allowed
    if after.allowed and before.allowed and not before.observed:
        assert after == before
    if decide_host(over, BOX, head.host, 443, NOW).allowed and not after.allowed:
        assert after.code != "host.unknown"
    host_before = decide_host(rules, BOX, head.host, 443, NOW)
    if decide_host(over, BOX, head.host, 443, NOW).allowed and not host_before.allowed:
        assert host_before.code == "host.unknown"
    # Others, and later moments, are as without it.
    assert decide(over, Identity("other"), head, NOW) == before
    assert decide(over, BOX, head, NOW + TTL) == decide(rules, BOX, head, NOW + TTL)


def test_some_grants_open_a_host_with_a_credential() -> None:
    """The positive control of the test above."""

    def is_opened(case: tuple[Json, list[Change], Head]) -> bool:
        written, changes, head = case
        rules = rules_of(written)
        after = decide(changed(rules, changes), BOX, head, NOW)
        is_new = after.allowed and not decide(rules, BOX, head, NOW).allowed
        return is_new and after.entry is not None and bool(after.effects.strips)

    found = find(
        st.tuples(FILES, st.lists(CHANGES, min_size=1, max_size=2), HEADS),
        is_opened,
        settings=settings(max_examples=5000, phases=[Phase.generate]),
    )
    assert is_opened(found)


@FEW
@given(FILES, st.lists(CHANGES, max_size=3), CHANGES, HEADS)
def test_a_deny_only_takes_away(written: Json, changes: list[Change], deny: Change, head: Head) -> None:
    before = changed(rules_of(written), changes)
    after = changed(before, [("deny", *deny[1:])])
    if decide(after, BOX, head, NOW).allowed:
        assert decide(before, BOX, head, NOW).allowed
    if decide_host(after, BOX, head.host, 443, NOW).allowed:
        assert decide_host(before, BOX, head.host, 443, NOW).allowed


@FEW
@given(FILES, st.lists(CHANGES, max_size=3), ANY_HEAD)
def test_deciding_with_grants_takes_anything(written: Json, changes: list[Change], head: Head) -> None:
    over = changed(rules_of(written), changes)
    decision = decide(over, BOX, head, NOW)
    on_host = decide_host(over, BOX, head.host, head.port, NOW, scheme=head.scheme)
    assert on_host.allowed or not decision.allowed
    decide_host(over, BOX, head.host, None, NOW)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=12)
    | st.sampled_from([*KEYS, "/a/**", "GET"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from(["allow", "deny", "profile"]) | JSON,
        "host": st.sampled_from(KEYS) | JSON,
        "port": st.integers(1, 65535) | JSON,
        "methods": st.just(["GET"]) | JSON,
        "paths": st.just(["/a/**"]) | JSON,
        "profile": st.text(max_size=5) | JSON,
        "ttl": st.integers(1, 600) | JSON,
        "by": st.text(max_size=5) | JSON,
        "inject": JSON,
    },
)


@FEW
@given(FIELDS)
def test_reading_a_change_takes_anything(fields: dict[str, object]) -> None:
    """It is a change, or an error that people can read; what is read says what was asked for."""
    terms = None
    with suppress(UsageError):
        terms = read_terms(fields)
    if terms is None:
        return
    assert terms.kind == fields["kind"]
    assert terms_text(terms).startswith(str(terms.kind))
    assert json.dumps(terms_text(terms))
    assert "inject" not in fields
