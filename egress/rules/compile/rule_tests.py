"""Read and run the tests in rule files.

    METHOD TARGET -> allow [id][, inject NAME...]  |  deny [id or code]  |  answer [status]

An `answer`, and a denial with a code of handlers, is that of a handler: the rules have to allow the request,
and the rest is open until the handler is asked.

Secrets are exact: an allow without `inject` expects that no secret is injected. A test under an entry
fails if another entry decides it, with any verdict.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, cast

from egress.errors import CODES
from egress.rules.compile.asked_body import decide_whole, graphql_body, json_body, with_json_type
from egress.rules.compile.asked_git import asked_git
from egress.rules.compile.asked_llm import asked_llm
from egress.rules.compile.asked_mcp import mcp_body
from egress.rules.decide.paths import to_wire_text
from egress.rules.decide.policy import Policy, RuleTest
from egress.rules.language import hosts, quantities
from egress.rules.language.model import TestItem
from egress.rules.language.report import DocumentCursor, MeaningError, quoted
from egress.types import Decision, Head, Headers, Identity, Scheme, parameters_of

_TEST_LINE = re.compile(r"(\S+) +(\S+) +-> +(.+)")
_REQUEST = re.compile(r"(\S+) +(\S+)")
_EXPECTATION = re.compile(r"(allow|deny|answer)(?: +([A-Za-z0-9._-]+))?((?:, *inject +[a-z][a-z0-9_-]*)*)")
_INJECT = re.compile(r"inject +([a-z][a-z0-9_-]*)")
_URL = re.compile(r"(https?)://([^/:?#@\s]+|\[[0-9a-fA-F:.]+\])(?::([0-9]{1,5}))?(/\S*)?")
_MAX_SHOWN_MESSAGE = 60
"""Characters; a document of GraphQL can be long."""
_BODY_KEYS = ("body", "raw", "graphql", "mcp", "llm", "git")
_TEST_HINT = "write METHOD TARGET -> allow [id][, inject NAME...], -> deny [id or code] or -> answer [status]"


@dataclass(frozen=True, slots=True)
class ParsedUrl:
    """A full URL, split; the host is canonical, the target as written."""

    scheme: Scheme
    host: str
    port: int
    target: str


@dataclass(frozen=True, slots=True)
class RuleTestResult:
    """The result of a test. `problem` is empty if it passed."""

    case: RuleTest
    decision: Decision
    problem: str
    is_open: bool = False
    """The rules let it pass to its handler, which is expected to decide."""


def parse_url(text: str) -> ParsedUrl:
    """Split a full URL as people write it; raises `MeaningError`. The path stays as written."""
    match = _URL.fullmatch(text)
    if match is None:
        raise MeaningError("this is not a full URL", "write it as in https://api.example.com/path")
    scheme: Scheme = "https" if match[1] == "https" else "http"
    host, port, target = match[2], match[3], match[4]
    name = host[1:-1] if host.startswith("[") else host
    if not _is_address(name):
        name = hosts.canonical_host(name)
    number = int(port) if port else 443 if scheme == "https" else 80
    if not 1 <= number <= 65535:
        raise MeaningError("a port is a number from 1 to 65535")
    return ParsedUrl(
        scheme, name, number, target if target and target.startswith("/") else "/" + (target or "")
    )


def _is_address(text: str) -> bool:
    try:
        return str(ipaddress.ip_address(text)) == text
    except ValueError:
        return False


def read_rule_test(
    item: str | TestItem, at: DocumentCursor, entry: str | None = None, base: str | None = None
) -> RuleTest | None:
    """Read a test; return None after reporting its mistakes.

    `entry` is the key under which the test is written; `base` the URL that a bare path is added to.
    """
    # Form first, then expectation, then target: a later fault is often only the effect of an earlier one.
    parts = _parts(item, at)
    if parts is None:
        return None
    method, target, expectation = parts
    match = _EXPECTATION.fullmatch(expectation)
    if match is None:
        at.error(f"{quoted(expectation)} is not an expectation", _TEST_HINT)
        return None
    # Only the verdict is required; rule id and secrets narrow the expectation.
    verdict, expected, injected = match[1], match[2] or "", match[3] or ""
    if verdict != "allow" and injected:
        at.error(f"`inject` cannot follow `{verdict}`: such a request is not sent", _TEST_HINT)
        return None
    if verdict == "answer" and expected and not re.fullmatch(r"[2-5][0-9]{2}", expected):
        at.error(f"{quoted(expected)} is not the status of an answer", _TEST_HINT)
        return None
    # A misspelt code could only fail the test later, without its cause; the target is still read.
    if "." in expected and expected not in CODES and verdict == "deny":
        at.error(f"{quoted(expected)} is neither a rule id nor a code", _TEST_HINT)
    url = _absolute(target, base, at)
    if url is None:
        return None
    long = item if isinstance(item, TestItem) else None
    headers: Headers = tuple((name.lower(), value) for name, value in (long.headers if long else {}).items())
    body = None if long is None else _body(long, at)
    if long is not None and long.git is not None:
        headers += asked_git(long.git).headers
    elif body is not None and long is not None and long.raw is None:
        headers = with_json_type(headers)
    return RuleTest(
        place=at.place,
        text=item if isinstance(item, str) else _long_text(item),
        method=method,
        url=url,
        headers=headers,
        profile=long.profile if long else None,
        at=(at / "at").parse(quantities.parse_moment, long.at) if long else None,
        websocket=long.websocket if long else False,
        verdict=cast("Literal['allow', 'deny', 'answer']", verdict),
        expected=expected,
        secrets=frozenset(_INJECT.findall(injected)),
        parameters=parameters_of(long.params) if long else (),
        body=body or b"",
        entry=entry,
    )


def _long_text(item: TestItem) -> str:
    """Return a test on one line, with the words that tell tests of one path from each other."""
    asked = item.git or " ".join(filter(None, (item.request, _message(item))))
    return f"{asked} -> {item.expect}"


def _message(item: TestItem) -> str:
    said = " ".join((item.mcp or item.llm or item.graphql or "").split())
    return said if len(said) <= _MAX_SHOWN_MESSAGE else said[: _MAX_SHOWN_MESSAGE - 1] + "…"


def _body(item: TestItem, at: DocumentCursor) -> bytes | None:
    written = [name for name in _BODY_KEYS if getattr(item, name) is not None]
    if len(written) > 1:
        (at / written[1]).key_error(
            f"{quoted(written[1])} cannot be combined with {quoted(written[0])}", "a request has one body"
        )
    if item.git is not None:
        return asked_git(item.git).body
    if item.graphql is not None:
        return graphql_body(item.graphql)
    if item.mcp is not None:
        return (at / "mcp").parse(mcp_body, item.mcp)
    if item.llm is not None:
        target = item.request.rpartition(" ")[2]
        return (at / "llm").parse(lambda text: asked_llm(text, target), item.llm)
    if item.body is not None:
        return json_body(item.body)
    return None if item.raw is None else item.raw.encode("utf-8")


def _parts(item: str | TestItem, at: DocumentCursor) -> tuple[str, str, str] | None:
    if isinstance(item, str):
        match = _TEST_LINE.fullmatch(item.strip())
        if match is None:
            # A comma splits a list in brackets, which leaves half a test.
            at.error("this is not a test", f"{_TEST_HINT}; put a test with a comma on its own line")
            return None
        return match[1], match[2], match[3].strip()
    if item.git is not None:
        asked = (at / "git").parse(asked_git, item.git)
        if item.request:
            (at / "request").key_error("`request` cannot be combined with `git`", "leave it out")
        return None if asked is None else ("POST", asked.target, item.expect.strip())
    if not item.request:
        at.error(
            "the key `request` is missing", "write it as in `request: POST /graphql`, or ask with `git:`"
        )
        return None
    request = _REQUEST.fullmatch(item.request.strip())
    if request is None:
        (at / "request").error("a request needs the form METHOD TARGET", "for example GET /user")
        return None
    return request[1], request[2], item.expect.strip()


def _absolute(target: str, base: str | None, at: DocumentCursor) -> str | None:
    if target.startswith("/"):
        if base is None:
            at.error("a test here needs a full URL", "write it as in GET https://api.example.com/path -> ...")
            return None
        return base + target
    return None if at.parse(parse_url, target) is None else target


# Running --------------------------------------------------------------------------------------


def run_rule_tests(policy: Policy, now: int) -> Iterator[RuleTestResult]:
    """Run every test of the policy, at `now` unless the test names a moment."""
    for case in policy.cases:
        decision, _ = decide_whole(
            policy,
            Identity("test", case.profile, case.parameters),
            head_of(case),
            now if case.at is None else case.at,
            case.body,
        )
        if case.is_of_handler and decision.allowed:
            yield RuleTestResult(case, decision, _handler_problem(policy, case, decision), is_open=True)
        else:
            yield RuleTestResult(case, decision, _problem(case, decision))


def head_of(case: RuleTest) -> Head:
    """Build the request head that the test describes."""
    url = parse_url(case.url)
    headers = tuple((name, to_wire_text(value)) for name, value in case.headers)
    return Head(
        case.method, url.scheme, url.host, url.port, to_wire_text(url.target), headers, case.websocket
    )


def _problem(case: RuleTest, decision: Decision) -> str:
    if decision.allowed != (case.verdict == "allow"):
        return f"the decision is {describe_decision(decision)}"
    rule = decision.rule.id if decision.rule else ""
    if case.expected and case.expected not in (rule, decision.code):
        return f"the decision is {describe_decision(decision)}"
    # A test of one entry must not pass because of a wider entry.
    if case.entry is not None and decision.entry != case.entry:
        return f"the decision comes from another entry: {decision.entry or 'none'}"
    injected = frozenset(need.secret for need in decision.effects.needs)
    if case.verdict == "allow" and injected != case.secrets:
        return f"the decision is {describe_decision(decision)}"
    return ""


def _handler_problem(policy: Policy, case: RuleTest, decision: Decision) -> str:
    identity = Identity("test", case.profile, case.parameters)
    if policy.outbound.handler_for(identity, parse_url(case.url).host, decision.effects) is None:
        return f"no handler is called; the decision is {describe_decision(decision)}"
    return ""


def describe_decision(decision: Decision) -> str:
    """Describe a decision in the words of a test: `allow read, inject github`."""
    if not decision.allowed:
        return f"deny {decision.rule.id if decision.rule else decision.code}"
    secrets = dict.fromkeys(need.secret for need in decision.effects.needs)
    rule = decision.rule.id if decision.rule else decision.code
    return ", ".join([f"allow {rule}", *(f"inject {name}" for name in secrets)])
