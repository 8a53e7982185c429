"""`egress init` on a machine full of secrets: what it writes is of use, and no value is in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import assert_is_an_answer, egress, put

SENTINEL = "sentinel9f3aZq"
ENVIRONMENT = {
    "GITHUB_TOKEN": SENTINEL,
    "ANTHROPIC_API_KEY": f"sk-{SENTINEL}",
    "PIP_INDEX_URL": f"https://user:{SENTINEL}@index.example.com/simple/",
    "PIP_EXTRA_INDEX_URL": f"https://{SENTINEL}.word/{SENTINEL}@more.example.com/ http://{SENTINEL}@10.0.0.5/",
    "npm_config_registry": f"https://{SENTINEL}@npm.example.com/{SENTINEL}/",
    "UNRELATED_SECRET": SENTINEL,
}


TOOLS = {
    "python3": f'echo "  -i, --index-url <url>  (default https://u:{SENTINEL}@asked.example.com/simple)."',
    "npm": f"echo https://u:{SENTINEL}@n.example.com/{SENTINEL}/",
    "go": f"echo https://u:{SENTINEL}@modules.example.com/{SENTINEL},direct; echo sums.example.com",
    "apt-get": f"echo http://u:{SENTINEL}@archive.example.com/{SENTINEL}/",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A home that is also the working directory, with a secret in every file and tool that is looked at."""
    for name, line in TOOLS.items():
        put(tmp_path / "bin" / name, f"#!/bin/sh\n{line}\n").chmod(0o755)
    put(tmp_path / ".env", f'OPENAI_API_KEY={SENTINEL}\nDB_PASSWORD="{SENTINEL}\n{SENTINEL}_TOKEN=x"\n')
    put(tmp_path / ".git/config", f'[remote "o"]\n\turl = https://u:{SENTINEL}@github.com/acme/widgets.git\n')
    put(
        tmp_path / ".npmrc",
        f"//npm.example.com/:_authToken={SENTINEL}\nregistry=https://u:{SENTINEL}@n.example.com\n",
    )
    put(
        tmp_path / ".config/pip/pip.conf",
        f"[global]\nindex-url = https://{SENTINEL}:x@i.example.com/{SENTINEL}\n",
    )
    put(tmp_path / ".config/gh/hosts.yml", f"github.com:\n  oauth_token: {SENTINEL}\n")
    return tmp_path


@pytest.mark.parametrize("arguments", [(), ("--print",), ("--debug", "--force"), ("--output", "other.yaml")])
def test_no_value_reaches_file_or_screen(arguments: tuple[str, ...], folder: Path) -> None:
    before = set(folder.rglob("*"))
    outcome = egress("init", *arguments, cwd=folder, env=ENVIRONMENT | {"PATH": f"{folder}/bin"})
    assert_is_an_answer(outcome)
    assert outcome.status == 0, outcome
    written = [path.read_text("utf-8") for path in set(folder.rglob("*")) - before]
    assert SENTINEL.lower() not in "".join([outcome.said, *written]).lower()
    shown = outcome.out if "--print" in arguments else "".join(written)
    for found in ("env:GITHUB_TOKEN", "acme/widgets", "index.example.com", "npm.example.com", "- openai"):
        assert found in shown
    for found in ("asked.example.com", "modules.example.com", "sums.example.com", "archive.example.com"):
        assert found in shown


def test_no_value_reaches_the_screen_when_it_refuses(folder: Path) -> None:
    put(folder / "hosts.yaml", "mine\n")
    outcome = egress("init", cwd=folder, env=ENVIRONMENT | {"PATH": f"{folder}/bin"})
    assert outcome.status == 1
    assert SENTINEL not in outcome.said


def test_what_it_writes_is_checked_tested_and_explained(folder: Path) -> None:
    assert egress("init", cwd=folder, env=ENVIRONMENT | {"PATH": f"{folder}/bin"}).status == 0
    assert egress("check", "--strict", cwd=folder).status == 0
    tested = egress("test", cwd=folder)
    assert tested.status == 0
    assert "passed" in tested.out
    read = ("GET", "https://api.github.com/repos/acme/widgets/issues")
    assert egress("explain", *read, cwd=folder).status == 0


def test_in_an_empty_place_it_writes_rules_that_allow_nothing(tmp_path: Path) -> None:
    outcome = egress("init", cwd=tmp_path, env={"PATH": ""})
    assert outcome.status == 0, outcome
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hosts.schema.json", "hosts.yaml"]
    assert egress("check", "--strict", cwd=tmp_path).status == 0
    assert egress("explain", "GET", "https://example.com/", cwd=tmp_path).status == 1


def test_a_folder_that_takes_no_file_is_status_three(tmp_path: Path) -> None:
    outcome = egress("init", "--output", "/proc/hosts.yaml", cwd=tmp_path)
    assert_is_an_answer(outcome)
    assert outcome.status == 3


def test_in_a_subfolder_the_remotes_of_the_repository_still_narrow_the_preset(folder: Path) -> None:
    """Without them the preset stands for everything that the token can read."""
    below = folder / "services/worker"
    below.mkdir(parents=True)
    outcome = egress("init", "--print", cwd=below, env=ENVIRONMENT | {"PATH": f"{folder}/bin"})
    assert outcome.status == 0, outcome
    assert "acme/widgets" in outcome.out
    assert "Everything the token can read. To narrow it: -" not in outcome.out
