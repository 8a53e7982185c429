"""What an address asks for."""

from __future__ import annotations

import click
import pytest

from egress.cli.log.filter_options import options
from egress.review import Filters
from egress.ui.page_query import NAMES, address, parse_query

NOW = 1_772_400_000_000_000


def test_the_names_are_those_of_the_command() -> None:
    command = click.command()(options(lambda: 0))
    assert list(NAMES) == [param.name for param in command.params]


def test_reads_filters_as_the_command_does() -> None:
    wanted = parse_query(
        {"verdict": "Denied", "host": "API.github.com", "method": "post", "since": "2h"}, NOW
    )
    expected = Filters(verdict="deny", host="api.github.com", method="POST", since=NOW - 7_200_000_000)
    assert wanted.filters == expected
    assert wanted.problem == ""


@pytest.mark.parametrize(
    "query",
    [{"verdict": "maybe"}, {"status": "999999"}, {"since": "soon"}, {"since": "1h", "until": "2h"}],
)
def test_a_mistake_is_told_and_nothing_is_asked(query: dict[str, str]) -> None:
    wanted = parse_query(query, NOW)
    assert wanted.problem
    assert wanted.filters == Filters()
    assert wanted.texts == query


def test_an_address_keeps_what_is_in_its_values() -> None:
    wanted = parse_query({"grep": "a&verdict=deny#?", "host": ""}, NOW)
    assert wanted.url("/", sandbox="x y") == "/?grep=a%26verdict%3Ddeny%23%3F&sandbox=x+y"
    assert wanted.url("/", grep="") == "/"
    assert address("/host", name="\ud800") == "/host?name=%3F"


def test_a_filter_is_no_longer_than_it_may() -> None:
    assert len(parse_query({"grep": "a" * 9000}, NOW).filters.grep) == 500
