"""What reaches the screen: aligned, plain unless it is a terminal, and never a command to it."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.cli import render
from egress.cli.render import BAD, BOLD, DIM, GOOD
from egress.errors import UnreadableError
from egress.types import Finding, Place, Severity

Captured = pytest.CaptureFixture[str]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Put standard output on a terminal of forty columns that has colours."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    return stream


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (7199, "120m"), (7200, "2h"), (172_800, "2d")],
)
def test_a_span_has_one_unit(seconds: float, text: str) -> None:
    assert render.span(seconds) == text


# Printable ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("bücher 日本", "bücher 日本"),
        ("a\nb", "a\\nb"),
        ("a\tb\r", "a\\tb\\r"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x9b2J", "\\x9b2J"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u2028b", "a\\u2028b"),
        ("\U000e0041", "\\U000e0041"),
        ("\udc80", "\\udc80"),
        ("\x00", "\\x00"),
    ],
)
def test_what_a_terminal_would_act_on_is_written_out(text: str, shown: str) -> None:
    assert render.printable(text) == shown


@given(st.text())
def test_everything_shown_is_one_printable_line(text: str) -> None:
    assert render.printable(text).isprintable()


# Lines and tables -----------------------------------------------------------------------------------


def test_a_line_is_plain_where_the_output_is_no_terminal(capsys: Captured) -> None:
    render.line(("ok ", GOOD), "all of it", (" fine", DIM))
    assert capsys.readouterr().out == "ok all of it fine\n"


def test_a_line_never_carries_what_a_text_smuggles_in(capsys: Captured) -> None:
    render.line("a\x1b[31mb", ("c\nd", BAD))
    assert capsys.readouterr().out == "a\\x1b[31mbc\\nd\n"


def test_a_terminal_gets_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch)
    render.line(("ok", GOOD), " [bold]x[/bold] \x1b[2J")
    assert terminal.getvalue() == "\x1b[32mok\x1b[0m [bold]x[/bold] \\x1b[2J\n"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_that_wants_none_gets_none(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch)
    monkeypatch.setenv(name, value)
    render.line(("ok", GOOD), " fine")
    render.table([[("ok", GOOD), "fine"]])
    assert terminal.getvalue() == "ok fine\nok  fine\n"


def test_a_narrow_terminal_continues_a_line_below_itself_between_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = on_a_terminal(monkeypatch)
    render.line("  a line that is a good deal longer than the forty columns that there are")
    assert terminal.getvalue().splitlines() == [
        "  a line that is a good deal longer than",
        "    the forty columns that there are",
    ]


def test_a_narrow_terminal_wraps_inside_the_cells_and_keeps_names_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = on_a_terminal(monkeypatch)
    render.table([["api.example.com", "a text that is longer than what is left"], ["x", "y"]], indent=2)
    lines = [line.rstrip() for line in terminal.getvalue().splitlines()]
    assert lines == [
        "  api.example.com  a text that is longer",
        "                   than what is left",
        "  x                y",
    ]


def test_columns_are_aligned_and_lines_end_where_the_text_ends(capsys: Captured) -> None:
    render.table([["a", ("bb", GOOD), "c"], ["aaa", "", ""]], indent=1)
    assert capsys.readouterr().out == " a    bb  c\n aaa\n"


def test_an_empty_column_takes_no_room(capsys: Captured) -> None:
    render.table([["a", "", "c"], ["b", "", "d"]])
    assert capsys.readouterr().out == "a  c\nb  d\n"


def test_no_rows_are_no_output(capsys: Captured) -> None:
    render.table([])
    assert capsys.readouterr().out == ""


# Messages -------------------------------------------------------------------------------------------


def test_an_error_has_its_hint_below_and_both_go_to_the_error_stream(capsys: Captured) -> None:
    render.error("it broke", "mend it")
    render.error("again")
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "error: it broke\nhint: mend it\nerror: again\n"


def test_a_huge_message_is_cut(capsys: Captured) -> None:
    render.error("x" * 100_000)
    assert len(capsys.readouterr().err) < 1100


def test_findings_say_where_what_and_how_to_mend_it(capsys: Captured) -> None:
    items = [
        Finding(Place("a.yaml", 1, 2), Severity.ERROR, "wrong", "do this"),
        Finding(Place("a\x1b.yaml", 3, 4), Severity.WARNING, "doubtful"),
    ]
    render.findings(items)
    render.findings(items[:1], stderr=True)
    said = capsys.readouterr()
    assert said.out == "a.yaml:1:2: error: wrong\n  hint: do this\na\\x1b.yaml:3:4: warning: doubtful\n"
    assert said.err == "a.yaml:1:2: error: wrong\n  hint: do this\n"


def test_data_is_json_in_ascii(capsys: Captured) -> None:
    value = {"text": "bücher \x1b[2J \u202e \x9b \udc80"}
    render.data(value)
    said = capsys.readouterr().out
    assert json.loads(said) == value
    assert said.isascii()
    assert all(line.isprintable() for line in said.splitlines())


@pytest.mark.parametrize(
    ("number", "noun", "words"),
    [(1, "error", "1 error"), (2, "error", "2 errors"), (0, "entry", "0 entries"), (1, "entry", "1 entry")],
)
def test_counts(number: int, noun: str, words: str) -> None:
    assert render.count(number, noun) == words


# Streams --------------------------------------------------------------------------------------------


class Failing(io.StringIO):
    """A stream on a real descriptor whose writes fail."""

    def __init__(self, error: OSError, path: Path) -> None:
        super().__init__()
        self.error = error
        self.file = path.open("w", encoding="utf-8")

    def fileno(self) -> int:
        return self.file.fileno()

    def write(self, text: str) -> int:
        raise self.error

    def flush(self) -> None:
        if not self.closed:
            raise self.error

    def close(self) -> None:
        self.file.close()


def test_a_reader_who_went_away_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Failing(BrokenPipeError(32, "Broken pipe"), tmp_path / "out")
    monkeypatch.setattr(sys, "stdout", stream)
    render.line("one")
    render.text("two")
    render.data(3)
    render.finish()
    stream.close()


def test_an_output_that_takes_nothing_is_said_to_be_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Failing(OSError(28, "No space left on device"), tmp_path / "out")
    monkeypatch.setattr(sys, "stdout", stream)
    with pytest.raises(UnreadableError, match="the output cannot be written: no space left on device"):
        render.line("one")
    with pytest.raises(UnreadableError):
        render.finish()
    render.give_up()
    stream.close()


def test_streams_take_any_text_whatever_their_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    render.prepare()
    render.line("bücher")
    stream.flush()
    assert raw.getvalue() == b"b\\xfccher\n"


def test_a_stream_that_was_closed_from_the_start_swallows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    render.prepare()
    render.line("one")
    stream = cast("io.TextIOWrapper | None", sys.stdout)
    assert stream is not None
    stream.close()


def test_what_is_copied_comes_out_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch)
    command = "export A=1; a command that is a good deal longer than the forty columns that there are"
    render.line("    ", (command, BOLD), whole=True)
    assert terminal.getvalue() == f"    \x1b[1m{command}\x1b[0m\n"


def test_a_hint_with_a_command_in_it_comes_out_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch)
    monkeypatch.setattr(sys, "stderr", terminal)
    render.error("no", "say `egress ca rotate --state-dir /a/b/c/d --sandbox default --constrain`")
    assert "`egress ca rotate --state-dir /a/b/c/d --sandbox default --constrain`\n" in terminal.getvalue()
