"""YAML to values that remember where they stood, with the C parser and with the one in Python."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from egress.rules.language.document import MAX_DEPTH, Document, MissingValue, ValuePath, read, safe_excerpt

CORPUS = [
    "a: 1\n",
    "a: [1, two, 3.5, true, False, -7, +7, .5, 1e3, 0x1f, 0o7, 1_000, 2027-01-01, 12:30]\n".replace(
        "12:30", '"12:30"'
    ),
    "a:\n  - b: c\n    d: e\n  -\n    - x\n    - y\n",
    "a: 'it''s'\nb: \"tab\\t\\u00e9\"\nc: plain text # comment\n",
    "a: |\n  block\n  text\nb: >-\n  folded\n  text\n",
    "? a\n: b\n",
    "---\na: {b: [c, {d: e}], f: {}}\n...\n",
    "é: ü\n日本: 語\n",
    "a: 'yes'\nb: yes\nc: no\nd: on\n",
    "\ufeffa: 1\n",
    "a: 1\r\nb: 2\r\n",
    '"a": "~"\n',
    "a:   spaced   \n",
]
BROKEN = [
    "", "# only a comment\n", "---\n", "a:\n", "a: ~\n", "a: null\n", "a: [1, ~]\n", "a: &x 1\n",
    "a: &x {}\n",
    "a: *x\n", "a: !t 1\n", "a: !!map {}\n", "a: ! 1\n", "!!str a: 1\n", "&k a: 1\n", "<<: {}\n",
    "a: 1\na: 2\n",
    "? [x]\n: 1\n", "? {x: 1}\n: 1\n", "a: 1\n---\nb: 2\n", "a: 1\n...\nb: 2\n", "[" * 20 + "]" * 20 + "\n",
    "a: " + "{a: " * 20 + "1" + "}" * 20 + "\n",
]  # fmt: skip


@pytest.fixture
def without_c_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine where the C parser is not there."""
    monkeypatch.setitem(sys.modules, "_ruamel_yaml", None)


def places(found: Document) -> Iterator[tuple[ValuePath, str, str]]:
    """Where every value and key stands."""
    waiting: list[tuple[ValuePath, object]] = [((), found.value)]
    while waiting:
        path, value = waiting.pop()
        yield path, str(found.place(path)), str(found.place(path, of_key=True))
        if isinstance(value, dict):
            waiting += [((*path, key), item) for key, item in value.items()]
        if isinstance(value, list):
            waiting += [((*path, number), item) for number, item in enumerate(value)]


def is_c_parser() -> bool:
    """Without it reading works, but slower."""
    try:
        import _ruamel_yaml  # noqa: F401 - asks whether it is there
    except ImportError:
        return False
    return True


def test_the_machine_of_the_tests_has_the_c_parser() -> None:
    assert is_c_parser()


def test_the_parser_in_python_takes_its_place(without_c_parser: None) -> None:
    assert not is_c_parser()
    assert read("f", "a: [1]\n")[0].value == {"a": [1]}


@pytest.mark.parametrize("text", CORPUS + BROKEN)
def test_both_parsers_read_the_same_and_find_the_same(text: str, request: pytest.FixtureRequest) -> None:
    fast, findings = read("f", text)
    request.getfixturevalue("without_c_parser")
    slow, others = read("f", text)
    assert slow.value == fast.value
    assert sorted(places(slow), key=str) == sorted(places(fast), key=str)
    assert others == findings


@pytest.mark.parametrize("text", CORPUS)
def test_the_corpus_is_sound(text: str) -> None:
    assert read("f", text)[1] == []


@pytest.mark.parametrize("text", BROKEN)
def test_what_is_broken_is_found(text: str) -> None:
    assert read("f", text)[1] != []


def test_only_true_false_and_numbers_are_not_text() -> None:
    values = read("f", CORPUS[1])[0].value
    assert values == {
        "a": [1, "two", 3.5, True, False, -7, 7, 0.5, 1000.0, "0x1f", "0o7", "1_000", "2027-01-01", "12:30"]
    }
    assert read("f", "a: yes\nb: No\nc: on\nd: y\n")[0].value == {"a": "yes", "b": "No", "c": "on", "d": "y"}
    assert read("f", f"a: {'9' * 30}\n")[0].value == {"a": "9" * 30}
    assert read("f", "[True, TRUE, False, FALSE]")[0].value == [True, True, False, False]
    assert read("f", "a: 'true'\nb: '1'\nc: ''\n")[0].value == {"a": "true", "b": "1", "c": ""}


@pytest.mark.parametrize(
    "text", ["1.", "1.25", "12.5", ".55", "12e3", "1E3", "1e+3", "1e-3", "-1e10", "1.5e3", "1.25E+10", "+.5"]
)
def test_a_number_with_a_point_or_an_exponent_is_a_number(text: str) -> None:
    assert read("f", f"a: {text}\n")[0].value == {"a": float(text)}


@pytest.mark.parametrize(
    "text", ["0443", "-07", "1e?3", "1e-+3", "1e", "e3", "1.2.3", ".e3", ".", "+", "1e[3"]
)
def test_what_only_begins_like_a_number_is_text(text: str) -> None:
    assert read("f", f"a: {text}\n")[0].value == {"a": text}


@pytest.mark.parametrize("text", ["", "~", "null", "Null", "NULL"])
def test_every_way_to_write_nothing_is_reported(text: str) -> None:
    found, (finding,) = read("f", f"a: {text}\n")
    assert found.value == {"a": MissingValue()}
    assert finding.message == "the value is missing"


def test_what_is_not_there_is_said_once() -> None:
    found, findings = read("f", "a:\nb: [~]\n")
    assert found.value == {"a": MissingValue(), "b": [MissingValue()]}
    assert [str(finding.place) for finding in findings] == ["f:1:3", "f:2:5"]


def test_a_place_is_that_of_the_deepest_part_that_exists() -> None:
    found, _ = read("f", "a:\n  b: [1, two]\n  c: d\n")
    assert str(found.place(())) == "f:1:1"
    assert str(found.place(("a",))) == "f:1:1"
    assert str(found.place(("a", "b"))) == "f:2:3"
    assert str(found.place(("a", "b", 1))) == "f:2:10"
    assert str(found.place(("a", "c"))) == "f:3:6"
    assert str(found.place(("a", "c"), of_key=True)) == "f:3:3"
    assert str(found.place(("a", "list", "x", 7))) == "f:1:1"
    assert str(found.place(("a", "b", 2))) == "f:2:3"
    assert str(found.place(("a", "c", 0))) == "f:3:6"


TAB = "a tab is used for indentation; YAML needs spaces (indent with spaces)"
NAME = 'a name that begins with an asterisk or an ampersand must be quoted (write it as "*.example.com")'
ALIAS = (
    "this is a YAML alias, which rule files do not use (quote"
    ' a name that begins with an asterisk: "*.example.com")'
)
COLON = "a value that contains `:` is not quoted between brackets or braces (put the value in quotes)"


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("a:\n\tb: 1\n", f"2:1: {TAB}"),
        ("a:\n  - x\n\t- y\n", f"3:1: {TAB}"),
        ("*.x: 1\n", f"1:2: {NAME}"),
        ("a: *.x\n", f"1:5: {NAME}"),
        ("- *.x\n", f"1:4: {NAME}"),
        ("{*.x: 1}\n", f"1:3: {NAME}"),
        ("[a, *.x]\n", f"1:6: {NAME}"),
        ("a: &.x\n", f"1:5: {NAME}"),
        ("**.x: 1\n", f"1:2: {NAME}"),
        ("a: *all\n", f"1:4: {ALIAS}"),
        ("*all : 1\n", f"1:1: {ALIAS}"),
        ("a: 1\n b: 2\n", "2:3: this line contains a second `: ` (quote the value, or begin a new line)"),
        ("a: b: c\n", "1:5: this line contains a second `: ` (quote the value, or begin a new line)"),
        ("a: 1\nb\nc: 2\n", (
        "3:1: this line is neither `key: value` nor part of the"
        " value above (add the colon, or check the indentation)"
        )),
        ("a:\n    b: 1\n  c: 2\n", (
        "3:3: the indentation does not match the lines above (align the key with its neighbours)"
        )),
        ("a:\n  - 1\n  b: 2\n", "3:3: the indentation does not match the list above (align the items)"),
        ("a: [1, 2\nb: 3\n", "1:4: this list in brackets is not closed (add the missing `]` or `,`)"),
        ("a: {b: 1\nc: 2\n", "1:4: this mapping in braces is not closed (add the missing `}` or `,`)"),
        ("a: 'x\nb: 2\n", "1:4: the file ends inside a quoted text (add the closing quote)"),
        ('a: "x\nb: 2\n', "1:4: the file ends inside a quoted text (add the closing quote)"),
        ('a: "\\q"\n', (
        "1:5: this backslash escape does not exist"
        " (use single quotes for text with backslashes)"
        )),
        ('a: "\\ud800"\n', (
        "1:7: this escape is a lone surrogate or no"
        " character at all (write the character itself)"
        )),
        ("a: !x!y 1\n", "1:4: tags are not allowed here (quote the value if it begins with `!`)"),
        ("a: @b\n", (
        "1:4: this character cannot begin a value here (quote"
        " the value; if this is a tab, indent with spaces)"
        )),
        ("a: `b\n", (
        "1:4: this character cannot begin a value here (quote"
        " the value; if this is a tab, indent with spaces)"
        )),
        ("a: %b\n", (
        "1:4: this character cannot begin a value here (quote"
        " the value; if this is a tab, indent with spaces)"
        )),
        ("{a: https://x}\n", f"1:10: {COLON}"),
        ("[env:X]\n", f"1:5: {COLON}"),
        ("{a: [}\n", (
        "1:6: a value is missing here, or a bracket is not"
        " closed (close the bracket, or write the value)"
        )),
        ("a: 1\x00\n", ("1:5: the file contains a control character (U+0000) here (a rule file is"
        " plain UTF-8 text)")),
        ("a: \x1b[1m\n", ("1:4: the file contains a control character (U+001B) here (a rule file is"
        " plain UTF-8 text)")),
        ("a: \x85\n", ("1:4: the file contains a control character (U+0085) here (a rule file is"
        " plain UTF-8 text)")),
        ("a: \uffff\n", ("1:4: the file contains a control character (U+FFFF) here (a rule file is"
        " plain UTF-8 text)")),
        ("a: \ud800\n", "1:4: a lone surrogate: the text is not valid Unicode (save the file as UTF-8)"),
        ("a: 1 # \u202e\n", (
        "1:8: the file contains an invisible character (U+202E) here"
        " (remove it: a reviewer cannot see what it does)"
        )),
        ("a: x\u200by\n", (
        "1:5: the file contains an invisible character (U+200B) here"
        " (remove it: a reviewer cannot see what it does)"
        )),
        ("a: x\ufeff\n", (
        "1:5: the file contains an invisible character (U+FEFF) here"
        " (remove it: a reviewer cannot see what it does)"
        )),
        ("a: 1\u2028b: 2\n", (
        "1:5: the file contains an invisible character (U+2028) here"
        " (remove it: a reviewer cannot see what it does)"
        )),
        ("# x\n", "1:1: the file is empty (start with `version: 1`)"),
        ("a: 1\n---\nb: 1\n", (
        "2:1: a second document begins here (a rule"
        " file is one YAML document: remove `---`)"
        )),
        ("a: [[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]\n", (
        "1:19: nesting is deeper than 16 levels (no part of a rule file needs that)"
        )),
    ],
)  # fmt: skip
def test_says_what_is_wrong_where_and_what_to_do(text: str, finding: str) -> None:
    assert [f"{f} ({f.hint})" for f in read("f", text)[1]] == [f"f:{finding}"]


@pytest.mark.parametrize(
    "text",
    [
        "a: [1, 2\nb: 3\n",
        "a: 'x\n",
        "a:\n\tb: 1\n",
        "*.x: 1\n",
        "a: b: c\n",
        '"\\ud800"',
        '"\\udabc"',
        "a: !x!y 1\n",
        "{",
        "]",
    ],
)
def test_the_parser_in_python_refuses_the_same(text: str, without_c_parser: None) -> None:
    (finding,) = read("f", text)[1]
    assert finding.message
    assert finding.hint


def test_the_deepest_that_is_taken() -> None:
    depth = MAX_DEPTH
    assert read("f", "[" * depth + "]" * depth)[1] == []
    assert read("f", "[" * (depth + 1) + "]" * (depth + 1))[1] != []


@pytest.mark.parametrize("depth", [17, 2000])
def test_keys_within_keys_are_levels_too(depth: int) -> None:
    (finding,) = read("f", "{" * depth + "}" * depth)[1]
    assert finding.message == "nesting is deeper than 16 levels"


def test_a_quoted_key_is_no_merge_key() -> None:
    assert read("f", "'<<': 1\n")[0].value == {"<<": 1}
    assert read("f", "'<<': 1\n")[1] == []


def test_a_file_of_16_mib_is_read() -> None:
    (finding,) = read("f", " " * (16 * 1024 * 1024))[1]
    assert finding.message == "the file is empty"


def test_a_file_of_more_than_16_mib_is_not_read() -> None:
    (finding,) = read("f", " " * (16 * 1024 * 1024 + 1))[1]
    assert (finding.message, str(finding.place)) == ("the file is larger than 16 MiB", "f:1:1")


def test_shows_text_on_one_short_line_and_no_credential() -> None:
    assert safe_excerpt("a\nb`c\x1b") == "a?b?c?"
    assert safe_excerpt("x" * 60) == "x" * 60
    assert safe_excerpt("x" * 61) == "x" * 57 + "..."
    assert safe_excerpt("ghp_" + "A1b2C3d4" * 5) == "(hidden: it looks like a credential)"


def test_a_duplicate_key_that_looks_like_a_credential_is_not_shown() -> None:
    credential = "ghp_" + "A1b2C3d4" * 5
    (finding,) = read("f", f"{credential}: 1\n{credential}: 2\n")[1]
    assert credential not in finding.message
