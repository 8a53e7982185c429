"""Whatever is typed and whatever stands at a path: one clear answer, a known status, nothing raw.

Terminals act on what they are shown; file names, rule files and URLs come from people who know that.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.cli.main import main
from tests.cli.command import CONFIG, Argument, Outcome, assert_is_an_answer, egress, environment, put

ESCAPES = "\x1b[2J\x1b]0;title\x07\u202e\x9b31m\u2028"
RULES = """\
version: 1
hosts:
  api.github.com: {allow: [{id: read, methods: [GET], paths: [/user]}]}
profiles:
  default: {hosts: [api.github.com]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put(tmp_path / "config/hosts.yaml", RULES)
    return tmp_path


# What is typed ------------------------------------------------------------------------------------

URL = "https://api.github.com/user"
TYPED: dict[str, tuple[int, tuple[Argument, ...]]] = {
    "nothing": (2, ()),
    "an unknown command": (2, ("nonsense",)),
    "a command with escapes": (2, (ESCAPES,)),
    "a command that is no text": (2, (b"\xff\xfe",)),
    "a huge command": (2, ("x" * 100_000,)),
    "a command in capitals": (2, ("CHECK",)),
    "an empty command": (2, ("",)),
    "two dashes": (2, ("--",)),
    "one dash": (2, ("-",)),
    "an option of another command": (2, ("check", "--profile", "x")),
    "an option before its command": (2, ("--json", "check")),
    "an option without its value": (2, ("explain", "GET", URL, "--profile")),
    "an option with escapes": (2, ("check", f"--{ESCAPES}")),
    "a flag with a value": (2, ("check", "--json=yes")),
    "one argument too few": (2, ("explain", "GET")),
    "one argument too many": (2, ("status", "more")),
    "a huge option": (2, ("check", f"--{'y' * 100_000}")),
    "a file with escapes": (3, ("check", ESCAPES.replace("\x00", ""))),
    "a file that is no text": (3, ("check", b"\xff\xfe.yaml")),
    "a file with an endless name": (3, ("check", "n" * 5000)),
    "an empty file name": (3, ("check", "")),
    "a file below a file": (3, ("check", "config/hosts.yaml/x")),
    "a file behind a dash": (3, ("check", "--", "-x")),
    "a url that is none": (2, ("explain", "GET", "::::")),
    "a url with escapes": (2, ("explain", "GET", f"https://{ESCAPES}/")),
    "a path with escapes": (
        1,
        ("explain", "GET", f"https://api.github.com/{ESCAPES.replace(chr(0x2028), '')}x"),
    ),
    "a path that is no text": (1, ("explain", "GET", b"https://api.github.com/\xff\xfe")),
    "a huge path": (1, ("explain", "GET", f"https://api.github.com/{'a' * 100_000}")),
    "a huge host": (2, ("explain", "GET", f"https://{'a.' * 50_000}com/")),
    "a method with escapes": (1, ("explain", ESCAPES, URL)),
    "a method that is no text": (1, ("explain", b"\xff", URL)),
    "an empty method": (1, ("explain", "", URL)),
    "a header that is no text": (0, ("explain", "GET", URL, "-H", b"x: \xff")),
    "a header with escapes": (2, ("explain", "GET", URL, "-H", f"x: {ESCAPES}")),
    "a header without a name": (2, ("explain", "GET", URL, "-H", ": x")),
    "a profile with escapes": (1, ("explain", "GET", URL, "-p", ESCAPES)),
    "a moment that is none": (2, ("explain", "GET", URL, "--at", ESCAPES)),
    "a moment too far": (2, ("explain", "GET", URL, "--at", "9999-99-99")),
    "a preset with escapes": (2, ("presets", ESCAPES)),
    "a shell with escapes": (2, ("completion", ESCAPES)),
    "a directory to write to": (3, ("init", "--output", "config")),
    "a device to write to": (3, ("init", "--force", "--output", "/dev/null")),
    "a name with escapes to write to": (3, ("init", "--output", f"no/{ESCAPES}")),
}


@pytest.mark.parametrize("what", TYPED)
def test_what_is_typed_gets_an_answer(what: str, folder: Path) -> None:
    status, arguments = TYPED[what]
    outcome = egress(*arguments, cwd=folder)
    assert_is_an_answer(outcome)
    assert outcome.status == status, outcome
    assert len(outcome.err) < 4000


WORDS = st.one_of(
    st.sampled_from(
        [
            "check",
            "test",
            "explain",
            "rules",
            "show",
            "schema",
            "presets",
            "completion",
            "--json",
            "--strict",
            "--help",
            "-h",
            "--",
            "-",
            "--version",
            "GET",
            URL,
            "https://docs.example.com/",
            "--profile",
            "default",
            "-H",
            "a: b",
            "--at",
            "2027-01-01",
            "--websocket",
            "-r",
            "config/hosts.yaml",
            "config",
            "missing.yaml",
            "bash",
            "github",
        ]
    ),
    # What a shell can pass on: any bytes but NUL.
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12),
    st.text(st.characters(categories=["Cc", "Cf"], exclude_characters="\0"), min_size=1, max_size=4),
    st.binary(max_size=6).map(lambda data: os.fsdecode(data.replace(b"\0", b""))),
)


@given(st.lists(WORDS, max_size=6))
def test_any_words_get_an_answer(words: list[str]) -> None:
    """In this process, for speed; `init` is left out, because it writes."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(CONFIG.parents[1]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        status = main([word for word in words if word != "init"])
    if "completion" not in words:
        # A completion script has tabs in it.
        assert_is_an_answer(Outcome(status, out.getvalue(), err.getvalue()))


# What stands at a path -----------------------------------------------------------------------------


def make_nothing(path: Path) -> None:
    pass


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    os.mknod(path, 0o600 | stat.S_IFSOCK)


def make_link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def make_huge(path: Path) -> None:
    path.write_bytes(b"# a comment\n" * (17 * 1024 * 1024 // 12))


def make_sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def make_binary(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 100)


def make_utf16(path: Path) -> None:
    path.write_bytes("version: 1\n".encode("utf-16"))


def make_latin1(path: Path) -> None:
    path.write_bytes("version: 1\n# é\n".encode("latin-1"))


def make_empty(path: Path) -> None:
    path.touch()


def make_escapes(path: Path) -> None:
    path.write_text(f"version: 1\nhosts: {{{ESCAPES}: {{}}}}\n", "utf-8")


def make_quoted_escapes(path: Path) -> None:
    path.write_text(
        'version: 1\n"\\e[2J\\u202e\\N": 1\nhosts:\n  "\\e]0;x\\a.example": {}\n  a.example:\n'
        '    methods: ["\\e[1m"]\n    allow: "\\u2028"\n    tests: ["GET /\\e -> \\e"]\n'
        'mode: "\\e"\nuse: ["\\e[2J"]\n',
        "utf-8",
    )


def make_deep(path: Path) -> None:
    path.write_text("[" * 50_000, "utf-8")


def make_long_line(path: Path) -> None:
    path.write_text("version: 1\nhosts: {" + "a" * 1_000_000 + ": {}}\n", "utf-8")


def make_bomb(path: Path) -> None:
    lines = [
        "a: &a [x, x]",
        *(f"{b}: &{b} [*{a}, *{a}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
    ]
    path.write_text("\n".join(lines), "utf-8")


STANDING = {
    make_nothing: 3,
    Path.mkdir: 3,
    make_pipe: 3,
    make_socket: 3,
    make_link_to_a_device: 3,
    make_link_to_itself: 3,
    make_huge: 1,
    make_sparse: 1,
    make_binary: 1,
    make_utf16: 1,
    make_latin1: 1,
    make_empty: 1,
    make_escapes: 1,
    make_quoted_escapes: 1,
    make_deep: 1,
    make_long_line: 1,
    make_bomb: 1,
}


@pytest.mark.parametrize("make", STANDING, ids=lambda make: make.__name__)
def test_what_stands_at_a_path_gets_an_answer(make: object, tmp_path: Path) -> None:
    path = tmp_path / "hosts.yaml"
    make(path)  # type: ignore[operator]
    for words in (("check", "--json", "hosts.yaml"), ("explain", "GET", URL)):
        outcome = egress(*words, cwd=tmp_path, timeout=30)
        assert_is_an_answer(outcome)
        assert outcome.status == STANDING[make], outcome  # type: ignore[index]


@pytest.mark.parametrize(
    "words", [("test",), ("test", "--json"), ("rules", "show"), ("rules", "show", "--json")]
)
def test_every_command_that_reads_rules_says_what_is_wrong_with_them(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    make_quoted_escapes(tmp_path / "hosts.yaml")
    outcome = egress(*words, cwd=tmp_path)
    assert_is_an_answer(outcome)
    assert outcome.status == 1
    assert outcome.out == ""
    assert "hosts.yaml:" in outcome.err


def test_a_device_is_never_read(tmp_path: Path) -> None:
    for device in ("/dev/zero", "/dev/null", "/dev/stdin", "/dev/random"):
        outcome = egress("check", device, cwd=tmp_path, timeout=30)
        assert_is_an_answer(outcome)
        assert outcome.status == 3


def test_a_folder_that_is_gone_gets_an_answer(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f'cd "{gone}" && rmdir "{gone}" && exec "$0" -m egress check'
    words = ["sh", "-c", script, sys.executable]
    done = subprocess.run(words, env=environment(tmp_path), capture_output=True, text=True, check=False)
    assert_is_an_answer(Outcome(done.returncode, done.stdout, done.stderr))
    assert done.returncode == 3


def test_a_file_that_may_not_be_read_is_status_three(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests may run as root, who may read everything: so the refusal is put in by hand."""
    file = put(tmp_path / "hosts.yaml", "version: 1\n")

    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    monkeypatch.setattr(os, "open", refuse)
    assert main(["check", str(file)]) == 3
    assert capsys.readouterr().err.startswith(f"error: permission denied: {file}\n")
