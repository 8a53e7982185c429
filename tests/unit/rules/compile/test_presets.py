"""Expanding presets: arguments are data, positions name both places."""

from __future__ import annotations

import pytest

from egress.rules.compile.presets import expand, read
from egress.rules.language.document import read as read_document
from egress.rules.language.report import DocumentCursor, Report
from egress.types import Severity
from tests.unit.rules.rule_samples import decision_text, errors, loaded, policy

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
    document = expand(preset, value, DocumentCursor(report, used, ("use", 0)))
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
    document = expand(preset, value, DocumentCursor(report, used, ("use", 0)))
    assert document is not None
    path = ("hosts", "h.example", "inject", 1)
    assert str(document.place(path)) == "f:2:5 (preset p:19)"
    assert str(document.place(("hosts", "h.example", "allow", 2, "paths", 1))) == "f:2:5 (preset p:16)"
    assert str(document.place(("secrets", "s", "from"))) == "f:2:5 (preset p:10)"


@pytest.mark.parametrize(
    "arguments",
    [
        "", "host: [a]", "host: 3", "host: 'a b'", "host: '*.a'", "host: a.example, read: a",
        "host: a.example, read: [3]",
        "host: a.example, read: ['*']", "host: a.example, read: ['a b']",
        "host: a.example, read: ['${host}']",
        "host: a.example, read: ['a/./b']", "host: a.example, read: ['a/../b']",
        "host: a.example, secret: 'a b'", "host: a.example, secret: X",
        "host: a.example, others: ['a*b']", "host: a.example, more: x",
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


@pytest.mark.parametrize("sign", "AZaz09._~!$&'()*+,=:@%-")
def test_a_path_argument_may_have_every_sign_of_a_segment(sign: str) -> None:
    report = Report()
    text = """
title: P
parameters: {part: {type: path, help: A part., wildcard: true}}
hosts: {a.example: {paths: ["/${part}"]}}
"""
    preset = read("p", text, report)
    assert preset is not None
    used, _ = read_document("f", "use: [p]\n")
    for part in (f"a{sign}b", f"a/c{sign}d"):
        document = expand(preset, {"part": part}, DocumentCursor(report, used, ("use", 0)))
        assert document is not None, report.findings
        assert document.value == {"hosts": {"a.example": {"paths": [f"/{part}"]}}}


def test_the_name_of_a_parameter_may_have_digits_in_it() -> None:
    preset = "title: P\nparameters: {h2: {type: host, help: h}}\nhosts: {'${h2}': {}}\n"
    assert policy("use: [{p: {h2: a.example}}]", presets={"p": preset}).entries


def test_braces_without_a_dollar_are_no_parameter() -> None:
    preset = "title: P\nparameters: {h: {type: path, help: h}}\nhosts: {a.example: {paths: ['/{b}/${h}']}}\n"
    assert policy("use: [{p: {h: c}}]", presets={"p": preset}).entries


@pytest.mark.parametrize("name", ["a}", "a}b", "a}${b"])
def test_no_parameter_ends_before_its_name_does(name: str) -> None:
    preset = f"title: P\nparameters: {{'{name}': {{type: host, help: h}}}}\nhosts: {{a.example: {{}}}}\n"
    found = errors("use: [{p: {}}]", presets={"p": preset})
    assert any("is not a parameter name" in each for each in found)


def test_what_is_no_rule_may_speak_of_parameters() -> None:
    preset = "title: For ${h}\nparameters: {h: {type: host, help: 'Put in for ${h}.'}}\nhosts: {'${h}': {}}\n"
    assert policy("use: [{p: {h: a.example}}]", presets={"p": preset}).entries


def test_a_rule_that_is_dropped_at_one_host_stays_at_another() -> None:
    preset = """
title: P
parameters: {write: {type: list of path, help: W., default: []}}
secrets: {s: {from: "env:S", hosts: [a.example, b.example]}}
hosts:
  a.example: {allow: [{id: read}, {id: write, paths: ["/${write}"]}]}
  b.example:
    allow: [{id: write, paths: [/w]}]
    inject: [{bearer: s, for: [write]}]
"""
    rules = policy("use: [p]", presets={"p": preset})
    assert decision_text(rules, "GET https://b.example/w") == "allow p-write, inject s"


@pytest.mark.parametrize(
    "entry",
    [
        "allow: [3]", "allow: [{id: a, paths: []}]", "allow: [{id: a, paths: [3]}]", "allow: 3",
        "inject: [3]",
        "allow: all, inject: [{bearer: 3}]", "allow: all, inject: 3", "3",
        "allow: all, inject: [{bearer: s, for: x}]",
        "allow: [{id: a}], inject: [{bearer: s, for: [nobody]}]",
        "allow: [{id: a}], inject: [{bearer: s, for: [a, nobody]}]",
    ],
)  # fmt: skip
def test_a_mistake_in_the_rules_of_a_preset_is_reported_at_its_use(entry: str) -> None:
    secret = "secrets: {s: {from: 'env:S', hosts: [a.example]}}"
    host = entry if entry == "3" else f"{{{entry}}}"
    preset = f"title: P\n{secret}\nhosts: {{a.example: {host}}}\n"
    found = errors("use: [p]", presets={"p": preset})
    assert found
    assert all(line.startswith("hosts.yaml:1:7") for line in found)


CHOOSING = """
title: C
parameters:
  mode:
    {type: choice, help: How., choices: [no, some, all], default: no, risks: {all: "Everything is open."}}
  more: {type: list of choice, help: More., choices: [x, y], default: []}
  secret: {type: secret, help: A secret., default: s}
secrets:
  "${secret}": {from: "env:X", hosts: [h.example]}
hosts:
  h.example:
    allow:
      - {id: read, paths: [/r]}
      - {id: some, when: {mode: some}, paths: [/s]}
      - {id: all, when: {mode: all}}
      - {id: x, when: {more: x, mode: some}, paths: [/x]}
    deny: [{id: no, when: {mode: no}, paths: [/no]}]
    inject: [{bearer: "${secret}", for: [some, all]}, {query: {name: q, secret: s}, when: {more: y}}]
"""


def chosen(arguments: str) -> tuple[set[str], set[str]]:
    """The ids of the rules, and the slots that get a credential."""
    rules = policy(f"use: [{{c: {{{arguments}}}}}]", presets={"c": CHOOSING})
    (entry,) = rules.entries.values()
    ids = {rule.ref.id.removeprefix("c-") for rule in (*entry.allow, *entry.deny)}
    return ids, {str(slot) for item in entry.inject for slot in item.injection.slots}


@pytest.mark.parametrize(
    ("arguments", "ids", "slots"),
    [
        ("", {"read", "no"}, set()),
        ("mode: some", {"read", "some"}, {"header:authorization"}),
        ("mode: all", {"read", "all"}, {"header:authorization"}),
        ("mode: some, more: [x]", {"read", "some", "x"}, {"header:authorization"}),
        ("more: [y, x]", {"read", "no"}, {"query:q"}),
    ],
)
def test_a_condition_drops_what_another_choice_wants(arguments: str, ids: set[str], slots: set[str]) -> None:
    assert chosen(arguments) == (ids, slots)


def test_a_risk_is_said_where_it_is_chosen() -> None:
    findings = loaded("use: [{c: {mode: all}}]", presets={"c": CHOOSING}).findings
    said = [f for f in findings if f.severity is Severity.NOTICE]
    assert [(str(f.place), f.severity, f.message) for f in said] == [
        ("hosts.yaml:1:7", Severity.NOTICE, "c, mode: all: Everything is open.")
    ]
    assert loaded("use: [{c: {mode: some}}]", presets={"c": CHOOSING}).findings == ()


@pytest.mark.parametrize("when", ["{mode: none}", "{node: no}", "{secret: s}", "no", "[no]", "{mode: [no]}"])
def test_a_condition_that_no_argument_meets_is_an_error_of_the_preset(when: str) -> None:
    text = CHOOSING.replace("when: {mode: no}", f"when: {when}")
    (found,) = errors("use: [{c: {}}]", presets={"c": text})
    assert "no argument meets this condition" in found
    unknown = CHOOSING.replace("risks: {all:", "risks: {al:")
    assert "`al` is not a choice" in errors("use: [{c: {}}]", presets={"c": unknown})[0]


def test_a_condition_counts_on_rules_and_injections_alone() -> None:
    text = CHOOSING.replace("  h.example:\n", "  h.example:\n    when: {mode: no}\n")
    assert "unknown key `when`" in errors("use: [c]", presets={"c": text})[0]
    assert "unknown key `when`" in errors("hosts: {h.example: {allow: [{id: a, when: {mode: no}}]}}")[0]
