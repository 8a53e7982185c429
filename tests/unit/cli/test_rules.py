"""`egress rules show`: what it prints is a rule file that means the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from egress.cli.main import main
from tests.unit.cli.log.test_suggest import put
from tests.unit.review.drafting.sample import denied, exchange

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hosts.yaml").write_text("version: 1\nuse: [anthropic]\nhosts:\n  a.example.com: {}\n", "utf-8")


def test_what_is_printed_can_be_used_in_its_place(capsys: Captured) -> None:
    assert main(["rules", "show"]) == 0
    text = capsys.readouterr().out
    assert "use:" not in text
    assert "# hosts.yaml:2:7 (preset anthropic:" in text
    Path("shown.yaml").write_text(text, "utf-8")
    assert main(["check", "--strict", "shown.yaml"]) == 0
    assert main(["rules", "show", "shown.yaml"]) == 0


def test_as_json_a_program_gets_every_rule_with_its_place(capsys: Captured) -> None:
    assert main(["rules", "show", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["mode"] == "enforce"
    assert data["hosts"]["a.example.com"]["allow"] == [{"id": "host", "place": "hosts.yaml:4:3"}]
    assert data["secrets"]["anthropic"]["from"] == "env:ANTHROPIC_API_KEY"


def test_rules_that_do_not_load_are_not_shown(capsys: Captured) -> None:
    Path("hosts.yaml").write_text("version: 1\nhost: {}\n", "utf-8")
    assert main(["rules", "show"]) == 1
    assert capsys.readouterr().out == ""


# Drafting and replaying -----------------------------------------------------------------------


def seen(*lines: dict[str, object]) -> None:
    put(Path("audit"), *lines)


def test_a_draft_is_printed_and_denies_nothing_of_what_it_was_made_from(capsys: Captured) -> None:
    seen(exchange(), exchange("POST", path="/new"))
    assert main(["rules", "draft", "--dir", "audit"]) == 0
    text = capsys.readouterr().out
    assert "# A draft from 2 requests" in text
    Path("drafted.yaml").write_text(text, "utf-8")
    assert main(["check", "--strict", "drafted.yaml"]) == 0
    assert main(["rules", "replay", "drafted.yaml", "--dir", "audit"]) == 0
    assert "nothing newly denied, 2 unchanged" in capsys.readouterr().out


def test_a_draft_is_written_and_never_over_another_file_unasked(capsys: Captured) -> None:
    seen(exchange(), exchange("TRACE"))
    words = ["rules", "draft", "--dir", "audit", "-o", "drafted.yaml"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "wrote drafted.yaml: 1 host" in said
    assert "left out: 1 request" in said
    assert main(words) == 1
    assert main([*words, "--force"]) == 0


def test_a_draft_keeps_to_a_profile_and_does_without_rules(capsys: Captured) -> None:
    Path("hosts.yaml").unlink()
    seen(exchange(profile="coding"), exchange(host="other.example.com"))
    assert main(["rules", "draft", "--dir", "audit", "--profile", "coding"]) == 0
    text = capsys.readouterr().out
    assert "api.example.com" in text
    assert "other.example.com" not in text
    assert main(["rules", "draft", "--dir", "audit", "--rules", "nowhere.yaml"]) == 3


def test_a_replay_says_what_would_change_and_fails_on_what_would_be_denied(capsys: Captured) -> None:
    seen(
        exchange(request="c-7"),
        exchange("POST", path="/x\x1b[31m", request="c-8"),
        denied("host.unknown", host="a.example.com"),
        denied("limit.requests"),
    )
    assert main(["rules", "replay", "hosts.yaml", "--dir", "audit"]) == 1
    said = capsys.readouterr().out
    assert "newly denied: 2" in said
    assert "such as c-7" in said
    assert "newly allowed: 1" in said
    assert "1 denied or cut for reasons other than the rules" in said
    assert "\x1b" not in said


def test_a_replay_as_json_has_every_group(capsys: Captured) -> None:
    seen(*(exchange(host=f"h{number}.example.com") for number in range(30)))
    assert main(["rules", "replay", "hosts.yaml", "--dir", "audit"]) == 1
    assert "and 10 groups more" in capsys.readouterr().out
    assert main(["rules", "replay", "hosts.yaml", "--dir", "audit", "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["ok"] is False
    assert len(data["denied"]) == 30
    assert data["denied"][0]["code"] == "host.unknown"


@pytest.mark.parametrize("words", [["--dir", "audit"], ["--log", "audit"], ["--state-dir", "."]])
def test_the_log_is_named_as_it_is_everywhere_or_as_it_once_was(words: list[str], capsys: Captured) -> None:
    seen(exchange())
    assert main(["rules", "draft", *words, "--index", "none"]) == 0
    assert "# A draft from 1 request" in capsys.readouterr().out
    assert not Path("none").exists()
