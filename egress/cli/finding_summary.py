"""Findings on the screen, and what they mean for the exit status: the same for every check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from egress.cli import render
from egress.cli.render import count
from egress.types import Finding, Severity


def is_failure(severities: Sequence[Severity], *, strict: bool) -> bool:
    """Report whether a check has failed: by an error, and by a warning if it is strict."""
    return Severity.ERROR in severities or (strict and Severity.WARNING in severities)


def show(findings: Sequence[Finding], names: str, summary: Callable[[], str], *, failed: bool) -> None:
    """Print findings and, below them, their totals; `summary` says what was read if nothing failed."""
    render.findings(findings)
    counts = Counter(finding.severity for finding in findings)
    totals = ", ".join(count(counts[severity], severity.value) for severity in Severity if counts[severity])
    if failed:
        render.line((totals, render.BAD), f" in {names}")
    else:
        render.line(
            ("ok ", render.GOOD), f"{names}: {summary()}", (f" ({totals})" if totals else "", render.DOUBT)
        )
