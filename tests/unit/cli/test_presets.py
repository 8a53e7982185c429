"""`egress presets`: all of them, and each with what it can be told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from egress.cli.main import main
from egress.policy.bundled_presets import preset_texts

Captured = pytest.CaptureFixture[str]


def test_lists_every_preset_with_its_title(capsys: Captured) -> None:
    assert main(["presets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[: len(preset_texts())]] == list(preset_texts())
    assert "GitHub: read and clone repositories" in lines[list(preset_texts()).index("github")]


@pytest.mark.parametrize("name", preset_texts())
def test_what_is_shown_for_a_rule_file_can_be_used_in_one(
    name: str, tmp_path: Path, capsys: Captured
) -> None:
    assert main(["presets", name]) == 0
    example = capsys.readouterr().out.partition("in a rule file:\n")[2]
    file = tmp_path / "hosts.yaml"
    file.write_text("version: 1\n" + "\n".join(line[2:] for line in example.splitlines()), "utf-8")
    assert main(["check", str(file)]) == 0


def test_a_parameter_is_shown_with_its_kind_and_default(capsys: Captured) -> None:
    assert main(["presets", "gitlab"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["host", "host", "gitlab.com", "The", "GitLab", "instance."] in rows
    assert main(["presets", "python-index"]) == 0
    assert "index  host          required" in capsys.readouterr().out


def test_as_json_a_program_gets_all_of_it(capsys: Captured) -> None:
    assert main(["presets", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["presets"]
    assert [preset["name"] for preset in data] == list(preset_texts())
    gitlab = next(preset for preset in data if preset["name"] == "gitlab")
    assert gitlab["parameters"]["host"] == {
        "type": "host",
        "default": "gitlab.com",
        "help": "The GitLab instance.",
        "wildcard": False,
        "risks": {},
    }
    assert main(["presets", "openai", "--json"]) == 0
    assert [p["name"] for p in json.loads(capsys.readouterr().out)["presets"]] == ["openai"]


def test_a_name_that_is_none_is_status_two_with_the_nearest(capsys: Captured) -> None:
    assert main(["presets", "gitub"]) == 2
    assert capsys.readouterr().err == "error: unknown preset `gitub`\nhint: did you mean `github`?\n"


def test_the_risk_of_a_choice_is_shown(capsys: Captured) -> None:
    assert main(["presets", "github"]) == 0
    assert "risk: graphql: read-write: GraphQL is not read." in capsys.readouterr().out
    assert main(["presets", "anthropic"]) == 0
    assert "risk:" not in capsys.readouterr().out
