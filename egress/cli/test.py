"""`egress test`: run the tests in rule files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from egress.cli import folder_options, render, rule_options
from egress.cli.handler_options import of_handlers, with_handlers
from egress.cli.render import BAD, DIM, GOOD, count
from egress.rules.compile.rule_tests import RuleTestResult, describe_decision, run_rule_tests
from egress.rules.decide.policy import Policy
from egress.rules.language.credential_guess import looks_like_credential


@click.command()
@click.argument("files", nargs=-1, type=folder_options.FILE, metavar="[FILE]...")
@of_handlers
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def test(files: tuple[Path, ...], handlers: Path | None, as_json: bool) -> int:
    """Run the tests of rule files and show each result.

    Without FILE, reads config/hosts.yaml or else hosts.yaml. No secret is resolved. With --handlers, every
    handler that a request comes to is asked.

    \b
    Examples:
      egress test
      egress test config/hosts.yaml --json
    """
    _, policy = rule_options.policy(files)
    results = _results(policy, handlers)
    failed = sum(bool(result.problem) for result in results)
    if as_json:
        render.data({"ok": not failed, "tests": [_as_data(result) for result in results]})
        return int(bool(failed))
    render.table([_row(result) for result in results])
    # Rules without tests are no failure, but worth a hint.
    if not results:
        render.line("no tests", ("  hint: add `tests:` below a host, such as `GET /user -> allow read`", DIM))
        return 0
    pending = sum(result.is_open and not result.problem for result in results)
    passed = len(results) - failed - pending
    summary = f"{passed} passed, {failed} failed" if failed else f"{count(passed, 'test')} passed"
    render.line((summary, BAD if failed else GOOD))
    if pending:
        said = f"{count(pending, 'test')} not run: name the file of the handlers with --handlers"
        render.line((said, DIM))
    return int(bool(failed))


def _results(policy: Policy, handlers: Path | None) -> Sequence[RuleTestResult]:
    now = rule_options.now()
    if handlers is None:
        return list(run_rule_tests(policy, now))
    from egress.handlers.rule_test_runs import run_tests_with_handlers

    return with_handlers(handlers, lambda caller: run_tests_with_handlers(policy, now, caller))


def _text(result: RuleTestResult) -> str:
    """Return the test's text, hiding a pasted token: the output ends up in build logs."""
    text = result.case.text
    return "(hidden: it looks like a credential)" if looks_like_credential(text) else text


def _row(result: RuleTestResult) -> list[render.Part | str]:
    place = result.case.place
    if result.problem:
        return [("FAIL", BAD), _text(result), (result.problem, BAD), (str(place), DIM)]
    if result.is_open:
        return [("open", DIM), _text(result), ("its handler decides", DIM), (str(place), DIM)]
    return [("ok", GOOD), _text(result), "", (str(place), DIM)]


def _as_data(result: RuleTestResult) -> dict[str, object]:
    return {
        "test": _text(result),
        "place": str(result.case.place),
        "ok": not result.problem,
        "outcome": describe_decision(result.decision),
        "problem": result.problem,
        "open": result.is_open,
    }
