"""`egress image`: what is in the package is handed out. That it builds images is for tests/container."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from egress.cli.main import main
from egress.runtime.docker.images import recipes

Captured = pytest.CaptureFixture[str]


def test_what_runs_the_images_is_written_into_a_folder(tmp_path: Path, capfd: Captured) -> None:
    target = tmp_path / "new" / "my-agents"
    assert main(["image", "files", str(target)]) == 0
    written = {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()}
    assert {"compose.yaml", "kubernetes.yaml", "resolv.conf", "rules/hosts.yaml"} <= written
    assert {"chart/Chart.yaml", "chart/.helmignore", "chart/templates/gateway.yaml"} <= written
    sources = recipes.deployment_files()
    for name in written:
        assert (target / name).read_bytes() == sources[name].read_bytes()
        # Other users than this one read it in their containers.
        assert (target / name).stat().st_mode & 0o777 == 0o644
    assert len(capfd.readouterr().out.splitlines()) == len(written)


def test_what_was_edited_is_left_alone(tmp_path: Path, capfd: Captured) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules/hosts.yaml").write_text("mine", "utf-8")
    assert main(["image", "files", str(tmp_path)]) == 1
    assert "rules/hosts.yaml exists; nothing was written" in capfd.readouterr().err
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["hosts.yaml"]
    assert (tmp_path / "rules/hosts.yaml").read_text("utf-8") == "mine"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, capfd: Captured) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    assert main(["image", "files", str(tmp_path / "file" / "below")]) == 3
    assert "error: " in capfd.readouterr().err


@pytest.mark.parametrize(
    ("which", "inside"),
    [
        ("sandbox", {"container/Dockerfile", "container/sandbox/node.lock"}),
        ("agents", {"container/agents/Dockerfile", "container/agents/package-lock.json"}),
        ("proxy", {"container/proxy.Dockerfile", "requirements.lock", "egress/cli/main.py"}),
    ],
)
def test_another_builder_gets_all_that_it_needs(
    which: str, inside: set[str], tmp_path: Path, capfd: Captured
) -> None:
    file = tmp_path / "context.tar"
    assert main(["image", "context", which, str(file)]) == 0
    with tarfile.open(file) as tar:
        names = set(tar.getnames())
    assert inside <= names
    said = capfd.readouterr().out
    # The recipe that the command names is in it.
    assert said.partition("--file ")[2].split()[0] in names


def test_an_archive_that_is_there_is_left_alone(tmp_path: Path, capfd: Captured) -> None:
    file = tmp_path / "context.tar"
    file.write_bytes(b"mine")
    assert main(["image", "context", "sandbox", str(file)]) == 1
    assert file.read_bytes() == b"mine"
    assert main(["image", "context", "sandbox", str(tmp_path / "nowhere" / "context.tar")]) == 3
    assert "cannot be written" in capfd.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["build", "door"],
        ["build"],
        ["context", "all", "x.tar"],
        ["build", "--tag", "mine", "all"],
        ["build", "--base", "mine", "all"],
    ],
)
def test_what_cannot_be_is_a_wrong_command_line(words: list[str], capfd: Captured) -> None:
    assert main(["image", *words]) == 2
    assert capfd.readouterr().err.startswith("error: ")
