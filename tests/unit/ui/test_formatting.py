"""How values look on a page."""

from __future__ import annotations

import pytest
from markupsafe import Markup

from egress.ui import formatting


@pytest.mark.parametrize("bad", ["\x1b", "\u202e", "\u200b", "\n", "\x00", "\ud800", "\u2066", "\xad"])
def test_what_would_not_be_seen_is_written_out(bad: str) -> None:
    text = formatting.visible(f"a{bad}b")
    assert bad not in text
    assert text.startswith("a\\")
    assert text.isprintable()


def test_what_is_seen_stays() -> None:
    assert formatting.visible("/Größe/<b>") == "/Größe/<b>"


def test_a_long_text_is_cut() -> None:
    assert len(formatting.visible("a" * 10_000)) == formatting.MAX_TEXT_CHARS + 1


def test_templates_print_texts_alone_changed() -> None:
    assert formatting.finalize("\x1b") == "\\x1b"
    assert formatting.finalize(None) == ""
    assert formatting.finalize(7) == 7
    assert formatting.finalize(Markup("a\nb")) == "a\nb"


def test_lines_keep_their_ends_alone() -> None:
    assert formatting.lines("a\n\tb\x1b") == ["a", "\\tb\\x1b"]


def test_numbers_are_short() -> None:
    assert [formatting.number(9), formatting.number(12_345)] == ["9", "12,345"]
    assert [formatting.counted(1, "line"), formatting.counted(12_345, "line")] == ["1 line", "12,345 lines"]
    assert [formatting.size(9), formatting.size(1_230_000)] == ["9 B", "1.2 MB"]
    took = (0, 20, 1500, 1_500_000, 20_000_000, 120_000_000)
    assert [formatting.duration(n) for n in took] == ["", "20 us", "2 ms", "1.5 s", "20 s", "2 min"]
    assert [formatting.age(n) for n in (3, 120, 7200)] == ["3 s", "2 min", "2 h"]
    assert [formatting.share(0, 0), formatting.share(1, 1000), formatting.share(1, 4)] == [
        "0 %",
        "<1 %",
        "25 %",
    ]


def test_a_moment_is_shown_to_the_minute() -> None:
    assert formatting.when(1_772_357_400_000_000) == "2026-03-01 09:30"


def test_quoted_words_are_code_and_nothing_else_is_markup() -> None:
    assert formatting.ticks("use `a <b>` & go") == "use <code>a &lt;b&gt;</code> &amp; go"
    assert formatting.ticks("one ` only") == "one ` only"
    assert formatting.ticks("") == ""


def test_a_command_is_one_line_of_quoted_words() -> None:
    assert formatting.curl("GET", "https", "a.example", 443, "/x") == "curl -i -X GET https://a.example/x"
    made = formatting.curl("GET", "http", "a.example", 8080, "/$(id)\n;")
    assert made == "curl -i -X GET 'http://a.example:8080/$(id)\\n;'"
