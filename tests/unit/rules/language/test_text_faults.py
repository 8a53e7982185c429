"""The wording of syntax errors; what each mistake in a file says is tested with `document`."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from egress.rules.language.text_faults import describe_syntax_error


@dataclass
class Mark:
    line: int
    column: int


class ParserProblemError(Exception):
    """An error as both parsers raise it: a problem, and marks where it was seen and where it began."""

    def __init__(self, problem: str, seen: Mark | None = None, began: Mark | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.problem_mark = seen
        self.context_mark = began


def test_looks_where_the_problem_was_seen() -> None:
    fault = describe_syntax_error(
        "a: b: c\n", ParserProblemError("mapping values are not allowed here", Mark(0, 4), Mark(0, 0))
    )
    assert (fault.line, fault.column, fault.message) == (0, 4, "this line contains a second `: `")


@pytest.mark.parametrize("problem", ["did not find expected ',' or ']'", "found unexpected end of stream"])
def test_looks_where_something_was_opened_that_is_not_closed(problem: str) -> None:
    fault = describe_syntax_error("a: [1\n\n", ParserProblemError(problem, Mark(2, 0), Mark(0, 3)))
    assert (fault.line, fault.column) == (0, 3)


def test_a_tab_in_the_line_is_the_likeliest_cause() -> None:
    fault = describe_syntax_error("a:\n\tb: 1\n", ParserProblemError("anything at all", Mark(1, 1)))
    assert fault.message == "a tab is used for indentation; YAML needs spaces"


def test_an_unknown_problem_is_said_plainly_and_not_quoted() -> None:
    fault = describe_syntax_error("secret-looking text", ParserProblemError("secret-looking text"))
    assert (fault.line, fault.column, fault.message) == (0, 0, "this is not valid YAML")
    assert "secret" not in fault.hint
