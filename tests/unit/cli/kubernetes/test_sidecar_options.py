"""`egress k8s inject --sidecar`: its options, and which of them belong to the other form."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.cli.main import main

Captured = pytest.CaptureFixture[str]
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: agent, namespace: agents}
spec: {containers: [{name: agent, image: "agent:1"}]}
"""


@pytest.fixture
def pod(tmp_path: Path) -> str:
    path = tmp_path / "pod.yaml"
    path.write_text(POD)
    return str(path)


def test_a_pod_gets_the_rules_the_secrets_and_the_networks_that_are_named(
    pod: str, tmp_path: Path, capsys: Captured
) -> None:
    words = ["--rules", "team-rules", "--secret", "token", "--own-address", "10.96.0.0/12"]
    assert main(["k8s", "inject", pod, "--sidecar", *words, "--blocked", "10.0.0.1:22"]) == 0
    written = capsys.readouterr().out
    for text in ("name: team-rules", "secretName: token", "--own-address=10.96.0.0/12", "10.0.0.1:22"):
        assert text in written
    completed = tmp_path / "completed.yaml"
    completed.write_text(written)
    assert main(["k8s", "check", str(completed)]) == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--sidecar", "--proxy", "10.96.0.92"], "--proxy means nothing with --sidecar"),
        (["--sidecar", "--trust", "t"], "--trust means nothing with --sidecar"),
        (["--proxy", "10.96.0.92", "--rules", "r"], "--rules means nothing with a gateway"),
        (["--proxy", "10.96.0.92", "--secret", "s"], "--secret means nothing with a gateway"),
        (["--proxy", "10.96.0.92", "--own-address", "10.0.0.0/8"], "--own-address means nothing"),
        (["--sidecar", "--blocked", "10.0.0.1:443"], "behind the lock the proxy answers at 10.0.0.1:443"),
        (["--sidecar", "--secret", "Token"], "`Token` is not the name of an object"),
        (["--sidecar", "--rules", "a" * 49], "is not the name of an object"),
        (["--sidecar", "--own-address", "10.0.0.1/8"], "is not a network"),
    ],
)
def test_an_option_that_cannot_be_is_refused(words: list[str], told: str, pod: str, capsys: Captured) -> None:
    assert main(["k8s", "inject", pod, *words]) == 2
    assert told in capsys.readouterr().err
