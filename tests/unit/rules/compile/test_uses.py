"""Items of `use:`: what stands beside the name of a preset."""

from __future__ import annotations

import pytest

from egress.rules.compile.uses import PresetUse, read_use
from egress.rules.language.document import read
from egress.rules.language.report import DocumentCursor, Report


def used(item: str) -> tuple[PresetUse | None, list[str]]:
    report = Report()
    document, _ = read("hosts.yaml", f"use: [{item}]\n")
    value = document.value["use"][0]  # type: ignore[call-overload, index]
    found = read_use(value, DocumentCursor(report, document, ("use", 0)), {"p", "q"})
    return found, [str(finding) for finding in report.findings]


@pytest.mark.parametrize(
    ("item", "name", "arguments", "without"),
    [
        ("p", "p", {}, []),
        ("{p: {}}", "p", {}, []),
        ("{p: {a: b}}", "p", {"a": "b"}, []),
        ("{as: x, p: {a: [b]}}", "x", {"a": ["b"]}, []),
        ("{p: {}, without: [no, p-no2], as: y-2}", "y-2", {}, ["no", "p-no2"]),
    ],
)
def test_an_item(item: str, name: str, arguments: dict[str, object], without: list[str]) -> None:
    found, findings = used(item)
    assert findings == []
    assert found is not None
    assert (found.preset, found.name, found.arguments, list(found.without)) == ("p", name, arguments, without)


def test_a_deny_is_lifted_by_its_own_id_or_by_the_one_of_its_use() -> None:
    found, _ = used("{p: {}, without: [no, x-off, p-any], as: x}")
    assert found is not None
    lifted = {deny: found.lifts(deny) for deny in ("no", "off", "any", "x")}
    assert lifted == {"no": "no", "off": "x-off", "any": "", "x": ""}


@pytest.mark.parametrize("item", ["{}", "{p: {}, q: {}}", "[p]", "1", "{p: 1}", "r", "{r: {}}"])
def test_a_mistake_is_reported_once_and_uses_nothing(item: str) -> None:
    found, findings = used(item)
    assert found is None
    assert len(findings) == 1
