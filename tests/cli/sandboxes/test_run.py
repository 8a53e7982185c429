"""`egress run`, on sandboxes in memory: what is made, what is left, and what is said."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from egress.cli.main import main
from egress.fleet import Fleet, SandboxLifetime, opening

Captured = pytest.CaptureFixture[str]


@pytest.mark.usefixtures("fleet")
def test_the_status_and_the_output_are_those_of_the_command(folder: Path, capfd: Captured) -> None:
    assert main(["run", "-q", "--runtime-dir", str(folder), "--", "echo", "hello"]) == 0
    assert capfd.readouterr() == ("hello\n", "")
    assert main(["run", "-q", "--runtime-dir", str(folder), "false"]) == 1


@pytest.mark.usefixtures("fleet")
def test_at_a_fleet_that_is_served_a_run_loads_a_client_and_no_more(folder: Path) -> None:
    """Each run would wait for imports of what the other process has done already."""
    code = (
        "import sys\nfrom egress.cli.main import main\n"
        f"status = main(['run', '--runtime-dir', {str(folder)!r}, '--', 'true'])\n"
        "print(status, *{name.partition('.')[0] for name in sys.modules})"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    status, *found = run.stdout.split()
    assert status == "0"
    unused = {"OpenSSL", "cryptography", "docker", "mitmproxy", "pydantic", "rich", "structlog"}
    assert not unused & set(found)


def test_nothing_is_left_of_the_sandbox(fleet: Fleet, folder: Path) -> None:
    main(["run", "-q", "--runtime-dir", str(folder), "true"])
    main(["run", "-q", "--runtime-dir", str(folder), "nonesuch"])
    assert fleet.list() == ()


def test_one_that_is_to_be_kept_stays(fleet: Fleet, folder: Path) -> None:
    main(["run", "-q", "--runtime-dir", str(folder), "--keep", "--name", "mine", "true"])
    assert [info.name for info in fleet.list()] == ["mine"]


def test_one_that_is_kept_sleeps_when_it_is_idle(fleet: Fleet, folder: Path) -> None:
    kept = ["--keep", "--name", "mine", "--idle-timeout", "1h", "--on-idle", "sleep"]
    assert main(["run", "-q", "--runtime-dir", str(folder), *kept, "true"]) == 0
    assert fleet.status("mine").terms == SandboxLifetime(idle_timeout=3600, on_idle="sleep")


@pytest.mark.usefixtures("fleet")
def test_a_tool_gets_a_text_that_is_no_key_unless_something_else_is_said(
    folder: Path, capfd: Captured
) -> None:
    words = ["run", "-q", "--runtime-dir", str(folder), "--agent", "codex", "--env", "CODEX_API_KEY=own"]
    assert main([*words, "env"]) == 0
    out = capfd.readouterr().out.splitlines()
    assert "OPENAI_API_KEY=egress-no-key" in out
    assert "CODEX_API_KEY=own" in out


@pytest.mark.usefixtures("fleet")
def test_what_is_said_of_it_is_said_beside_the_output(folder: Path, capfd: Captured) -> None:
    assert main(["run", "--runtime-dir", str(folder), "echo", "hello"]) == 0
    said = "egress: its log cannot be read by this user\n"
    assert capfd.readouterr() == ("hello\n", said)


def test_a_wrong_option_makes_no_sandbox(fleet: Fleet, folder: Path, capfd: Captured) -> None:
    for wrong in (["--memory", "much"], ["--mount", ":x"], ["--agent", "nobody"], ["--timeout", "soon"]):
        assert main(["run", "-q", "--runtime-dir", str(folder), *wrong, "true"]) == 2
        assert capfd.readouterr().err.startswith("error: ")
    assert fleet.list() == ()


@pytest.mark.parametrize(
    ("wrong", "status", "said"),
    [
        (["--env", "SURELY_NOT_SET"], 2, "--env"),
        (["--memory", "much"], 2, "--memory"),
        (["--mount", "nonesuch:/data"], 3, "--mount"),
        (["--image", "/nonesuch"], 3, "--image"),
        (["--seccomp", "profile.json"], 2, "needs the docker runtime"),
        (["--keep"], 2, "--keep"),
        (["--idle-timeout", "10m"], 2, "apply only to a kept sandbox"),
        (["--on-idle", "sleep"], 2, "apply only to a kept sandbox"),
        (["--keep", "--on-idle", "sleep"], 2, "--on-idle sleep has no --idle-timeout"),
        (["--keep", "--on-idle", "sleep", "--idle-timeout", "soon"], 2, "--idle-timeout"),
        (["--keep", "--on-idle", "sleep", "--idle-timeout", "1h", "--disk", "9m"], 2, "lose its files"),
    ],
    ids=str,
)
def test_what_is_wrong_with_an_option_is_told_before_a_proxy_is_started(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: Captured,
    wrong: list[str],
    status: int,
    said: str,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        pytest.fail("a proxy was started")

    monkeypatch.setattr(opening, "EmbeddedProxy", refuse)
    words = ["run", "--runtime-dir", str(folder), "--runtime", "namespace", *wrong, "true"]
    assert main(words) == status
    assert said in capfd.readouterr().err


@pytest.mark.usefixtures("fleet")
def test_a_command_has_to_be_named(folder: Path, capfd: Captured) -> None:
    assert main(["run", "--runtime-dir", str(folder)]) == 2
    assert "missing" in capfd.readouterr().err
