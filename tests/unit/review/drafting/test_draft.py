"""A draft as a whole: it loads, denies nothing, and says what it could not take over."""

from __future__ import annotations

import pytest

from egress.review.drafting.draft import draft
from egress.review.drafting.rule_outline import MAX_RULES
from egress.review.drafting.traffic import Traffic
from egress.rules.compile.load import RuleText, load
from egress.rules.decide.policy import Policy
from tests.unit.review.drafting.sample import GITHUB, NOW, denied, exchange, tunnel

RULES = """\
version: 1
secrets:
  github: { from: "env:GITHUB_TOKEN", hosts: [api.example.com] }
hosts:
  api.example.com:
    allow: all
    deny:
      - { id: no-admin, paths: ["/admin/**"] }
      - { id: no-keys, paths: ["/repos/*/keys"] }
    inject:
      - bearer: github
canaries: { decoy: { like: aws } }
deny:
  - { id: no-uploads, paths: ["/upload"], methods: [POST] }
"""


def rules(text: str = RULES) -> Policy:
    loaded = load([RuleText("hosts.yaml", text)])
    assert loaded.policy is not None, loaded.findings
    return loaded.policy


def test_what_passed_is_allowed_and_nothing_else() -> None:
    made = draft(Traffic.of([exchange(injected=GITHUB), denied("rule.none", "POST")]), rules(), NOW)
    assert made.replayed.same == 2
    assert not made.replayed.denied
    assert not made.replayed.allowed
    assert (made.hosts, made.left_out, made.dropped) == (1, (), ())
    assert "bearer: github" in made.text
    assert 'from: "env:GITHUB_TOKEN"' in made.text
    assert "decoy: { like: aws }" in made.text


def test_denies_at_hand_hold_over_what_is_generalised() -> None:
    lines = [exchange(path=f"/repos/{number}/keys2", injected=GITHUB) for number in range(4)]
    made = draft(Traffic.of(lines), rules(), NOW)
    assert "no-admin" in made.text
    assert "no-keys" in made.text
    assert "no-uploads" in made.text


def test_a_deny_that_would_deny_what_passed_is_not_taken_over_and_named() -> None:
    lines = [
        exchange(path="/admin/users", injected=GITHUB),
        exchange("POST", path="/upload", injected=GITHUB),
    ]
    made = draft(Traffic.of(lines), rules(), NOW)
    assert made.dropped == ("api.example.com#no-admin", "deny#no-uploads")
    assert "#   api.example.com#no-admin" in made.text
    assert "id: no-keys" in made.text
    assert not made.replayed.denied


def test_a_secret_that_is_not_bound_there_is_not_injected_and_that_is_said() -> None:
    made = draft(Traffic.of([exchange(host="b.example.com", injected=GITHUB)]), rules(), NOW)
    assert "bearer" not in made.text
    assert "the secret github is not injected: it is not bound to this host" in made.text


def test_nothing_seen_makes_rules_that_allow_nothing() -> None:
    made = draft(Traffic.of([]), None, NOW)
    assert made.hosts == 0
    assert not made.policy.entries
    assert made.text.rstrip().endswith("version: 1")


def test_a_host_whose_rules_do_not_load_is_left_out_and_the_others_stay() -> None:
    # 16 levels of YAML and any text is writable; a name like this one cannot be a path's pattern.
    odd = exchange(host="odd.example.com", path="/" + "%2F".join("a" * 40))
    made = draft(Traffic.of([exchange(), odd]), None, NOW)
    assert "api.example.com" in made.text
    assert made.replayed.same + sum(one.count for one in made.left_out) >= 1


def test_what_was_not_taken_in_is_said() -> None:
    made = draft(Traffic.of([exchange(path="/a"), exchange(path="/b")], most=1), None, NOW)
    assert "#   too many different requests before them: 1 request" in made.text


def test_a_deny_of_the_same_name_at_another_host_stays() -> None:
    text = """\
version: 1
hosts:
  a.example.com: { methods: [GET], deny: [{ id: no-admin, paths: ["/admin/**"] }] }
  b.example.com: { methods: [GET], deny: [{ id: no-admin, paths: [/items/666] }] }
networks:
  - { cidr: 192.0.2.0/24, allow: all, deny: [{ id: no-admin, paths: [/items/667] }] }
deny: [{ id: no-admin-2, paths: [/items/668] }]
"""
    lines = [exchange(host="a.example.com", path="/admin/x")]
    for host in ("b.example.com", "192.0.2.7"):
        lines += [exchange(host=host, path=f"/items/{number}") for number in range(5)]
    made = draft(Traffic.of(lines), rules(text), NOW)
    assert made.dropped == ("a.example.com#no-admin",)
    assert [f"/items/{number}" in made.text for number in (666, 667, 668)] == [True, True, True]
    again = [*lines, exchange(host="192.0.2.7", path="/items/667"), exchange(path="/items/668")]
    dropped = draft(Traffic.of(again), rules(text), NOW).dropped
    assert dropped == ("192.0.2.0/24#no-admin", "a.example.com#no-admin", "deny#no-admin-2")


def test_a_deny_that_was_written_under_another_id_is_found_again() -> None:
    text = """\
version: 1
hosts:
  api.example.com: { methods: [GET], deny: [{ id: read, paths: [/user] }, { id: read-2, paths: [/x] }] }
"""
    made = draft(Traffic.of([exchange()]), rules(text), NOW)
    assert made.dropped == ("api.example.com#read",)
    assert not made.replayed.denied


def test_bounds_and_handling_at_hand_hold_and_profiles_that_do_not_are_named() -> None:
    text = """\
version: 1
limits: { requests: 10/minute }
hosts:
  "*.example.com":
    limits: { requests: 3/minute }
    redirects: deny
    methods: [GET]
  pinned.example.net: { intercept: never, limits: { connections: 2 } }
  z.example.org: { methods: [GET] }
profiles:
  default: { hosts: [z.example.org] }
  coding: { hosts: ["*.example.com", pinned.example.net] }
"""
    made = draft(Traffic.of([exchange(), tunnel()]), rules(text), NOW)
    assert made.policy.limit is not None
    entries = {entry.key: entry for entry in made.policy.entries.values()}
    handling = entries["api.example.com"].handling
    assert handling.limit is not None
    assert handling.redirects == "deny"
    assert entries["pinned.example.net"].handling.limit is not None
    assert "# wider than seen: the profiles of the current rules are left out (coding, default)" in made.text
    assert "# wider than seen: the limits at hosts.yaml:4:3 are shared by all its hosts" in made.text
    assert "profiles" not in draft(Traffic.of([exchange()]), None, NOW).text


def test_a_path_of_more_asterisks_than_a_pattern_may_have_is_left_out_and_said() -> None:
    made = draft(Traffic.of([exchange(path="/" + "a*" * 17), exchange(path="/" + "a**" * 16)]), None, NOW)
    assert [(one.reason, one.count) for one in made.left_out] == [
        ("the path has too many asterisks for a pattern", 1)
    ]
    assert "#   the path has too many asterisks for a pattern: 1 request, 1 host" in made.text


def test_whoever_asked_may_give_up_at_every_step() -> None:
    class LateError(Exception):
        pass

    lines = [exchange(path=f"/{word}/{n}") for word in ("a*", "b") for n in range(2)]
    lines += [exchange(path=f"/s/{n}", status=101, alpn="") for n in range(2)]
    lines += [exchange("POST", host="b.example.com", injected=GITHUB), exchange("POST", host="b.example.com")]
    steps = 0

    def counting() -> None:
        nonlocal steps
        steps += 1

    draft(Traffic.of(lines), rules(), NOW, counting)
    # At least one for each line that is decided again, and one for each pattern that is held against others.
    assert steps > 2 * len(lines)
    for last in range(steps):
        left = iter(range(last))

        def late(left: object = left) -> None:
            assert isinstance(left, type(iter(range(0))))
            if next(left, None) is None:
                raise LateError

        with pytest.raises(LateError):
            draft(Traffic.of(lines), rules(), NOW, late)


def test_of_too_many_rules_at_a_host_the_least_used_are_left_out_with_their_secrets() -> None:
    lines = [exchange(f"M{number}", path=f"/{number}") for number in range(MAX_RULES) for _ in range(2)]
    made = draft(Traffic.of([*lines, exchange("PUT", path="/put", injected=GITHUB)]), None, NOW)
    assert [(one.reason, one.count) for one in made.left_out] == [("more rules than the limit for a host", 1)]
    assert "/put" not in made.text
    assert "github" not in made.text
    assert [change.method for change in made.replayed.denied] == ["PUT"]
