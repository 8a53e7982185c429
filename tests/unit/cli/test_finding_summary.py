"""The last line of a check, and its status."""

from __future__ import annotations

import pytest

from egress.cli.finding_summary import is_failure, show
from egress.types import Finding, Place, Severity

ERROR, WARNING, NOTICE = Severity.ERROR, Severity.WARNING, Severity.NOTICE


def test_an_error_fails_and_a_warning_fails_when_strict() -> None:
    assert is_failure([NOTICE, ERROR], strict=False)
    assert not is_failure([NOTICE, WARNING], strict=False)
    assert is_failure([WARNING], strict=True)
    assert not is_failure([NOTICE], strict=True)


def test_totals_stand_below_the_findings(capsys: pytest.CaptureFixture[str]) -> None:
    findings = [Finding(Place("a.yaml", 1, 2), severity, "odd", "mend it") for severity in (ERROR, WARNING)]
    show(findings, "a.yaml", lambda: "nothing", failed=True)
    assert capsys.readouterr().out.splitlines()[-2:] == ["  hint: mend it", "1 error, 1 warning in a.yaml"]
    show(findings[1:], "a.yaml", lambda: "2 hosts", failed=False)
    assert capsys.readouterr().out.splitlines()[-1] == "ok a.yaml: 2 hosts (1 warning)"
