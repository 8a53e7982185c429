"""Ids that begin with a dash are ids, and options stay options."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from egress.cli.log.id_argument import IdCommand


@click.command(cls=IdCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("one")
@click.option("--json", "as_json", is_flag=True)
@click.option("--exactly-10", "ten")
def asked(one: str, as_json: bool, ten: str | None) -> None:
    click.echo(f"{one} {as_json} {ten}")


@pytest.mark.parametrize("name", ["-hs82kX_a-Qw", "--json_Xa-Qw", "-----------a", "hs82kX_a-Qw-"])
@pytest.mark.parametrize("around", [("{}", "--json"), ("--json", "{}"), ("--json", "--", "{}")])
def test_an_id_may_begin_with_a_dash(name: str, around: tuple[str, ...]) -> None:
    result = CliRunner().invoke(asked, [word.format(name) for word in around])
    assert result.output == f"{name} True None\n"


def test_a_name_of_an_option_is_no_id() -> None:
    assert CliRunner().invoke(asked, ["--exactly-10", "x", "abc"]).output == "abc False x\n"
    assert CliRunner().invoke(asked, ["-h"]).output.startswith("Usage: ")


def test_what_is_neither_is_refused() -> None:
    result = CliRunner().invoke(asked, ["abc", "--jsom"])
    assert result.exit_code == 2
    assert "No such option" in result.output
