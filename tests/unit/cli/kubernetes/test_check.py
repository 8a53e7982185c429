"""`egress k8s check`: its output, its status, and the risks that are accepted."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from egress.cli.main import main
from tests.unit.kubernetes.manifest_samples import SHIPPED, pod, shipped, text_of

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def weak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A manifest with an error and a warning."""
    monkeypatch.chdir(tmp_path)
    objects = shipped()
    pod(objects).update({"hostPID": True, "enableServiceLinks": True})
    path = Path("weak.yaml")
    path.write_text(text_of(objects), encoding="utf-8")
    return path


def test_the_shipped_manifest_is_fine(capsys: Captured) -> None:
    assert main(["k8s", "check", str(SHIPPED)]) == 0
    assert capsys.readouterr().out == f"ok {SHIPPED}: 23 objects, 1 sandbox pod, 4 network policies\n"


def test_findings_are_printed_with_their_cure_and_counted(weak: Path, capsys: Captured) -> None:
    assert main(["k8s", "check", str(weak)]) == 1
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 5
    assert out[0].endswith("[pod.service-links: document 17, Pod agents/workload, spec.enableServiceLinks]")
    assert out[2].startswith("weak.yaml:33:")
    assert out[3] == "  hint: remove `hostPID`"
    assert out[4] == "1 error, 1 warning in weak.yaml"


def test_an_accepted_code_is_a_notice_and_a_warning_fails_when_strict(weak: Path, capsys: Captured) -> None:
    command = ["k8s", "check", str(weak), "--accept", "pod.host-pid:workload"]
    assert main(command) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("(1 warning, 1 notice)")
    assert main([*command, "--strict"]) == 1


def test_json_has_the_same_findings(weak: Path, capsys: Captured) -> None:
    assert main(["k8s", "check", str(weak), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["files"], found["objects"]) == (False, ["weak.yaml"], 17)
    assert found["sandboxes"], found["policies"] == (1, 4)
    finding = found["findings"][1]
    assert finding.pop("column") > 1
    assert finding == {
        "code": "pod.host-pid",
        "severity": "error",
        "file": "weak.yaml",
        "line": 33,
        "document": 17,
        "object": "Pod agents/workload",
        "path": "spec.hostPID",
        "message": "the pod sees the processes of its node",
        "hint": "remove `hostPID`",
    }


def test_files_are_read_together_and_one_may_be_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    policies = tmp_path / "policies.yaml"
    objects = shipped()
    policies.write_text(text_of([each for each in objects if each["kind"] != "Pod"]), encoding="utf-8")
    workload = text_of([each for each in objects if each["kind"] == "Pod"]).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(workload)))
    assert main(["k8s", "check", str(policies), "-"]) == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(workload)))
    assert main(["k8s", "check", "-"]) == 1
    assert "[fence.none: document 1, Pod agents/workload, metadata]" in capsys.readouterr().out


def test_a_code_that_nobody_knows_cannot_be_accepted(weak: Path, capsys: Captured) -> None:
    for text in ("pod.hostpid", "manifest.text", ""):
        assert main(["k8s", "check", str(weak), "--accept", text]) == 2
    assert "is not a code that can be accepted" in capsys.readouterr().err


def test_a_file_that_is_no_text_or_no_file(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "m.yaml"
    path.write_bytes(b"a: \xff\n")
    assert main(["k8s", "check", str(path)]) == 1
    assert "is not UTF-8 [manifest.text]" in capsys.readouterr().out
    assert main(["k8s", "check", str(tmp_path / "missing.yaml")]) == 3
    assert main(["k8s", "check"]) == 2
