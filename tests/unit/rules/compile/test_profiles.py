"""Profiles where the entries they list are wrong themselves."""

from __future__ import annotations

from tests.unit.rules.rule_samples import errors, policy


def test_keeps_the_keys_and_the_narrowing() -> None:
    rules = policy("""
        hosts: {a.example: {allow: [{id: x}, {id: y}]}, b.example: {}}
        profiles: {p: {hosts: [a.example, b.example], rules: ["a.example#x", "a.example#y"]}}
    """)
    assert rules.profiles is not None
    assert rules.profiles["p"].keys == {"a.example", "b.example"}
    assert rules.profiles["p"].rules == {"a.example": {"x", "y"}}


def test_a_key_is_named_as_it_is_written() -> None:
    policy("hosts: {A.Example: {}}\nprofiles: {p: {hosts: [A.Example]}}\n")
    (found,) = errors("hosts: {A.Example: {}}\nprofiles: {p: {hosts: [a.example]}}\n")
    assert "unknown entry `a.example`" in found


def test_one_mistake_in_an_entry_is_one_finding() -> None:
    """A profile, like an injection, says nothing about what its own line already says."""
    for entry in ("{methods: [TRACE]}", "{denny: []}", "", "{allow: [{id: X}]}"):
        found = errors(
            f"hosts: {{a.example: {entry}}}\nprofiles: {{p:"
            f" {{hosts: [a.example], rules: ['a.example#x']}}}}\n"
        )
        assert len(found) == 1, found


def test_a_profile_has_the_name_of_an_identity() -> None:
    assert policy("hosts: {a.example: {}}\nprofiles: {a-b_1: {hosts: [a.example]}}\n").profiles
    for name in ("a b", "A", "1a", "a.b", "a" * 64):
        assert (
            len(errors(f"hosts: {{a.example: {{}}}}\nprofiles: {{'{name}': {{hosts: [a.example]}}}}\n")) == 1
        )
