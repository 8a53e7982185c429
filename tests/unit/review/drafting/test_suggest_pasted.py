"""A suggestion is small, and does what it says in the file as it is after pasting: with every preset."""

from __future__ import annotations

import json

import pytest

from egress.policy.bundled_presets import preset_texts
from egress.review.drafting.observation import observe
from egress.review.drafting.suggest import Suggestion, suggest
from egress.rules.compile import presets as preset_files
from egress.rules.compile.load import RuleText, load
from egress.rules.decide.decision import decide
from egress.rules.decide.policy import Policy
from egress.rules.language.report import Report
from egress.types import Head, Identity
from tests.tiers import pairwise
from tests.unit.review.drafting.sample import NOW, denied, pasted

MAX_LINES = 8
PATH = "/an/odd/path"
WHOLE = [("github", "api.github.com"), ("npm-index", "registry.example.com")]


def presets_with_hosts() -> list[tuple[str, str]]:
    """Every preset, with each host that it opens by name."""
    found = []
    for name, text in preset_texts().items():
        preset = preset_files.read(name, text, Report())
        assert preset is not None
        policy = load([RuleText("h", used(name))], preset_texts()).policy
        assert policy is not None
        found += [(name, entry.key) for entry in policy.entries.values() if "*" not in entry.key]
    return found


def used(name: str) -> str:
    preset = preset_files.read(name, preset_texts()[name], Report())
    assert preset is not None
    return f"version: 1\nuse: [{{{name}: {json.dumps(preset.head.example)}}}]\n"


# What a person may have written beside a preset, in either style.
OWN = {
    "none": "",
    "block": "hosts:\n  # mine\n  {host}:\n    # no addresses\n    redirects: deny   # here\n",
    "braces": "hosts:\n  {host}: {{ redirects: deny }}\n",
    "empty": "hosts:\n  {host}: {{}}\n",
    "one-line": "hosts: {{{host}: {{redirects: deny}}}}\n",
    "deny": "hosts:\n  {host}:\n    deny:\n      - {{ id: mine, paths: [/mine] }}\n",
    "list": "hosts:\n  {host}:\n    allow:\n      - {{ id: mine, methods: [PUT], paths: [/mine] }}\n",
    "brackets": "hosts:\n  {host}: {{ allow: [{{ id: mine, methods: [PUT], paths: [/mine] }}] }}\n",
    "closed": "hosts:\n  {host}: {{ allow: [] }}\n",
    "rule": "hosts:\n  {host}: {{ methods: [PUT], paths: [/mine] }}\n",
    "other": "hosts:\n  other.example.org: {{}}\n",
}


def answer(text: str, line: dict[str, object]) -> Suggestion:
    one = observe(line)
    assert one is not None
    return suggest(one, "", [RuleText("hosts.yaml", text)], preset_texts(), NOW)


def allowed(policy: Policy, method: str, host: str, path: str, port: int = 443) -> bool:
    return decide(policy, Identity("a"), Head(method, "https", host, port, path), NOW).allowed


def after(text: str, found: Suggestion) -> Policy:
    assert not found.refusal, found.refusal
    assert sum(len(step.yaml) for step in found.steps) <= MAX_LINES
    result = load([RuleText("hosts.yaml", pasted(text, *found.steps))], preset_texts())
    assert result.policy is not None, result.findings
    return result.policy


@pytest.mark.parametrize(("where", "own"), pairwise(presets_with_hosts(), list(OWN), "-".join, WHOLE))
def test_a_request_beside_a_preset_is_opened_by_a_few_lines(where: tuple[str, str], own: str) -> None:
    name, host = where
    text = used(name) + OWN[own].format(host=host)
    before = load([RuleText("hosts.yaml", text)], preset_texts()).policy
    assert before is not None
    assert not allowed(before, "PUT", host, PATH)
    policy = after(text, answer(text, denied("rule.none", "PUT", host, PATH)))
    assert allowed(policy, "PUT", host, PATH)
    assert not allowed(policy, "PUT", host, PATH + "/x")
    # Nothing of before is gone: neither a rule nor a deny of the preset or of the file.
    entry = next(each for each in policy.entries.values() if each.key == host)
    old = next(each for each in before.entries.values() if each.key == host)
    assert {rule.ref.id for rule in old.allow} <= {rule.ref.id for rule in entry.allow}
    assert {rule.predicates for rule in old.deny} == {rule.predicates for rule in entry.deny}
    assert [item.injection for item in old.inject] == [item.injection for item in entry.inject]


STYLES = ["none", "block", "braces", "one-line"]


@pytest.mark.parametrize(("where", "own"), pairwise(presets_with_hosts(), STYLES, "-".join, WHOLE))
def test_a_port_beside_a_preset_is_opened_by_a_few_lines(where: tuple[str, str], own: str) -> None:
    name, host = where
    text = used(name) + OWN[own].format(host=host)
    before = load([RuleText("hosts.yaml", text)], preset_texts()).policy
    assert before is not None
    entry = next(each for each in before.entries.values() if each.key == host)
    rule = next(each for each in entry.allow if not (each.predicates.looks_inside or each.predicates.body))
    method = min(rule.predicates.methods or {"GET"})
    path = PATH if rule.predicates.paths is None else rule.predicates.paths[0].text.replace("/**", "/x")
    path = path.replace("*", "x")
    policy = after(text, answer(text, denied("host.port", method, host, path, port=8443)))
    assert allowed(policy, method, host, path, 8443)
    assert allowed(policy, method, host, path)


def test_a_denied_preset_rule_is_told_how_it_can_be_lifted() -> None:
    found = answer(used("github"), denied("rule.denied", "POST", "api.github.com", "/user/keys"))
    assert found.refusal.endswith("a deny wins over every allow; `without:` beside the preset lifts it")
