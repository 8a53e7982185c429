"""What a draft takes over from the current rules, and what it proposes without them."""

from __future__ import annotations

from egress.review.drafting.inherited import InheritedRules, deny_fields
from egress.rules.compile.load import RuleText, load

RULES = """\
version: 1
secrets:
  github: { from: "file:/run/secrets/github", hosts: [api.example.com] }
  stand-in: { from: "env:KEY", hosts: [api.example.com] }
hosts:
  api.example.com:
    redirects: same-host
    allow:
      - { id: read, methods: [GET] }
    deny:
      - { id: no-admin, paths: ["/admin/**"] }
    inject:
      - bearer: github
        for: [read]
      - placeholder: { secret: stand-in, like: openai, in: ["header:x-key"] }
  "*.example.com":
    allow: all
    scrub: block
    deny:
      - { id: no-uploads, content_type: [text/plain] }
canaries: { decoy: { like: aws } }
deny:
  - { id: never, hosts: [a.example.org] }
"""


def inherited() -> InheritedRules:
    loaded = load([RuleText("hosts.yaml", RULES)])
    assert loaded.policy is not None, loaded.findings
    return InheritedRules(loaded.policy)


def test_a_secret_keeps_its_source_and_its_binding() -> None:
    taken = inherited().secret("github", ["elsewhere.example.com"])
    assert taken.fields == {"from": "file:/run/secrets/github", "hosts": ["api.example.com"]}
    assert taken.remark == "as in hosts.yaml:3:3"


def test_without_rules_a_secret_is_a_proposal_bound_to_where_it_was_seen() -> None:
    taken = InheritedRules(None).secret("my-key", ["api.example.com"])
    assert taken.fields == {"from": "env:MY_KEY", "hosts": ["api.example.com"]}
    assert taken.remark.startswith("a guess")


def test_an_injection_is_written_as_it_is_at_hand() -> None:
    found = inherited().injection("api.example.com", "stand-in", "header:x-key")
    assert found is not None
    assert "placeholder" in found.fields
    bearer = inherited().injection("api.example.com", "github", "header:authorization")
    assert bearer is not None
    assert bearer.fields == {"bearer": "github"}


def test_an_injection_is_guessed_from_its_slot_where_that_can_be() -> None:
    for slot, kind in (
        ("header:authorization", "bearer"),
        ("header:x-a", "header"),
        ("query:k", "query"),
        ("cookie:s", "cookie"),
    ):
        found = InheritedRules(None).injection("a.example.com", "k", slot)
        assert found is not None
        assert list(found.fields) == [kind]
    for slot in ("path", "basic", "header:", "header:a b", "header:host", "query:a&b", ""):
        assert InheritedRules(None).injection("a.example.com", "k", slot) is None


def test_a_binding_holds() -> None:
    assert inherited().is_bound("github", "api.example.com", frozenset({443}))
    assert not inherited().is_bound("github", "api.example.com", frozenset({443, 8443}))
    assert not inherited().is_bound("github", "b.example.com", frozenset({443}))
    assert InheritedRules(None).is_bound("anything", "b.example.com", frozenset({443}))
    assert not InheritedRules(None).is_bound("No Name", "b.example.com", frozenset({443}))


def test_denies_of_every_entry_that_names_the_host_are_taken() -> None:
    assert [rule.ref.id for rule in inherited().denies("api.example.com")] == ["no-admin", "no-uploads"]
    assert [rule.ref.id for rule in inherited().denies("x.example.com")] == ["no-uploads"]
    assert [rule.ref.id for rule in inherited().top_denies()] == ["never"]
    assert InheritedRules(None).denies("api.example.com") == []
    assert InheritedRules(None).top_denies() == []


def test_a_deny_gets_an_id_that_is_free() -> None:
    (rule,) = inherited().denies("x.example.com")
    taken = {"no-uploads", "no-uploads-2"}
    assert deny_fields(rule, taken)["id"] == "no-uploads-3"


def test_handling_is_taken_from_the_entry_that_decides() -> None:
    own = inherited().handling("api.example.com")
    assert own is not None
    assert own.fields == {"redirects": "same-host"}
    wildcard = inherited().handling("x.example.com")
    assert wildcard is not None
    assert wildcard.fields == {"scrub": "block"}
    assert inherited().handling("elsewhere.example.org") is None
    assert InheritedRules(None).handling("api.example.com") is None


def test_canaries_stay() -> None:
    assert [each.name for each in inherited().canaries()] == ["decoy"]
    assert InheritedRules(None).canaries() == []


def test_what_is_not_taken_over_is_told() -> None:
    text = """\
version: 1
hosts:
  "*.example.com":
    limits: { requests: 3/minute }
    expires: 2100-01-01
    allow:
      - { id: read, methods: [GET], redirects: deny }
  plain.example.com: { methods: [GET], limits: { requests: 3/minute } }
profiles: { some: { hosts: [plain.example.com] }, other: { hosts: ["*.example.com"] } }
limits: { requests: 10/minute }
"""
    policy = load([RuleText("hosts.yaml", text)]).policy
    assert policy is not None
    found = InheritedRules(policy)
    assert list(found.lost("x.example.com")) == [
        "the entry at hosts.yaml:3:3 expires, and this one does not",
        "the limits at hosts.yaml:3:3 are shared by all its hosts; here each host has its own",
        "limits and response handling of single rules are not inherited: read at hosts.yaml:3:3",
    ]
    assert list(found.lost("plain.example.com")) == list(found.lost("elsewhere.example.org")) == []
    assert found.profiles() == ["other", "some"]
    limits = found.limits()
    assert limits is not None
    assert limits.fields == {"requests": "10/minute"}
    assert InheritedRules(None).limits() is None
    assert InheritedRules(None).profiles() == list(InheritedRules(None).lost("a.example.com")) == []


def test_an_injection_keeps_the_slots_that_it_strips() -> None:
    text = """
        version: 1
        secrets: {s: {from: "env:S", hosts: [a.example.com]}}
        hosts:
          a.example.com:
            allow: [{id: x}]
            inject: [{bearer: s, strip: ["header:x-api-key"], for: [x]}]
    """
    rules = load([RuleText("hosts.yaml", text)]).policy
    found = InheritedRules(rules).injection("a.example.com", "s", "header:authorization")
    assert found is not None
    assert found.fields == {"bearer": "s", "strip": ["header:x-api-key"]}
