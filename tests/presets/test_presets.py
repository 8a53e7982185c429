"""Every shipped preset, held to its own tests and to what holds for all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from egress.rules.compile.asked_body import decide_whole
from egress.rules.decide.entry import Entry, Rule
from egress.types import Decision, Head, Identity, Verdict
from tests.presets.preset_samples import NAMES, NOW, Ran, all_ran, example, loaded, part, preset, ran

WANTED_REFUSALS = {
    "path.ambiguous",
    "method.override",
    "host.unknown",
    "host.port",
    "host.cleartext",
    "rule.none",
}


def decided(name: str, head: Head) -> Decision:
    rules = example(name).policy
    assert rules is not None
    return decide_whole(rules, Identity("test"), head, NOW, b"")[0]


def entries(name: str) -> list[Entry]:
    rules = example(name).policy
    assert rules is not None
    return list(rules.entries.values())


def test_the_shelf_holds_what_is_promised() -> None:
    assert set(NAMES) == {
        *("anthropic", "copilot", "gemini", "openai"),
        *("github", "gitlab", "huggingface"),
        *("apt-archive", "cargo-index", "go-proxy", "npm-index", "python-index"),
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_loads_without_a_finding(name: str) -> None:
    assert [str(finding) for finding in example(name).findings] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_loads_with_its_defaults_alone(name: str) -> None:
    """What has no default is taken from the example."""
    head = preset(name).head
    needed = {key: head.example[key] for key, it in head.parameters.items() if it.default is None}
    assert [str(finding) for finding in loaded(name, needed).findings] == []


@pytest.mark.parametrize("each", all_ran(), ids=str)
def test_a_preset_decides_as_its_own_tests_say(each: Ran) -> None:
    assert each.result.problem == "", each.result.case.place


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_has_tests_for_every_rule(name: str) -> None:
    exercised = {each.result.decision.rule for each in ran(name)}
    rules: Iterator[Rule] = (rule for entry in entries(name) for rule in (*entry.allow, *entry.deny))
    assert [str(rule.ref) for rule in rules if rule.ref not in exercised] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_names_the_rule_in_every_test_it_can(name: str) -> None:
    vague = [each.text for each in ran(name) if not each.result.case.expected]
    assert vague == []


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_is_tried_with_the_usual_tricks(name: str) -> None:
    refused = {each.result.decision.code for each in ran(name) if not each.result.decision.allowed}
    assert refused >= WANTED_REFUSALS


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_keeps_its_tests_to_itself(name: str) -> None:
    """Tests inside an entry would run in a person's file, with other arguments and other rules."""
    hosts = part(name, "hosts")
    assert isinstance(hosts, dict)
    assert [key for key, entry in hosts.items() if isinstance(entry, dict) and "tests" in entry] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_parameter_is_explained_in_one_sentence(name: str) -> None:
    for key, parameter in preset(name).head.parameters.items():
        assert re.fullmatch(r"[A-Z].{8,118}\.", parameter.help), key


# Secrets ----------------------------------------------------------------------------------------


def respelled(head: Head, hosts: set[str]) -> Iterator[Head]:
    """The same request everywhere it was not meant for."""
    for host in hosts:
        yield replace(head, host=host)
        yield replace(head, host=f"{host}.evil.example")
        yield replace(head, host=f"evil-{host}")
    yield replace(head, port=8443)
    yield replace(head, scheme="http", port=80)
    yield replace(head, scheme="http")


@pytest.mark.parametrize("name", NAMES)
def test_a_secret_is_injected_at_its_hosts_and_nowhere_else(name: str) -> None:
    rules = example(name).policy
    assert rules is not None
    hosts = {each.head().host for each in ran(name)}
    injected = 0
    for each in ran(name):
        for head in (each.head(), *respelled(each.head(), hosts)):
            for need in decided(name, head).effects.needs:
                injected += 1
                assert rules.secrets[need.secret].is_bound_to(head.host, head.port)
                assert (head.scheme, head.port) == ("https", 443)
    assert bool(injected) is bool(part(name, "secrets"))


@pytest.mark.parametrize("name", NAMES)
def test_a_host_without_injection_stands_in_no_binding(name: str) -> None:
    """A binding that nothing uses would be a place for a mistake."""
    rules = example(name).policy
    assert rules is not None
    for spec in rules.secrets.values():
        used = {
            entry.key for entry in entries(name) if any(i.injection.secret == spec.name for i in entry.inject)
        }
        assert {str(binding) for binding in spec.bindings} == used


@pytest.mark.parametrize("name", NAMES)
def test_a_sandbox_value_in_the_slot_is_overwritten(name: str) -> None:
    for entry in entries(name):
        for item in entry.inject:
            assert getattr(item.injection, "on_existing", "replace") == "replace"


# Denials ----------------------------------------------------------------------------------------


def spellings(head: Head) -> Iterator[Head]:
    """Other ways to write the same path, or what a careless server takes for the same path."""
    path, mark, query = head.target.partition("?")
    before, slash, last = path.rstrip("/").rpartition("/")
    for other in (
        path + "/",
        path + ".json",
        path + ".",
        path + ".xml/",
        path + "//",
        path + "/.",
        path + ";x",
        "/" + path,
        "/." + path,
        path.upper(),
        f"{before}{slash}%{ord(last[:1] or 'x'):02X}{last[1:]}",
        f"{before}{slash}%25{ord(last[:1] or 'x'):02X}{last[1:]}",
        path.replace("/", "%2F"),
        path.replace("/", "\\"),
        path + "%00",
        path + "#",
    ):
        yield replace(head, target=other + mark + query)


@pytest.mark.parametrize("name", NAMES)
def test_a_denied_request_stays_denied_however_it_is_spelled(name: str) -> None:
    for each in ran(name):
        if each.result.decision.verdict is Verdict.DENY:
            for head in spellings(each.head()):
                assert not decided(name, head).allowed, (each.text, head.target)


@pytest.mark.parametrize("name", NAMES)
def test_an_allowed_request_under_another_method_needs_its_own_rule(name: str) -> None:
    """No allow rule of a preset takes every method."""
    for entry in entries(name):
        for rule in entry.allow:
            assert rule.predicates.methods, rule.ref
            assert not rule.predicates.websocket, rule.ref


# Package registries -----------------------------------------------------------------------------


INDEXES = ["apt-archive", "cargo-index", "go-proxy", "npm-index", "python-index"]


@pytest.mark.parametrize("name", INDEXES)
def test_an_index_preset_names_no_registry(name: str) -> None:
    """The hosts come from the user's own configuration; only examples stand here."""
    assert all(re.search(r"\.example\.(com|net)$", entry.key) for entry in entries(name))
    assert all(re.search(r"\.example(\.com|\.net)?$", each.head().host) for each in ran(name))
    defaults = {key: it.default for key, it in preset(name).head.parameters.items() if it.default is not None}
    assert not any(defaults.values())


@pytest.mark.parametrize("name", INDEXES)
def test_an_index_preset_reads_and_sends_no_credential(name: str) -> None:
    for entry in entries(name):
        assert not entry.inject
        for rule in entry.allow:
            is_audit = rule.ref.id == "npm-index-audit"
            assert rule.predicates.methods == frozenset({"POST"} if is_audit else {"GET", "HEAD"})


@pytest.mark.parametrize("name", NAMES)
def test_every_deny_says_why(name: str) -> None:
    """The sandbox that it stops reads the reason, and so does the operator."""
    for entry in entries(name):
        for rule in entry.deny:
            assert re.fullmatch(r"[A-Z].{15,}\.", rule.ref.reason), rule.ref
