"""`egress k8s inject`: the manifest on standard output, and everything else beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.cli.main import main
from tests.unit.kubernetes.manifest_samples import SHIPPED, part, shipped, text_of

Captured = pytest.CaptureFixture[str]
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: agents}\nspec: {containers: [{name: c}]}\n"


@pytest.fixture
def pod(tmp_path: Path) -> str:
    path = tmp_path / "pod.yaml"
    path.write_text(POD, encoding="utf-8")
    return str(path)


def test_a_pod_is_completed_and_passes_the_check_beside_the_shipped_fence(
    pod: str, tmp_path: Path, capsys: Captured
) -> None:
    options = ["--blocked", "10.96.0.10:53", "--image", "registry.example.com/egress", "--trust", "roots"]
    assert main(["k8s", "inject", pod, "--proxy", "10.96.0.92", *options]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for line in (
        "image: registry.example.com/egress",
        '- "--blocked=10.96.0.10:53"',
        "name: roots",
        "value: http://10.96.0.92:3128",
        "value: /etc/egress-trust/bundle.pem",
        "value: /etc/egress-trust/ca.pem",
    ):
        assert f"{line}\n" in out
    assert "{" not in out
    completed = tmp_path / "completed.yaml"
    completed.write_text(out, encoding="utf-8")
    assert main(["k8s", "check", str(SHIPPED), str(completed)]) == 0


def test_the_address_is_that_of_the_service_in_the_file(pod: str, capsys: Captured) -> None:
    assert main(["k8s", "inject", str(SHIPPED)]) == 0
    assert "name: HTTP_PROXY\n      value: http://10.96.0.92:3128\n" in capsys.readouterr().out
    assert main(["k8s", "inject", pod]) == 2
    assert "the address of the proxy is not in the file" in capsys.readouterr().err


def test_an_address_of_version_6_stands_in_brackets(pod: str, capsys: Captured) -> None:
    assert main(["k8s", "inject", pod, "--proxy", "fd00::92"]) == 0
    out = capsys.readouterr().out
    assert 'value: "http://[fd00::92]:3128"\n' in out
    assert '- "--gateway=[fd00::92]:3128"\n' in out


def test_a_weakness_that_remains_stops_it_unless_the_object_is_skipped(
    tmp_path: Path, capsys: Captured
) -> None:
    objects = shipped()
    part(objects, "Pod")["spec"]["hostPID"] = True
    path = tmp_path / "m.yaml"
    path.write_text(text_of(objects), encoding="utf-8")
    assert main(["k8s", "inject", str(path)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "[pod.host-pid: document 17, Pod agents/workload, spec.hostPID]" in err
    assert "nothing was printed: 1 error in" in err
    assert main(["k8s", "inject", str(path), "--skip", "workload"]) == 0
    assert capsys.readouterr().out == text_of(objects)


@pytest.mark.parametrize(
    "options", [["--proxy", "egress-proxy"], ["--proxy", "10.96.0.92", "--blocked", "dns:53"]]
)
def test_names_are_no_addresses(pod: str, options: list[str]) -> None:
    assert main(["k8s", "inject", pod, *options]) == 2


def test_a_text_with_a_mistake_is_named(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "m.yaml"
    path.write_text("kind: yes\n", encoding="utf-8")
    assert main(["k8s", "inject", str(path), "--proxy", "10.96.0.92"]) == 1
    assert "[manifest.text]" in capsys.readouterr().err
