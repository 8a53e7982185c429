"""Rule files, requests and outcomes the way people write them, for every test about rules.

A rule file here may leave out `version: 1`; it is added at the end, so that lines keep their numbers.
A request is a line such as `GET https://api.example.com/user`. Its host and path reach the rules
exactly as written, wrong spellings included.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from textwrap import dedent

from egress.rules.compile.load import LoadResult, RuleText, load
from egress.rules.compile.rule_tests import describe_decision
from egress.rules.decide.decision import decide, decide_host
from egress.rules.decide.policy import Policy
from egress.types import Decision, Finding, Head, Headers, HostDecision, Identity, Scheme, Severity

NOW = 1_800_000_000
"""2027-01-15 08:00 UTC."""

_URL = re.compile(r"(https?)://(\[[^\]]*\]|[^/?:]*)(?::([0-9]+))?(.*)", re.DOTALL)


def source(text: str, name: str = "hosts.yaml") -> RuleText:
    """A rule file; the version is added where it is missing."""
    plain = dedent(text)
    return RuleText(name, plain if re.search(r"^version:", plain, re.MULTILINE) else f"{plain}\nversion: 1\n")


def loaded(
    *texts: str | RuleText, presets: Mapping[str, str] | None = None, now: int | None = None
) -> LoadResult:
    """What comes of loading texts or sources."""
    files = [text if isinstance(text, RuleText) else source(text) for text in texts]
    return load(files, {name: dedent(text) for name, text in (presets or {}).items()}, now)


def policy(*texts: str | RuleText, presets: Mapping[str, str] | None = None) -> Policy:
    """The policy of texts that have no errors."""
    result = loaded(*texts, presets=presets)
    assert result.policy is not None, [f"{finding} ({finding.hint})" for finding in result.findings]
    return result.policy


def errors(*texts: str | RuleText, presets: Mapping[str, str] | None = None) -> list[str]:
    """The errors of texts as `file:line:col: message (hint)`."""
    return _lines(loaded(*texts, presets=presets).findings, Severity.ERROR)


def warnings(
    *texts: str | RuleText, presets: Mapping[str, str] | None = None, now: int | None = None
) -> list[str]:
    """The warnings of texts as `file:line:col: message (hint)`."""
    return _lines(loaded(*texts, presets=presets, now=now).findings, Severity.WARNING)


def _lines(findings: tuple[Finding, ...], severity: Severity) -> list[str]:
    return [f"{f} ({f.hint})" for f in findings if f.severity is severity]


def head(request: str, *, headers: Headers = (), websocket: bool = False) -> Head:
    """The head of a request that is written as `METHOD URL`."""
    method, url = request.split(" ", 1)
    match = _URL.fullmatch(url)
    assert match is not None, url
    scheme: Scheme = "https" if match[1] == "https" else "http"
    port = int(match[3]) if match[3] else 443 if scheme == "https" else 80
    return Head(method, scheme, match[2].strip("[]"), port, match[4], headers, websocket)


def ask(
    rules: Policy,
    request: str,
    *,
    headers: Headers = (),
    websocket: bool = False,
    profile: str | None = None,
    at: int = NOW,
) -> Decision:
    """The decision on one request."""
    asked = head(request, headers=headers, websocket=websocket)
    return decide(rules, Identity("box", profile), asked, at)


def decision_text(
    rules: Policy,
    request: str,
    *,
    headers: Headers = (),
    websocket: bool = False,
    profile: str | None = None,
    at: int = NOW,
) -> str:
    """The decision in the words of a test: `allow read, inject github` or `deny rule.none`."""
    return describe_decision(
        ask(rules, request, headers=headers, websocket=websocket, profile=profile, at=at)
    )


def ask_host(rules: Policy, url: str, *, profile: str | None = None, at: int = NOW) -> HostDecision:
    """The decision on a destination, written `https://host:port`."""
    asked = head(f"GET {url}/")
    return decide_host(rules, Identity("box", profile), asked.host, asked.port, at, scheme=asked.scheme)
