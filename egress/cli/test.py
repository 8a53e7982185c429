"""`egress test`: run the tests in rule files."""

from __future__ import annotations

from pathlib import Path

import click

from egress.cli import folder_options, render, rule_options
from egress.cli.render import BAD, DIM, GOOD, count
from egress.rules.compile.rule_tests import RuleTestResult, describe_decision, run_rule_tests
from egress.rules.language.credential_guess import looks_like_credential


@click.command()
@click.argument("files", nargs=-1, type=folder_options.FILE, metavar="[FILE]...")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def test(files: tuple[Path, ...], as_json: bool) -> int:
    """Run the tests of rule files and show each result.

    Without FILE, reads config/hosts.yaml or else hosts.yaml. No secret is resolved.

    \b
    Examples:
      egress test
      egress test config/hosts.yaml --json
    """
    _, policy = rule_options.policy(files)
    results = list(run_rule_tests(policy, rule_options.now()))
    failed = sum(bool(result.problem) for result in results)
    if as_json:
        render.data({"ok": not failed, "tests": [_as_data(result) for result in results]})
        return int(bool(failed))
    render.table([_row(result) for result in results])
    # Rules without tests are no failure, but worth a hint.
    if not results:
        render.line("no tests", ("  hint: add `tests:` below a host, such as `GET /user -> allow read`", DIM))
        return 0
    summary = (
        f"{len(results) - failed} passed, {failed} failed"
        if failed
        else f"{count(len(results), 'test')} passed"
    )
    render.line((summary, BAD if failed else GOOD))
    return int(bool(failed))


def _text(result: RuleTestResult) -> str:
    """Return the test's text, hiding a pasted token: the output ends up in build logs."""
    text = result.case.text
    return "(hidden: it looks like a credential)" if looks_like_credential(text) else text


def _row(result: RuleTestResult) -> list[render.Part | str]:
    place = result.case.place
    if result.problem:
        return [("FAIL", BAD), _text(result), (result.problem, BAD), (str(place), DIM)]
    return [("ok", GOOD), _text(result), "", (str(place), DIM)]


def _as_data(result: RuleTestResult) -> dict[str, object]:
    return {
        "test": _text(result),
        "place": str(result.case.place),
        "ok": not result.problem,
        "outcome": describe_decision(result.decision),
        "problem": result.problem,
    }
