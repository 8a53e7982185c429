"""The page about many gateways shows what its formulas give for its inputs."""

from __future__ import annotations

import pytest

from bench.kubernetes.on_paper import Fleet, Measured, inputs, lines, read, table
from scripts.pages import ROOT, text

PAGE = ROOT / "docs/guides/kubernetes-scale.md"


def test_the_tables_are_those_that_the_program_prints() -> None:
    assert inputs(Fleet(), Measured()) in text(PAGE), "put in what python -m bench.kubernetes.on_paper prints"
    assert table(Fleet(), Measured()) in text(PAGE), "put in what python -m bench.kubernetes.on_paper prints"


def test_inputs_are_given_by_their_names() -> None:
    fleet, found = read(["gateways=1", "sandboxes=10", "line_bytes=100", "requests_per_day=5"])
    told = {what: value for what, _, value, _ in lines(fleet, found)}
    assert told["sandboxes, S"] == 10
    assert told["the log of a day"] == 10 * 5 * 100 / 1e9
    with pytest.raises(SystemExit, match="no such input: gate"):
        read(["gate=1"])
