"""The tests of rule files that a handler decides, run with the handlers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from egress.handlers.caller import HandlerCaller
from egress.handlers.trial import HandlerTrial, try_handler
from egress.rules.compile.rule_tests import RuleTestResult, head_of, run_rule_tests
from egress.rules.decide.policy import Policy, RuleTest
from egress.types import Identity


async def run_tests_with_handlers(
    policy: Policy, now: int, caller: HandlerCaller
) -> Sequence[RuleTestResult]:
    """Run every test of the policy, and ask the handler wherever one is called."""
    loaded = replace(policy, outbound=caller.outbound)
    results = []
    for result in run_rule_tests(loaded, now):
        case = result.case
        trial = None
        if not result.problem and result.decision.allowed:
            identity = Identity("test", case.profile, case.parameters)
            moment = now if case.at is None else case.at
            trial = await try_handler(loaded, identity, head_of(case), moment, case.body, caller)
        results.append(
            result if trial is None else replace(result, problem=_problem(case, trial), is_open=False)
        )
    return results


def _problem(case: RuleTest, trial: HandlerTrial) -> str:
    expected = {
        "allow": not trial.code and not trial.status,
        "deny": bool(trial.code) and case.expected in ("", trial.code),
        "answer": bool(trial.status) and case.expected in ("", str(trial.status)),
    }
    return "" if expected[case.verdict] else f"the handler {trial.handler} {trial.text}"
