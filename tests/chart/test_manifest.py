"""The manifest for those without Helm is what the chart renders with its default values."""

from __future__ import annotations

from scripts.manifest import MANIFEST, manifest
from tests.chart.rendered_chart import objects, parsed


def test_the_manifest_is_what_the_chart_renders() -> None:
    assert MANIFEST.read_text("utf-8") == manifest(), "run `python -m scripts.manifest`"


def test_nothing_of_the_chart_is_missing_in_it() -> None:
    def names(found: list[dict[str, dict[str, str]]]) -> set[tuple[object, str]]:
        return {(each["kind"], each["metadata"]["name"]) for each in found}

    shipped = names(parsed(MANIFEST.read_text("utf-8")))
    assert names(objects()) - shipped == {("Pod", "egress-test")}
    assert shipped - names(objects()) == {("Namespace", "agents"), ("Pod", "workload")}
    assert "helm" not in MANIFEST.read_text("utf-8").replace("Helm", "")
