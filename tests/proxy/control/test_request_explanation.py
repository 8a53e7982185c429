"""What the policy in force would do with a request, asked over the control socket."""

from __future__ import annotations

import json

import pytest

from tests.proxy.control.test_service import SECRET, Running, running
from tests.proxy.lab.proxy_stack import SANDBOX

__all__ = ["running"]

URL = "https://api.example.com/v1"


async def test_it_is_that_of_the_sandbox(running: Running) -> None:
    found = await running.ask("POST", "/explain/*", name=SANDBOX, url=URL)
    assert (found.status, found.body["verdict"], found.body["inject"]) == (200, "allow", ["tracker"])
    assert SECRET not in json.dumps(found.body)
    assert (await running.ask("POST", "/explain/*", name="nobody", url=URL)).status == 404


async def test_what_is_revoked_shows_and_nothing_is_recorded(running: Running) -> None:
    before = len(running.stack.lines())
    await running.ask("POST", "/kill", name="api.example.com")
    found = await running.ask("POST", "/explain", url=URL, profile="any")
    assert found.body["verdict"] == "deny"
    assert [line["event"] for line in running.stack.lines()[before:]] == ["killed"]


@pytest.mark.parametrize(
    "body",
    [{}, {"url": 5}, {"url": URL, "sandbox": "x"}, {"url": "nowhere at all"}, {"url": "a" * 9000}],
    ids=["none", "type", "further", "text", "long"],
)
async def test_what_is_no_request_is_refused(running: Running, body: dict[str, object]) -> None:
    assert (await running.ask("POST", "/explain", **body)).status == 400


async def test_a_host_that_no_rule_names_is_not_compared_with_every_entry(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Traffic waits while the proxy explains: an explanation costs about as much as a decision."""
    monkeypatch.setattr("egress.rules.decide.explain.difflib", None)
    found = await running.ask("POST", "/explain", url="https://api.exmaple.com/v1")
    assert (found.status, found.body["code"]) == (200, "host.unknown")
