"""Findings say where they are, and each code has a cure."""

from __future__ import annotations

import re

from egress.kubernetes.manifest_findings import FINDING_CODES, finding_at, finding_of_file, finding_of_text
from egress.kubernetes.manifest_objects import objects_of
from egress.kubernetes.manifest_text import read_manifests
from egress.types import Severity


def test_codes_are_words_with_a_meaning_and_a_cure() -> None:
    for code, known in FINDING_CODES.items():
        assert re.fullmatch(r"[a-z]+\.[a-z]+(-[a-z]+)*", code)
        assert known.message[0].islower() or known.message.startswith("/")
        assert known.hint
        assert not known.message.endswith(".")
        assert known.severity is not Severity.NOTICE


def test_a_finding_prints_its_place_object_path_and_code() -> None:
    text = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: ns}\nspec:\n  hostPID: true\n"
    (found,) = objects_of(read_manifests("m.yaml", text), "")
    finding = finding_at("pod.host-pid", found, found.node.at("spec", "hostPID"), "as written")
    assert str(finding.as_finding) == (
        "m.yaml:6:12: the pod sees the processes of its node: as written "
        "[pod.host-pid: document 1, Pod ns/a, spec.hostPID]"
    )
    missing = finding_at("pod.token", found, found.node.at("spec", "automountServiceAccountToken"))
    assert (missing.place.line, missing.path) == (5, "spec.automountServiceAccountToken")


def test_a_finding_without_an_object_prints_its_code_alone() -> None:
    (fault,) = read_manifests("m.yaml", "a: [\n").findings
    assert str(finding_of_text(fault).as_finding).endswith("not closed [manifest.text]")
    assert str(finding_of_file("manifest.empty", "m.yaml").as_finding).startswith("m.yaml:1:1: no pod")
