"""Pipes, terminals and full disks: the answer is right, and the colour is for people only."""

from __future__ import annotations

import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from fcntl import ioctl
from pathlib import Path

import pytest

from tests.cli import forked
from tests.cli.command import command, egress, environment, put

RULES = "version: 1\nhosts:\n  a.example.com:\n    methods: [GET]\n    tests:\n"
PASSING = RULES + "      - GET / -> allow\n" * 2000
FAILING = RULES + "      - POST / -> allow\n" * 2000
EXPLAIN = (
    "explain",
    "POST",
    "https://a.example.com/some/path/that/is/long/enough/to/be/wrapped/in/the/table",
)


def in_a_shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script of bash in which `egress` is the command."""
    words = " ".join(f"'{word}'" for word in command([]))
    return subprocess.run(
        ["bash", "--norc", "-c", f'egress() {{ {words} "$@"; }}\n{script}'],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def on_a_terminal(
    folder: Path, *arguments: str, width: int = 80, env: Mapping[str, str] | None = None
) -> str:
    """What a terminal of that width receives."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    around = environment(folder, {"TERM": "xterm-256color", **(env or {})})
    words = [os.fsencode(argument) for argument in arguments]
    process = forked.fork(words, cwd=folder, env=around, streams=(theirs, theirs, theirs))
    os.close(theirs)
    received = bytearray()
    while chunk := _read(ours):
        received += chunk
    os.close(ours)
    process.wait(timeout=60)
    return received.decode("utf-8").replace("\r\n", "\n")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:
        # Linux ends a terminal whose other side is closed with an error.
        return b""


# Pipes ---------------------------------------------------------------------------------------------


@pytest.mark.system("bash")
@pytest.mark.parametrize(("rules", "status"), [(PASSING, "0"), (FAILING, "1")])
def test_a_reader_who_goes_away_changes_neither_status_nor_says_anything(
    rules: str, status: str, tmp_path: Path
) -> None:
    put(tmp_path / "hosts.yaml", rules)
    done = in_a_shell('egress test | head -n 1 >first; echo "${PIPESTATUS[0]}"', tmp_path)
    assert (done.stdout, done.stderr) == (f"{status}\n", "")
    assert (tmp_path / "first").read_text("utf-8").startswith(("ok", "FAIL"))


@pytest.mark.system("bash")
@pytest.mark.parametrize(
    "words", ["--help", "schema", "rules show", "test", "completion bash", "test --json"]
)
def test_a_reader_who_never_reads_is_no_error(words: str, tmp_path: Path) -> None:
    put(tmp_path / "hosts.yaml", PASSING)
    done = in_a_shell(f'egress {words} | true; echo "${{PIPESTATUS[0]}}"', tmp_path)
    assert (done.stdout, done.stderr) == ("0\n", "")


@pytest.mark.system("bash")
@pytest.mark.parametrize(("redirect", "status"), [(">&-", 0), ("2>&-", 0), (">&- 2>&-", 0), ("<&-", 0)])
def test_a_closed_stream_is_no_error(redirect: str, status: int, tmp_path: Path) -> None:
    put(tmp_path / "hosts.yaml", "version: 1\n")
    done = in_a_shell(f"egress check {redirect}", tmp_path)
    assert (done.returncode, done.stderr) == (status, "")
    assert in_a_shell(f"egress check missing.yaml {redirect}", tmp_path).returncode == 3


@pytest.mark.system("bash")
@pytest.mark.parametrize("words", ["--help", "check", "schema", "test --json"])
def test_a_full_disk_is_status_three(words: str, tmp_path: Path) -> None:
    put(tmp_path / "hosts.yaml", PASSING)
    done = in_a_shell(f"egress {words} >/dev/full", tmp_path)
    assert done.returncode == 3
    assert "no space left on device" in done.stderr
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_encoding_of_the_output_will_do(encoding: str, tmp_path: Path) -> None:
    put(tmp_path / "hosts.yaml", "version: 1\nhosts:\n  bücher.example: {}\n日本: 1\n")
    env = {"PYTHONIOENCODING": encoding, "LANG": "C"}
    outcome = egress("check", cwd=tmp_path, env=env)
    assert outcome.status == 1
    assert "hosts.yaml:4:1: error: unknown key" in outcome.out
    assert outcome.err == ""


# Terminals ------------------------------------------------------------------------------------------

STYLE = re.compile(r"\x1b\[[0-9;]*m")


def test_a_terminal_gets_colour_and_nothing_but_colour(tmp_path: Path) -> None:
    put(tmp_path / "hosts.yaml", PASSING[:200].rpartition("\n")[0] + "\n")
    for words in (("check",), ("test",), EXPLAIN, ("presets", "gitlab"), ("check", "missing.yaml")):
        received = on_a_terminal(tmp_path, *words)
        assert "\x1b[" in received
        assert all(line.isprintable() for line in STYLE.sub("", received).split("\n"))


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_that_wants_none_gets_none(env: dict[str, str], tmp_path: Path) -> None:
    put(tmp_path / "hosts.yaml", "version: 1\n")
    for words in (("check",), ("presets",), ("check", "missing.yaml"), ("--help",)):
        assert "\x1b" not in on_a_terminal(tmp_path, *words, env=env)


def test_a_pipe_gets_no_colour(tmp_path: Path) -> None:
    put(tmp_path / "hosts.yaml", "version: 1\n")
    for words in (("check",), ("presets",), ("check", "missing.yaml")):
        assert (
            "\x1b"
            not in egress(*words, cwd=tmp_path, env={"TERM": "xterm-256color", "FORCE_COLOR": "1"}).said
        )


@pytest.mark.parametrize("width", [80, 120])
def test_lines_fit_the_terminal(width: int, tmp_path: Path) -> None:
    use = "use:\n  - github\n  - anthropic\n"
    put(tmp_path / "config/hosts.yaml", f"version: 1\n{use}hosts:\n  '*.github.io': {{}}\n")
    requests = (
        "https://api.github.com/repos/a/b/keys",
        "https://api.anthropic.com/v1/files",
        "https://other.example/",
    )
    asked = [("explain", "POST", url) for url in requests]
    for words in (
        ("--help",),
        ("explain", "--help"),
        ("check",),
        ("presets",),
        ("presets", "gitlab"),
        *asked,
    ):
        received = STYLE.sub("", on_a_terminal(tmp_path, *words, width=width))
        assert max(len(line) for line in received.split("\n")) <= width, received


def test_what_a_terminal_shows_is_what_a_pipe_gets(tmp_path: Path) -> None:
    """Word for word, but for the wrapping and the colour."""
    put(tmp_path / "hosts.yaml", "version: 1\nuse: [anthropic]\nhosts: {a.example.com: {methods: [GET]}}\n")
    for words in (
        ("check",),
        EXPLAIN,
        ("explain", "POST", "https://api.anthropic.com/v1/messages"),
        ("presets",),
    ):
        piped = egress(*words, cwd=tmp_path).said.split()
        shown = STYLE.sub("", on_a_terminal(tmp_path, *words, width=1000)).split()
        assert shown == piped


def test_an_error_of_ours_is_no_traceback_even_with_debug(tmp_path: Path) -> None:
    outcome = egress("--debug", "check", "missing.yaml", cwd=tmp_path)
    assert outcome.status == 3
    assert "Traceback" not in outcome.err
    assert sys.executable not in outcome.err
