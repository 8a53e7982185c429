"""What is said about sound rules that promise more than holds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from egress.ca.authority import Authority
from egress.ca.constraints import Constraints
from egress.proxy.remarks import lacking, say, unscrubbed
from tests.proxy.lab.certs import Certificates
from tests.proxy.lab.stack import SANDBOX, Stack, policy_of

RULES = """\
version: 1
secrets:
  vaulted: {from: "vault:kv/x", hosts: [api.example.com]}
  plain: {from: "env:PLAIN", hosts: [api.example.com]}
hosts:
  api.example.com: {allow: all, inject: [{bearer: vaulted}]}
  blind.example.com: {intercept: never, ports: [8443]}
  docs.example.com: {}
"""


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[Stack]:
    async with Stack(tmp_path, Certificates(), RULES) as stack:
        yield stack


def said(stack: Stack, *pinned: str, container: bool = False) -> list[tuple[str, str]]:
    with capture_logs() as logged:
        say(stack.engine, pinned, container=container)
    assert {line["log_level"] for line in logged} == {"warning"}
    about = ((line["event"], line.get("secret") or line.get("host") or line["hosts"]) for line in logged)
    return [(str(event), str(what)) for event, what in about]


async def test_a_secret_that_cannot_be_had_here_is_told(stack: Stack) -> None:
    assert said(stack) == [("secret.unresolvable", "vaulted")]
    found = said(stack, container=True)
    assert found == [("secret.unresolvable", "vaulted"), ("secret.unresolvable", "plain")]


async def test_it_is_told_with_its_place_and_its_cure(stack: Stack) -> None:
    with capture_logs() as logged:
        say(stack.engine, (), container=False)
    assert logged[0]["place"] == "hosts.yaml:3:3"
    assert "`command:`" in logged[0]["cure"]


async def test_a_pin_that_is_never_looked_at_is_told(stack: Stack) -> None:
    pinned = ("api.example.com", "blind.example.com", "unknown.example.com")
    assert [what for event, what in said(stack, *pinned) if event == "pin.unused"] == ["blind.example.com"]


async def test_hosts_that_an_authority_may_not_sign_for_are_told(stack: Stack) -> None:
    engine = stack.engine
    assert lacking(engine) == {}
    limits = Constraints.of(["docs.example.com"])
    engine.sandboxes[SANDBOX].authority = Authority.create("x", engine.clock.now(), limits)
    assert lacking(engine) == {SANDBOX: ("api.example.com",)}
    assert ("authority.lacking", "api.example.com") in said(stack)


@pytest.mark.parametrize(
    ("handling", "found"),
    [
        ("allow: all, scrub: off", {"plain"}),
        ("allow: all", set()),
        ("allow: all, scrub: block", set()),
        ('allow: [{id: a, paths: ["/a"], scrub: off}, {id: b, paths: ["/b"]}]', {"plain"}),
    ],
)
def test_secrets_that_some_rule_does_not_search_for_are_found(handling: str, found: set[str]) -> None:
    rules = f"""\
version: 1
secrets:
  plain: {{from: "env:PLAIN", hosts: [api.example.com]}}
  other: {{from: "env:OTHER", hosts: [more.example.com]}}
hosts:
  api.example.com: {{{handling}, inject: [{{bearer: plain}}]}}
  more.example.com: {{allow: all, inject: [{{bearer: other}}]}}
"""
    assert unscrubbed(policy_of(rules)) == found
