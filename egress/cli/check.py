"""`egress check`: find every mistake in the rule files, in one run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from egress.cli import folder_options, render, rule_options
from egress.cli.finding_summary import is_failure, show
from egress.cli.render import count
from egress.policy.rule_source import allows_something
from egress.rules.compile.load import LoadResult


@click.command()
@click.argument("files", nargs=-1, type=folder_options.FILE, metavar="[FILE]...")
@click.option("--strict", is_flag=True, help="Treat warnings as errors; notices are none.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def check(files: tuple[Path, ...], strict: bool, as_json: bool) -> int:
    """Find every mistake in rule files, with line, column and a hint.

    Without FILE, reads config/hosts.yaml or else hosts.yaml. No secret is resolved.

    \b
    Examples:
      egress check
      egress check config/hosts.yaml --json
    """
    paths, loaded = rule_options.read(files)
    # Shared by both forms of output, so that they cannot disagree about the exit status.
    failed = is_failure([finding.severity for finding in loaded.findings], strict=strict)
    if as_json:
        render.data(_as_data(paths, loaded, ok=not failed))
    else:
        show(loaded.findings, ", ".join(map(str, paths)), lambda: _summary(loaded), failed=failed)
    return int(failed)


def _summary(loaded: LoadResult) -> str:
    policy = loaded.policy
    if policy is None:
        return "nothing"
    counts = [
        (len(policy.entries), "host"),
        (len(policy.networks), "network"),
        (len(policy.secrets), "secret"),
        (len(policy.profiles or ()), "profile"),
        (len(policy.cases), "test"),
    ]
    there = [count(n, noun) for n, noun in counts if n]
    # Valid but useless: say it here, where the file is being written.
    if not allows_something(policy):
        there.append("nothing is allowed, so `egress serve` will not start with it")
    return ", ".join(there)


def _as_data(paths: list[Path], loaded: LoadResult, *, ok: bool) -> dict[str, object]:
    return {
        "ok": ok,
        "files": [str(path) for path in paths],
        "digest": loaded.policy.digest if loaded.policy else None,
        "findings": [
            {
                **asdict(finding.place),
                "severity": finding.severity,
                "message": finding.message,
                "hint": finding.hint,
            }
            for finding in loaded.findings
        ],
    }
