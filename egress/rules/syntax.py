"""Mistakes of syntax, said in our own words.

The parser speaks of tokens and nodes; people think of quotes, colons and indentation.
"""

from __future__ import annotations

from egress.rules.characters import Fault

LONE_SURROGATE = (
    "this escape is a lone surrogate or no character at all",
    "write the character itself",
)

_SYNTAX: tuple[tuple[str, str, str], ...] = (
    (
        "character '\\t'",
        "a tab stands where YAML wants spaces",
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
        "a second `: ` stands in this line",
        "quote the value, or begin a new line",
    ),
    (
        "could not find expected ':'",
        "this line is neither `key: value` nor part of the value above",
        "add the colon, or check the indentation",
    ),
    (
        "did not find expected key",
        "the indentation does not fit the lines above",
        "line the key up with its neighbours",
    ),
    (
        "did not find expected '-' indicator",
        "the indentation does not fit the list above",
        "line the items up",
    ),
    ("did not find expected ',' or ']'", "this list in brackets is not closed", "add the missing `]` or `,`"),
    (
        "did not find expected ',' or '}'",
        "this mapping in braces is not closed",
        "add the missing `}` or `,`",
    ),
    (
        "found unexpected ':'",
        "a value with `:` in it stands bare between brackets or braces",
        "put the value in quotes",
    ),
    (
        "did not find expected node content",
        "a value is missing here, or a bracket is not closed",
        "close what was opened, or write the value",
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
        "a control character stands here",
        "a rule file is plain UTF-8 text",
    ),
    ("found duplicate anchor", "anchors are not allowed here", "write the value out in each place"),
    (
        "undefined alias",
        "this is a YAML alias, which rule files do not use",
        'quote a name that begins with an asterisk: "*.example.com"',
    ),
)


_UNCLOSED = ("',' or ']'", "',' or '}'", "unexpected end of stream")


def describe(text: str, error: Exception) -> Fault:
    """What the parser's error means, where to look for it, and what to do."""
    problem = str(getattr(error, "problem", "") or getattr(error, "reason", "") or "")
    marks = [getattr(error, name, None) for name in ("problem_mark", "context_mark")]
    if any(part in problem for part in _UNCLOSED):
        # What was opened is where to look; the parser only notices at the end of the file.
        marks.reverse()
    mark = marks[0] or marks[1]
    line, column = (mark.line, mark.column) if mark is not None else (0, 0)
    message, hint = "this is not valid YAML", "check quotes, colons and indentation around this line"
    for part, ours, cure in _SYNTAX:
        if part in problem:
            message, hint = ours, cure
            break
    lines = text.split("\n")
    if line < len(lines) and "\t" in lines[line][: column + 1]:
        message, hint = "a tab stands where YAML wants spaces", "indent with spaces"
    return Fault(line, column, message, hint)
