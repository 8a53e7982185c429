"""A draft as a whole: it loads, denies nothing, and says what it could not take over."""

from __future__ import annotations

from egress.review.drafting.draft import draft
from egress.review.drafting.traffic import Traffic
from egress.rules.load import Source, load
from egress.rules.policy import Policy
from tests.unit.review.drafting.sample import GITHUB, NOW, denied, exchange

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


def rules() -> Policy:
    loaded = load([Source("hosts.yaml", RULES)])
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
    # 16 levels of YAML and any text can be written; a name like this one cannot be a path's pattern.
    odd = exchange(host="odd.example.com", path="/" + "%2F".join("a" * 40))
    made = draft(Traffic.of([exchange(), odd]), None, NOW)
    assert "api.example.com" in made.text
    assert made.replayed.same + sum(one.count for one in made.left_out) >= 1


def test_what_was_not_taken_in_is_said() -> None:
    made = draft(Traffic.of([exchange(path="/a"), exchange(path="/b")], most=1), None, NOW)
    assert "#   too many different ones were seen before: 1 request" in made.text
