"""The dashboards: what Grafana can load, queries for metrics that there are, and no series of a sandbox."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.telemetry.metric_names import METRIC_NAMES, names_in

FOLDER = Path(__file__).parents[2] / "charts/egress/dashboards"
DASHBOARDS = sorted(FOLDER.glob("*.json"))


def loaded(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def queries(path: Path) -> Iterator[str]:
    for panel in loaded(path)["panels"]:
        for target in panel["targets"]:
            yield target["expr"]


def test_there_are_two_with_names_of_their_own() -> None:
    assert [path.name for path in DASHBOARDS] == ["egress-health.json", "egress-traffic.json"]
    boards = [loaded(path) for path in DASHBOARDS]
    assert [board["uid"] for board in boards] == [path.stem for path in DASHBOARDS]


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_have_their_place_and_say_what_they_show(path: Path) -> None:
    taken: set[tuple[int, int]] = set()
    panels = loaded(path)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["targets"]
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken
        taken |= cells


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_queries_ask_for_metrics_that_there_are_and_for_no_sandbox(path: Path) -> None:
    for query in queries(path):
        asked = names_in(query)
        assert asked, query
        assert asked <= METRIC_NAMES, query
        assert 'job=~"$job"' in query
        assert "{{sandbox}}" not in query
        assert "by (sandbox" not in query


def test_every_metric_is_on_a_dashboard() -> None:
    """One that nobody sees is not worth counting."""
    shown = {name for path in DASHBOARDS for query in queries(path) for name in names_in(query)}
    ends = ("_bucket", "_sum", "_count")
    told = {name for name in METRIC_NAMES if not name.endswith(ends)}
    hidden = {name for name in told if name not in shown and f"{name}_bucket" not in shown}
    assert hidden == set()
