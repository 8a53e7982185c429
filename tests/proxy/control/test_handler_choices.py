"""Handlers over the control socket. What a choice leads to is in tests/proxy/test_outbound_examples.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from egress.audit.reported_facts import AuditStoppedError
from egress.proxy.control.handler_choices import HandlerChoices
from egress.rules.decide.outbound import NO_CHOICE
from tests.proxy.lab.proxy_stack import NAME, SANDBOX
from tests.proxy.test_outbound_examples import opened

pytestmark = pytest.mark.timeout(120, method="thread")


async def test_a_choice_of_what_is_not_there_changes_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path, in_process=True) as (stack, _):
        choose = HandlerChoices(stack.engine).routes()["POST", "/handlers/*"]
        show = HandlerChoices(stack.engine).routes()["GET", "/handlers/*"]
        for body, status, said in (
            ({"name": "nobody"}, 404, "no sandbox"),
            ({"name": SANDBOX, "catch_all": {"use": "blocks"}}, 409, "did you mean"),
            ({"name": SANDBOX, "by_host": {"https://x": {"use": "block"}}}, 409, "not a host name"),
            ({"name": SANDBOX, "by_host": {NAME: "block"}}, 400, "no choice of handlers"),
            ({"name": SANDBOX, "hosts": {}}, 400, "no choice of handlers"),
            (
                {"name": SANDBOX, "catch_all": {"use": "block", "params": {"a": "x" * 20_000}}},
                409,
                "characters",
            ),
        ):
            reply = await choose(body)
            assert (reply.status, said in json.dumps(dict(reply.body))) == (status, True), reply.body
        shown = dict((await show({"name": SANDBOX})).body)
        assert (shown["by_host"], shown["catch_all"]) == ({}, None)
        assert "block" in shown["loaded"]  # type: ignore[operator]
        assert not [line for line in stack.lines() if line["event"] == "handlers.chosen"]


async def test_a_choice_ends_with_its_sandbox_and_outlives_new_rules(tmp_path: Path) -> None:
    async with opened(tmp_path, in_process=True) as (stack, _):
        routes = HandlerChoices(stack.engine).routes()
        await routes["POST", "/handlers/*"]({"name": SANDBOX, "catch_all": {"use": "block"}})
        stack.engine.swap(stack.engine.policy)
        assert stack.engine.policy.outbound.chosen.keys() == {SANDBOX}
        stack.engine.set_handlers(SANDBOX, NO_CHOICE)
        assert not stack.engine.policy.outbound.chosen


async def test_nothing_is_chosen_where_it_cannot_be_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, in_process=True) as (stack, _):

        def full(*_: object, **__: object) -> None:
            raise AuditStoppedError("full", "see `egress status`")

        monkeypatch.setattr(stack.engine.audit, "event", full)
        choose = HandlerChoices(stack.engine).routes()["POST", "/handlers/*"]
        reply = await choose({"name": SANDBOX, "catch_all": {"use": "block"}})
        assert reply.status == 503
        assert not stack.engine.policy.outbound.chosen
        monkeypatch.undo()
