"""`egress prices`: show what a model costs by the rules."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click

from egress.cli import folder_options, render, rule_options
from egress.cli.render import DIM, Cell
from egress.errors import ContentError
from egress.rules.compile.budget_writer import price_fields
from egress.rules.compile.policy_writer import flow
from egress.rules.decide.price_table import Price, PriceTable


@click.group()
def prices() -> None:
    """Show what models cost by the rules.

    \b
    Examples:
      egress prices show claude-haiku-4-5 prices.yaml
    """


@prices.command()
@click.argument("model")
@click.argument("files", nargs=-1, type=folder_options.FILE, metavar="[FILE]...")
@click.option("--json", "as_json", is_flag=True, help="Print the price as JSON.")
def show(model: str, files: tuple[Path, ...], as_json: bool) -> int:
    """Show the price of a model, in dollars for a million tokens.

    Of several patterns that fit, the longest counts, and of one pattern the newest price that is valid.
    Without FILE, reads config/hosts.yaml or else hosts.yaml. The exit status is 1 for a model without a
    price.

    \b
    Examples:
      egress prices show claude-haiku-4-5 prices.yaml
      egress prices show gpt-5-mini prices.yaml --json
    """
    _, policy = rule_options.policy(files)
    table = policy.prices
    if not table.prices:
        raise ContentError(
            "the rules have no prices", "write them under `prices`, or name the file that has them"
        )
    today = datetime.fromtimestamp(rule_options.now(), UTC).date().isoformat()
    price = table.price(model, today)
    if as_json:
        fields = None if price is None else price_fields(price)
        render.data({"model": model, "price": fields, "date": table.date, "digest": table.digest})
    else:
        _show(model, price, table)
    return int(price is None)


def _show(model: str, price: Price | None, table: PriceTable) -> None:
    if price is None:
        render.line(f"no price fits {model}: a budget of dollars denies it, or counts the dearest price")
    else:
        render.table(list(_rows(price)))
    render.line((f"prices of {table.date} ({table.digest})", DIM))


def _rows(price: Price) -> Iterator[list[Cell]]:
    for name, value in price_fields(price).items():
        yield [(name, DIM), flow(value)]
