"""The frame of the command line: every error becomes one message and one status."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from egress import __version__
from egress.cli import render
from egress.cli.main import COMMANDS, cli, main
from egress.errors import ContentError, UnreadableError, UsageError

Captured = pytest.CaptureFixture[str]
ALL = [[name] for name in COMMANDS] + [["rules", "show"]]


def fail_with(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(cli, "main", fail)


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_command_says_in_one_sentence_what_it_does_and_shows_examples(
    words: list[str], capsys: Captured
) -> None:
    assert main([*words, "--help"]) == 0
    text = capsys.readouterr().out
    sentence = text.split("\n\n")[1].strip()
    assert sentence.endswith(".")
    assert sentence.count(". ") == 0
    assert "\n" not in sentence
    if words not in (["rules"], ["ca"], ["image"]):
        assert "Examples:" in text
    assert all(len(line) <= 100 for line in text.splitlines())


@pytest.mark.parametrize("words", [[], *ALL, ["ca", "show"], ["log", "verify"]], ids=" ".join)
def test_h_is_help_too(words: list[str], capsys: Captured) -> None:
    assert main([*words, "-h"]) == 0
    assert capsys.readouterr().out.startswith("Usage: egress")


def test_the_list_of_commands_is_what_there_is(capsys: Captured) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    with click.Context(cli) as context:
        for name, (_, sentence) in COMMANDS.items():
            assert f"{name} " in text
            assert sentence in text
            command = cli.get_command(context, name)
            assert command is not None
            assert command.name == name
        assert cli.get_command(context, "nothing") is None
        assert cli.list_commands(context) == list(COMMANDS)


@pytest.mark.parametrize("group", [[], ["ca"], ["log"], ["rules"]], ids=" ".join)
def test_no_line_of_a_list_of_commands_is_cut(group: list[str], capsys: Captured) -> None:
    assert main([*group, "--help"]) == 0
    assert "..." not in capsys.readouterr().out.partition("Commands:")[2]


def test_the_exit_status_is_documented(capsys: Captured) -> None:
    main(["--help"])
    text = capsys.readouterr().out
    assert [line.split()[0] for line in text.partition("Exit status:")[2].splitlines()[1:5]] == list("0123")


def test_says_its_version(capsys: Captured) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"egress {__version__}\n"


def test_without_a_command_the_help_is_shown_and_the_status_is_two(capsys: Captured) -> None:
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("Usage: egress [OPTIONS] COMMAND")
    assert main(["rules"]) == 2
    assert capsys.readouterr().err.startswith("Usage: egress rules [OPTIONS] COMMAND")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["chekc"], "error: unknown command `chekc`\nhint: did you mean `check`?\n"),
        (["x" * 5000], f"error: unknown command `{'x' * 60}`\nhint: commands: init, check, "),
        (
            ["check", "--jsno"],
            "error: no such option '--jsno'. Did you mean '--json'?\nhint: `egress check --help`",
        ),
        (["explain", "GET"], "error: missing argument 'URL'\nhint: `egress explain --help` shows the usage"),
        (["completion", "csh"], "error: invalid value for"),
        (["rules", "shwo"], "error: no such command 'shwo'"),
        (["--nonsense"], "error: no such option '--nonsense'\nhint: `egress --help` shows the usage\n"),
    ],
)
def test_a_wrong_command_line_is_status_two_with_a_way_on(
    words: list[str], error: str, capsys: Captured
) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err.startswith(error)


@pytest.mark.parametrize(
    ("error", "status"),
    [(ContentError("no", "yes"), 1), (UsageError("no", "yes"), 2), (UnreadableError("no", "yes"), 3)],
)
def test_an_error_of_ours_is_its_message_its_hint_and_its_status(
    error: Exception, status: int, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_with(error, monkeypatch)
    assert main(["check"]) == status
    assert capsys.readouterr().err == "error: no\nhint: yes\n"


def test_an_interrupt_is_status_130(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(click.Abort(), monkeypatch)
    assert main(["check"]) == 130


def test_an_error_of_the_system_is_status_three(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "give_up", lambda: None)
    fail_with(OSError(5, "Input/output error"), monkeypatch)
    assert main(["check"]) == 3
    assert capsys.readouterr().err == "error: the command failed: input/output error\n"


def test_what_nobody_expected_is_one_line_without_the_details(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text of a foreign exception may quote anything, a secret included."""
    fail_with(KeyError("sentinel"), monkeypatch)
    assert main(["check"]) == 1
    assert capsys.readouterr().err == (
        "error: unexpected error (KeyError)\nhint: run it again with --debug and report the bug\n"
    )


@pytest.mark.parametrize("words", [["--debug", "check"], ["check", "--debug"], ["rules", "--debug", "show"]])
def test_debug_shows_the_traceback_wherever_it_stands(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_with(KeyError("sentinel"), monkeypatch)
    with pytest.raises(KeyError):
        main(words)


def test_debug_changes_nothing_else(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hosts.yaml").write_text("version: 1\n", "utf-8")
    assert main(["check", "--debug"]) == 0
    assert main(["--debug", "check", "missing.yaml"]) == 3
    assert "error: file not found: missing.yaml" in capsys.readouterr().err


def test_behind_two_dashes_debug_is_a_file(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["check", "--", "--debug"]) == 3
    assert "file not found: --debug" in capsys.readouterr().err
