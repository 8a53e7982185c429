"""Expanding presets: arguments are data, positions name both places."""

from __future__ import annotations

import pytest

from egress.rules.document import read as read_document
from egress.rules.presets import expand, read
from egress.rules.report import At, Report

TEXT = """
title: P
parameters:
  host: {type: host, help: A host.}
  others: {type: list of host, help: More., default: [], wildcard: true}
  read: {type: list of path, help: Paths., default: [a, b]}
  write: {type: list of path, help: Paths., default: []}
  secret: {type: secret, help: A secret., default: s}
secrets:
  "${secret}": {from: "env:X", hosts: ["${host}", "*.${host}"]}
hosts:
  "${host}":
    allow:
      - {id: read, paths: ["/${read}", "/x/${read}/**"]}
      - {id: write, paths: ["/${write}/y"]}
      - {id: both, paths: ["/${write}", "/fixed"]}
    deny: [{id: no, paths: ["/${write}/z"]}]
    inject: [{bearer: "${secret}", for: [write, read]},
      {cookie: {name: c, secret: "${secret}"}, for: [write]}]
  "${others}": {paths: ["/o"]}
"""


def expanded(arguments: str) -> tuple[object, Report]:
    report = Report()
    preset = read("p", TEXT, report)
    assert preset is not None, report.findings
    used, _ = read_document("f", f"use:\n  - p: {{{arguments}}}\n")
    value = used.value["use"][0]["p"]  # type: ignore[call-overload, index]
    document = expand(preset, value, At(report, used, ("use", 0)))
    return (document.value if document else None), report


def test_puts_arguments_in_and_drops_what_is_left_without_paths() -> None:
    value, _ = expanded("host: h.example, others: [o.example, '*.q.example']")
    assert value == {
        "secrets": {"s": {"from": "env:X", "hosts": ["h.example", "*.h.example"]}},
        "hosts": {
            "h.example": {
                "allow": [
                    {"id": "read", "paths": ["/a", "/b", "/x/a/**", "/x/b/**"]},
                    {"id": "both", "paths": ["/fixed"]},
                ],
                "deny": [],
                "inject": [{"bearer": "s", "for": ["read"]}],
            },
            "o.example": {"paths": ["/o"]},
            "*.q.example": {"paths": ["/o"]},
        },
    }


def test_keeps_an_injection_for_a_rule_that_stays() -> None:
    value, _ = expanded("host: h.example, write: [w]")
    inject = value["hosts"]["h.example"]["inject"]  # type: ignore[index]
    assert [item["for"] for item in inject] == [["write", "read"], ["write"]]


def test_a_place_names_the_use_item_and_the_line_of_the_preset() -> None:
    report = Report()
    preset = read("p", TEXT, report)
    used, _ = read_document("f", "use:\n  - p: {host: h.example, write: [w]}\n")
    assert preset is not None
    value = used.value["use"][0]["p"]  # type: ignore[call-overload, index]
    document = expand(preset, value, At(report, used, ("use", 0)))
    assert document is not None
    path = ("hosts", "h.example", "inject", 1)
    assert str(document.place(path)) == "f:2:5 (preset p:19)"
    assert str(document.place(("hosts", "h.example", "allow", 2, "paths", 1))) == "f:2:5 (preset p:16)"


@pytest.mark.parametrize(
    "arguments",
    [
        "", "host: [a]", "host: 3", "host: 'a b'", "host: '*.a'", "host: a.example, read: a",
        "host: a.example, read: [3]",
        "host: a.example, read: ['*']", "host: a.example, read: ['a b']",
        "host: a.example, read: ['${host}']",
        "host: a.example, secret: X", "host: a.example, others: ['a*b']", "host: a.example, more: x",
    ],
)  # fmt: skip
def test_a_wrong_argument_expands_to_nothing(arguments: str) -> None:
    value, report = expanded(arguments)
    assert value is None
    assert report.has_errors
    assert all(finding.place.file == "f" for finding in report.findings)


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "title: 3", "title: P\nparameters: {x: {type: host}}", "title: P\nmode: observe",
        (
        "title: P\nhosts: {a:"
        " {paths: ['/${no}']}}"
        ), "title: P\nhosts: {'${no}': {}}", "title: P\nhosts: &x {}",
        "title: P\nparameters: {x: {type: host, help: h, default: 3}}",
        "title: P\nparameters: {x: {type: path, help: h}}\nhosts: {a: {query: {paths: '${x}'}}}",
        (
        "title: P\nparameters: {x: {type: path, help:"
        " h}}\nhosts: {a: {allow: [{id: a, query: {'${x}': a}}]}}"
        ),
    ],
)  # fmt: skip
def test_a_wrong_preset_is_reported_and_not_read(text: str) -> None:
    report = Report()
    read("p", text, report)
    assert report.has_errors
    assert all(finding.place.file == "preset p" for finding in report.findings)
