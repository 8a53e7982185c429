"""Describe mistakes in the text of a rule file: YAML syntax and forbidden characters.

The parser speaks of tokens and nodes; messages speak of quotes, colons and indentation.
"""

from __future__ import annotations

from dataclasses import dataclass

LONE_SURROGATE = (
    "this escape is a lone surrogate or no character at all",
    "write the character itself",
)

_SYNTAX_MESSAGES: tuple[tuple[str, str, str], ...] = (
    (
        "character '\\t'",
        "a tab is used for indentation; YAML needs spaces",
        "indent with spaces",
    ),
    (
        "character that cannot start any token",
        "this character cannot begin a value here",
        "quote the value; if this is a tab, indent with spaces",
    ),
    (
        "did not find expected alphabetic or numeric character",
        "a name that begins with an asterisk or an ampersand must be quoted",
        'write it as "*.example.com"',
    ),
    (
        "mapping values are not allowed",
        "this line contains a second `: `",
        "quote the value, or begin a new line",
    ),
    (
        "could not find expected ':'",
        "this line is neither `key: value` nor part of the value above",
        "add the colon, or check the indentation",
    ),
    (
        "did not find expected key",
        "the indentation does not match the lines above",
        "align the key with its neighbours",
    ),
    (
        "did not find expected '-' indicator",
        "the indentation does not match the list above",
        "align the items",
    ),
    ("did not find expected ',' or ']'", "this list in brackets is not closed", "add the missing `]` or `,`"),
    (
        "did not find expected ',' or '}'",
        "this mapping in braces is not closed",
        "add the missing `}` or `,`",
    ),
    (
        "found unexpected ':'",
        "a value that contains `:` is not quoted between brackets or braces",
        "put the value in quotes",
    ),
    (
        "did not find expected node content",
        "a value is missing here, or a bracket is not closed",
        "close the bracket, or write the value",
    ),
    ("found unexpected end of stream", "the file ends inside a quoted text", "add the closing quote"),
    (
        "found unknown escape character",
        "this backslash escape does not exist",
        "use single quotes for text with backslashes",
    ),
    ("found undefined tag handle", "tags are not allowed here", "quote the value if it begins with `!`"),
    (
        "invalid Unicode character escape code",
        *LONE_SURROGATE,
    ),
    (
        "expected <document start>",
        "a second document begins here",
        "a rule file is one YAML document: remove `---`",
    ),
    (
        "control characters are not allowed",
        "the file contains a control character here",
        "a rule file is plain UTF-8 text",
    ),
    ("found duplicate anchor", "anchors are not allowed here", "write the value out in each place"),
    (
        "undefined alias",
        "this is a YAML alias, which rule files do not use",
        'quote a name that begins with an asterisk: "*.example.com"',
    ),
)


_UNCLOSED_PROBLEMS = ("',' or ']'", "',' or '}'", "unexpected end of stream")


def describe_syntax_error(text: str, error: Exception) -> TextFault:
    """Translate the parser's error: its cause, position and cure."""
    problem = str(getattr(error, "problem", "") or getattr(error, "reason", "") or "")
    marks = [getattr(error, name, None) for name in ("problem_mark", "context_mark")]
    if any(part in problem for part in _UNCLOSED_PROBLEMS):
        # Point at the opening bracket or quote; the parser notices only at the end of the file.
        marks.reverse()
    mark = marks[0] or marks[1]
    line, column = (mark.line, mark.column) if mark is not None else (0, 0)
    message, hint = "this is not valid YAML", "check quotes, colons and indentation around this line"
    for part, ours, cure in _SYNTAX_MESSAGES:
        if part in problem:
            message, hint = ours, cure
            break
    lines = text.split("\n")
    # Every parser words tabs differently, so the line itself decides.
    if line < len(lines) and "\t" in lines[line][: column + 1]:
        message, hint = "a tab is used for indentation; YAML needs spaces", "indent with spaces"
    return TextFault(line, column, message, hint)


# Forbidden characters: a rule file is read by people before it is read by a machine. A character that hides a
# line from either reader, changes the direction of text, or has no width is refused everywhere.
_INVISIBLE_CHARACTERS = frozenset(
    "\ufeff\u00ad\u061c\u180e\u200b\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e"
    "\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\ufff9\ufffa\ufffb"
)
"""Characters that change the direction of text, break lines only for some readers, or have no width."""


@dataclass(frozen=True, slots=True)
class TextFault:
    """A mistake at a position; line and column count from zero."""

    line: int
    column: int
    message: str
    hint: str = ""


def find_forbidden_character(text: str) -> TextFault | None:
    """Return the first character that a rule file may not contain."""
    for number, line in enumerate(text.split("\n")):
        # Fast path: almost every line is printable as a whole.
        if line.isprintable():
            continue
        for column, character in enumerate(line):
            if character == "\r" and column == len(line) - 1:
                continue
            # A byte order mark at the very beginning is harmless and common.
            if character == "\ufeff" and (number, column) == (0, 0):
                continue
            problem = _problem(character)
            if problem is not None:
                return TextFault(number, column, *problem)
    return None


def _problem(character: str) -> tuple[str, str] | None:
    if character == "\t" or character.isprintable():
        return None
    if character == "\r":
        # YAML starts a new line here, but many editors show none: text behind it would hide.
        return "a carriage return without a line feed", "end lines with \\n or \\r\\n"
    if "\ud800" <= character <= "\udfff":
        return "a lone surrogate: the text is not valid Unicode", "save the file as UTF-8"
    number = f"U+{ord(character):04X}"
    if ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0 or character in "\ufffe\uffff":
        return f"the file contains a control character ({number}) here", "a rule file is plain UTF-8 text"
    if character in _INVISIBLE_CHARACTERS:
        return (
            f"the file contains an invisible character ({number}) here",
            "remove it: a reviewer cannot see what it does",
        )
    return None
