"""Manifests come from files or standard input, within limits."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from egress.cli.kubernetes import manifest_input
from egress.cli.kubernetes.manifest_input import MAX_FILES, read_files
from egress.cli.main import main
from egress.errors import ContentError, UnreadableError, UsageError
from tests.unit.kubernetes.manifest_samples import SHIPPED


def test_standard_input_is_limited_and_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_input, "MAX_FILE_BYTES", 8)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a: 12345")))
    assert [each.documents[0].value for each in read_files([Path("-")])] == [{"a": 12345}]
    for data, message in ((b"a: 123456", "larger than"), (b"a: \xff", "not UTF-8")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        with pytest.raises(ContentError, match=message):
            read_files([Path("-")])


def test_standard_input_is_read_once_and_files_are_counted() -> None:
    with pytest.raises(UsageError, match="named twice"):
        read_files([Path("-"), Path("-")])
    with pytest.raises(UsageError, match=f"more than {MAX_FILES} files"):
        read_files([SHIPPED] * (MAX_FILES + 1))


def test_a_file_that_is_missing_is_no_rule_file(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="file not found") as raised:
        read_files([tmp_path / "nowhere.yaml"])
    assert raised.value.hint == "check the name"


def test_labels_are_keys_with_values(capsys: pytest.CaptureFixture[str]) -> None:
    swapped = ["--sandbox-label", "app=egress-proxy", "--proxy-label", "egress=workload"]
    assert main(["k8s", "check", str(SHIPPED), *swapped]) == 1
    assert "StatefulSet agents/egress-proxy" in capsys.readouterr().out
    for text in ("egress", "=x", "a=", "a b=c"):
        assert main(["k8s", "check", str(SHIPPED), "--proxy-label", text]) == 2
