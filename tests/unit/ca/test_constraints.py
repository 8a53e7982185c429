"""Name constraints permit what the rules open, and say when the rules have outgrown them."""

from __future__ import annotations

import pytest
from cryptography import x509

from egress.ca import Authority, Constraints
from egress.rules.compile.load import RuleText, load
from egress.rules.decide.policy import Policy
from egress.types import Identity

NOW = 1_800_000_000
BOX = Identity("box")


def policy(text: str) -> Policy:
    loaded = load([RuleText("hosts.yaml", f"version: 1\n{text}")])
    assert loaded.policy is not None, loaded.findings
    return loaded.policy


HOSTS = policy("""
hosts:
  api.github.com: {}
  "*.static.example.com": {}
  "**.deep.example.org": {}
  pinned.example.net: { intercept: never }
""")


def test_it_permits_what_the_rules_intercept() -> None:
    assert Constraints.for_policy(HOSTS, BOX).names == (
        "api.github.com",
        "deep.example.org",
        "static.example.com",
    )


def test_a_name_below_another_adds_nothing() -> None:
    names = Constraints.of(["a.b.example.com", "example.com", "notexample.com", "b.example.com"]).names
    assert names == ("example.com", "notexample.com")


@pytest.mark.parametrize(
    ("host", "permitted"),
    [
        ("api.github.com", True),
        ("x.api.github.com", True),
        ("cdn.static.example.com", True),
        ("github.com", False),
        ("evilapi.github.com", False),
        ("api.github.com.example.net", False),
        ("com", False),
        ("192.0.2.1", False),
        ("2001:db8::1", False),
    ],
)
def test_it_tells_what_it_permits(host: str, *, permitted: bool) -> None:
    assert Constraints.for_policy(HOSTS, BOX).permits(host) is permitted


def test_the_certificate_says_the_same() -> None:
    made = Constraints.for_policy(HOSTS, BOX)
    authority = Authority.create("one", NOW, made)
    assert authority.constraints == made
    extension = authority.certificate.extensions.get_extension_for_class(x509.NameConstraints)
    assert extension.critical
    excluded = [str(name.value) for name in extension.value.excluded_subtrees or ()]
    assert excluded == ["0.0.0.0/0", "::/0"]


def test_where_nothing_is_permitted_nothing_is_and_the_certificate_is_well_formed() -> None:
    """An empty list of permitted names would permit every name."""
    nothing = Constraints.of([])
    authority = Authority.create("one", NOW, nothing)
    extension = authority.certificate.extensions.get_extension_for_class(x509.NameConstraints).value
    assert [name.value for name in extension.permitted_subtrees or ()] == ["invalid"]
    assert authority.constraints == nothing
    assert not nothing.permits("invalid")


def test_an_authority_without_constraints_has_none() -> None:
    assert Authority.create("one", NOW).constraints is None


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        ("hosts:\n  api.github.com: {}", ()),
        ("hosts:\n  x.api.github.com: {}", ()),
        ('hosts:\n  "*.api.github.com": {}', ()),
        ("hosts:\n  github.com: {}\n  api.github.com: {}", ("github.com",)),
        ('hosts:\n  "**.github.com": {}', ("**.github.com",)),
        ("hosts:\n  new.example.com: { intercept: never }", ()),
        ("hosts:\n  api.github.com: {}\nmode: observe", ("mode: observe",)),
        ("hosts:\n  api.github.com: {}\nnetworks:\n  - cidr: 192.0.2.0/24", ("192.0.2.0/24",)),
    ],
)
def test_a_reload_is_told_what_a_certificate_lacks(text: str, lacking: tuple[str, ...]) -> None:
    assert Constraints.for_policy(HOSTS, BOX).missing_entries(policy(text), BOX) == lacking


def test_only_the_profile_of_the_sandbox_counts() -> None:
    profiled = policy("""
hosts:
  a.example.com: {}
  b.example.com: {}
profiles:
  default: { hosts: [a.example.com] }
  other: { hosts: [b.example.com] }
""")
    assert Constraints.for_policy(profiled, BOX).names == ("a.example.com",)
    assert Constraints.for_policy(profiled, Identity("box", "other")).names == ("b.example.com",)
    assert Constraints.for_policy(profiled, Identity("box", "missing")).names == ()
    assert Constraints.for_policy(profiled, BOX).missing_entries(profiled, Identity("box", "other")) == (
        "b.example.com",
    )
    assert Constraints.for_policy(profiled, BOX).missing_entries(profiled, Identity("box", "default")) == ()


DELEGATING = policy("""
hosts:
  a.example.com: {}
  b.example.com: {}
profiles:
  default: { hosts: [a.example.com] }
  other: { hosts: [b.example.com] }
delegate:
  - { id: open, to: { sandboxes: [box] }, ttl: 1h, hosts: ["*.files.example.org"] }
  - { id: stop, to: { sandboxes: ["*"] }, ttl: 1h, hosts: [c.example.net], may: [deny] }
  - { id: widen, to: { profiles: [default], sandboxes: ["b*"] }, ttl: 1h, profiles: [other] }
""")


def test_what_may_be_granted_to_the_sandbox_is_permitted() -> None:
    made = Constraints.for_policy(DELEGATING, BOX)
    assert made.names == ("a.example.com", "b.example.com", "files.example.org")
    assert made.missing_entries(DELEGATING, BOX) == ()
    other = Constraints.for_policy(DELEGATING, Identity("other"))
    assert other.names == ("a.example.com",)
    assert other.missing_entries(DELEGATING, BOX) == ("b.example.com", "*.files.example.org")
