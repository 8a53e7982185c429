"""The check of a text in a process of its own: what it finds, and what it is not let do."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from egress.policy.rule_text_check import MAX_FINDINGS, report
from scripts.pages import ROOT

GOOD = "version: 1\nhosts: {a.example.com: {}}\n"


def test_a_good_text_has_a_digest_and_a_wrong_one_has_findings() -> None:
    good, wrong = report(GOOD, 0), report("version: 1\nhosts: {a.example.com: {alow: all}}\n", 0)
    assert (good["ok"], good["findings"], good["total"]) == (True, [], 0)
    assert (wrong["ok"], wrong["digest"], wrong["total"]) == (False, None, 1)


def test_findings_are_bounded_and_counted() -> None:
    found = report("version: 1\nhosts:\n" + "".join(f"  a{n}.example.com: 5\n" for n in range(500)), 0)
    findings, total = found["findings"], found["total"]
    assert isinstance(findings, list)
    assert isinstance(total, int)
    assert len(findings) == MAX_FINDINGS < total


@pytest.mark.parametrize("text", ["", "\0", "\udcff", "- " * 50_000, "a: " * 50_000], ids=range(5))
def test_whatever_the_text_is_the_answer_is_a_report(text: str) -> None:
    assert report(text, 0)["ok"] is False


def test_it_reads_its_input_and_takes_no_part_of_the_environment() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "egress.policy.rule_text_check"],
        input=GOOD.encode(),
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert json.loads(done.stdout) == report(GOOD, 0)
