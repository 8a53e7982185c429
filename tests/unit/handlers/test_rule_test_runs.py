"""Tests of a rule file, where a handler decides."""

from __future__ import annotations

import pytest

from egress.handlers.in_process import InProcessHandlers
from egress.handlers.rule_test_runs import run_tests_with_handlers
from egress.rules.compile.rule_tests import run_rule_tests
from tests.unit.handlers.samples import module
from tests.unit.rules.rule_samples import NOW, policy

pytestmark = pytest.mark.timeout(60, method="thread")

RULES = """
version: 1
hosts:
  api.example.com:
    allow:
      - {id: read, methods: [GET], paths: ["/v1/**"], handler: {use: one}}
      - {id: plain, methods: [GET], paths: ["/plain"]}
    tests:
      - GET /v1/allow -> allow read
      - GET /v1/deny -> deny handler.denied
      - GET /v1/answer -> answer 201
      - GET /plain -> allow plain
      - GET /plain -> answer
      - GET /v1/deny -> allow
      - GET /v1/answer -> answer 200
      - GET /v1/allow -> deny handler.denied
"""
FILE = """
@handler
async def one(request: Request, context: Context):
    return {"allow": Allow(), "deny": Deny("no"), "answer": Answer(201)}[request.path.split("/")[-1]]
"""


async def test_every_test_is_held_to_what_its_handler_says() -> None:
    results = await run_tests_with_handlers(policy(RULES), NOW, InProcessHandlers(module(FILE)))
    assert [result.problem for result in results] == [
        "",
        "",
        "",
        "",
        "no handler is called; the decision is allow plain",
        "the handler one denies: no",
        "the handler one answers 201 with 0 bytes",
        "the handler one allows it",
    ]


def test_without_the_handlers_such_tests_are_open() -> None:
    results = list(run_rule_tests(policy(RULES), NOW))
    assert [result.is_open and not result.problem for result in results] == [
        *(False, True, True, False, False, False, True, True)
    ]
