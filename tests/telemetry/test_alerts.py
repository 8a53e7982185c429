"""The alert rules: metrics that there are, a page for each, and a case for and against each.

promtool tries the cases by night.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.telemetry.alert_cases import CASES, AlertCase
from tests.telemetry.metric_names import METRIC_NAMES, names_in

ROOT = Path(__file__).parents[2]
RULES = ROOT / "charts/egress/alerts/egress.yaml"
RUNBOOKS = ROOT / "docs/runbooks"
SECTIONS = ("## What it means", "## How to look", "## What to do")


def alerts() -> list[dict[str, object]]:
    (group,) = YAML(typ="safe").load(RULES.read_text(encoding="utf-8"))["groups"]
    return list(group["rules"])


ALERTS = {str(each["alert"]): each for each in alerts()}


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_a_page_that_says_what_to_do(name: str) -> None:
    alert = ALERTS[name]
    annotations, labels = alert["annotations"], alert["labels"]
    assert isinstance(annotations, dict)
    assert isinstance(labels, dict)
    assert annotations["runbook"] == f"docs/runbooks/{name}.md"
    assert labels["severity"] in ("critical", "warning")
    page = (ROOT / str(annotations["runbook"])).read_text(encoding="utf-8")
    assert page.startswith(f"# {name}\n\n")
    assert [section for section in SECTIONS if f"\n{section}\n\n" not in page] == []


def test_every_page_has_its_alert_and_is_listed() -> None:
    pages = {path.stem for path in RUNBOOKS.glob("*.md")} - {"README"}
    assert pages == set(ALERTS)
    listed = re.findall(r"\[(\w+)\]\((\w+)\.md\)", (RUNBOOKS / "README.md").read_text(encoding="utf-8"))
    assert listed == [(name, name) for name in ALERTS]


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_asks_for_metrics_that_there_are(name: str) -> None:
    asked = names_in(str(ALERTS[name]["expr"]))
    assert asked
    assert asked <= METRIC_NAMES


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_a_case_for_it_and_one_against_it(name: str) -> None:
    assert {bool(case.fires) for case in CASES if case.alert == name} == {True, False}


def test_no_case_is_for_an_alert_that_is_gone() -> None:
    assert {case.alert for case in CASES} == set(ALERTS)


def written(case: AlertCase) -> dict[str, object]:
    """A case as promtool reads it."""
    severity = str(ALERTS[case.alert]["labels"]["severity"])  # type: ignore[index]
    found = [
        {"alertname": case.alert, "alertstate": "firing", "severity": severity, **labels}
        for labels in case.fires
    ]
    return {
        "interval": "30s",
        "input_series": [{"series": name, "values": values} for name, values in case.series.items()],
        "promql_expr_test": [
            {
                "expr": f'ALERTS{{alertname="{case.alert}",alertstate="firing"}}',
                "eval_time": case.at,
                "exp_samples": [
                    {
                        "labels": "ALERTS{" + ",".join(f'{k}="{v}"' for k, v in labels.items()) + "}",
                        "value": 1,
                    }
                    for labels in found
                ],
            }
        ],
    }


def judged(
    folder: Path, cases: Iterator[AlertCase] | tuple[AlertCase, ...]
) -> subprocess.CompletedProcess[str]:
    tests = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "30s",
        "tests": [written(case) for case in cases],
    }
    file = folder / "alerts.json"
    file.write_text(json.dumps(tests), encoding="utf-8")
    return subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, check=False)


@pytest.mark.nightly
@pytest.mark.system("promtool", "prometheus")
def test_each_alert_fires_on_what_it_is_for_and_on_nothing_that_looks_like_it(tmp_path: Path) -> None:
    assert (done := judged(tmp_path, CASES)).returncode == 0, done.stdout + done.stderr


@pytest.mark.nightly
@pytest.mark.system("promtool", "prometheus")
def test_a_case_that_is_wrong_would_be_found(tmp_path: Path) -> None:
    wrong = (AlertCase("EgressAuditDamaged", {"egress_audit_damaged": "0x20"}, "1m", ({},)),)
    assert judged(tmp_path, wrong).returncode != 0


@pytest.mark.nightly
@pytest.mark.system("promtool", "prometheus")
def test_the_file_is_what_prometheus_reads() -> None:
    done = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout
