"""The shipped presets as tests want them: loaded alone, with chosen arguments, and their tests with them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from egress.credentials import basic
from egress.exchange import Destination, Exchange, NeedSecrets, Request, SendRequest
from egress.policy.bundled_presets import preset_texts
from egress.rules.compile import presets as preset_files
from egress.rules.compile import rule_tests
from egress.rules.compile.asked_body import decide_whole
from egress.rules.compile.asked_git import asked_git
from egress.rules.compile.load import LoadResult, RuleText, load
from egress.rules.compile.presets import Preset
from egress.rules.decide.policy import Policy
from egress.rules.language.document import Value
from egress.rules.language.report import Report
from egress.scrub import Needles
from egress.types import Decision, Head, Headers, Identity, Secret

NOW = 1_800_000_000
NAMES = tuple(preset_texts())


@cache
def preset(name: str) -> Preset:
    report = Report()
    found = preset_files.read(name, preset_texts()[name], report)
    assert found is not None
    assert not report.findings
    return found


def part(name: str, key: str) -> Value:
    """One top key of the preset as it is written."""
    value = preset(name).document.value
    assert isinstance(value, dict)
    return value.get(key, {})


def loaded(name: str, arguments: Mapping[str, object], **more: object) -> LoadResult:
    """A rule file that uses the preset with these arguments; `more` are further top keys of the file."""
    # JSON is YAML, and quotes everything that needs quotes.
    text = json.dumps({"version": 1, "use": [{name: arguments}], **more})
    return load([RuleText("hosts.yaml", text)], preset_texts(), NOW)


def loaded_uses(uses: Sequence[object], **more: object) -> LoadResult:
    """A rule file with several items of `use:`."""
    text = json.dumps({"version": 1, "use": uses, **more})
    return load([RuleText("hosts.yaml", text)], preset_texts(), NOW)


def ask_graphql(rules: Policy, document: str) -> Decision:
    """The decision on a document that is sent to GitHub."""
    headers = (("content-type", "application/json"),)
    head = Head("POST", "https", "api.github.com", 443, "/graphql", headers)
    body = json.dumps({"query": document}).encode()
    return decide_whole(rules, Identity("test"), head, NOW, body)[0]


def policy(name: str, arguments: Mapping[str, object], **more: object) -> Policy:
    result = loaded(name, arguments, **more)
    assert result.policy is not None, result.findings
    return result.policy


@cache
def example(name: str) -> LoadResult:
    """The preset with the arguments of its example, and its own tests."""
    return loaded(name, preset(name).head.example, tests=part(name, "tests"))


def ask(rules: Policy, request: str, headers: Mapping[str, str] | None = None) -> Decision:
    """The decision on `METHOD URL`."""
    method, _, text = request.partition(" ")
    url = rule_tests.parse_url(text)
    head = Head(method, url.scheme, url.host, url.port, url.target, tuple((headers or {}).items()))
    return decide_whole(rules, Identity("test"), head, NOW, b"")[0]


def ask_git(rules: Policy, base: str, asked: str) -> Decision:
    """The decision on a request of git below this URL, such as `push acme/app refs/heads/x`."""
    request = asked_git(asked)
    url = rule_tests.parse_url(base + request.target)
    head = Head("POST", url.scheme, url.host, url.port, url.target, request.headers)
    return decide_whole(rules, Identity("test"), head, NOW, request.body)[0]


def sent(rules: Policy, request: str, headers: Mapping[str, str] | None = None) -> Head:
    """The head of `METHOD URL` as it goes upstream, with `the-real-one` for every secret."""
    method, _, text = request.partition(" ")
    url = rule_tests.parse_url(text)
    destination = Destination(url.scheme, url.host, url.port)
    fields = (("host", destination.authority), *(headers or {}).items())
    secrets = {name: Secret(name, b"the-real-one") for name in rules.secrets}
    needles = Needles.of(secrets.values())
    exchange = Exchange(rules, Identity("test"), destination, needles=needles)
    step = exchange.begin(Request(method, url.target, fields), NOW)
    if isinstance(step, NeedSecrets):
        step = exchange.provide({name: secrets[name] for name in step.names}, needles)
    assert isinstance(step, SendRequest), step
    return step.head


def decoded(headers: Headers) -> Headers:
    """The fields, with Basic credentials in clear."""
    return tuple((name, basic.read_basic(value) or value) for name, value in headers)


def example_arguments(name: str) -> dict[str, object]:
    """The arguments that a preset needs; those with a default keep it."""
    head = preset(name).head
    return {key: head.example[key] for key, it in head.parameters.items() if it.default is None}


@dataclass(frozen=True)
class Ran:
    """One of a preset's own tests, and how it went."""

    name: str
    number: int
    result: rule_tests.RuleTestResult

    def __str__(self) -> str:
        return f"{self.name} {self.number}: {self.text}"

    @property
    def text(self) -> str:
        return self.result.case.text

    def head(self) -> Head:
        return rule_tests.head_of(self.result.case)


@cache
def ran(name: str) -> tuple[Ran, ...]:
    rules = example(name).policy
    results = rule_tests.run_rule_tests(rules, NOW) if rules is not None else ()
    return tuple(Ran(name, number, result) for number, result in enumerate(results, 1))


def all_ran() -> list[Ran]:
    return [each for name in NAMES for each in ran(name)]
