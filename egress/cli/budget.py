"""`egress budget`: show what calls of language models have cost, and what is left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import click

from egress.cli import folder_options, render
from egress.cli.control_client import ask_proxy
from egress.cli.proxy_choice import ask_one_proxy, error_of, folder_of_one
from egress.cli.render import BAD, DIM, GOOD, Cell
from egress.rules.compile.budget_writer import amount_text
from egress.rules.decide.budget_spec import DAY, HOUR, TOTAL
from egress.rules.decide.price_table import MICRO_CENTS_PER_USD

_WINDOW_NAMES: Final = {HOUR: "an hour", DAY: "a day", TOTAL: "in total"}
_DOLLARS_SHOWN: Final = 4
"""Decimal places of dollars; `--json` has all of them."""


@click.command()
@click.argument("name", required=False)
@click.option("--accept-loss", is_flag=True, help="Begin with empty accounts after the journal was lost.")
@click.option("--run", metavar="ID", help="The proxy of this run. [the one that is running]")
@folder_options.of_running
@click.option("--json", "as_json", is_flag=True, help="Print all amounts as JSON: micro-cents and tokens.")
def budget(
    name: str | None, run: str | None, runtime_dir: Path | None, accept_loss: bool, as_json: bool
) -> int:
    """Show what calls of language models have cost, and what is left.

    Shows each account of each budget: what is spent, what running calls have reserved, and when a limit that
    is reached opens again. NAME shows one budget. The exit status is 1 if a limit is reached.

    \b
    Examples:
      egress budget
      egress budget agents --json
    """
    if accept_loss:
        answer = ask_proxy("POST", "/budgets/accept-loss", {}, folder_of_one(runtime_dir, run))
        if answer.status != 200:
            raise error_of(answer)
        said = "accounts begin empty" if answer.body.get("accepted") else "the journal was not lost"
        render.line((said, GOOD))
        return 0
    body = ask_one_proxy("/budgets", None, runtime_dir, run)
    accounts = [each for each in _accounts(body) if name in (None, each.get("budget"))]
    if as_json:
        render.data({**body, "budgets": [dict(each) for each in accounts]})
    else:
        _show(body, accounts)
    return int(any(_number(each, "reopens") or _is_full(each) for each in accounts))


def _show(body: Mapping[str, object], accounts: list[Mapping[str, object]]) -> None:
    if lost := body.get("lost"):
        render.line(
            ("the journal was lost", BAD),
            f" at {lost}: limits count as full; `egress budget --accept-loss` ends that",
        )
    if not accounts:
        render.line(("no call has counted for a budget yet", DIM))
        return
    render.table(list(_rows(accounts)))
    prices = body.get("prices")
    if isinstance(prices, dict) and prices.get("digest"):
        render.line((f"prices of {prices.get('date')} ({prices.get('digest')})", DIM))


def _rows(accounts: list[Mapping[str, object]]) -> Iterator[list[Cell]]:
    yield [(title, DIM) for title in ("BUDGET", "WHO", "SPENT", "RESERVED", "LIMIT", "REOPENS")]
    for each in accounts:
        unit = str(each.get("unit"))
        limit = (
            f"{shown_amount(unit, _number(each, 'limit'))} {_WINDOW_NAMES.get(_number(each, 'window'), '')}"
        )
        wait = _number(each, "reopens")
        spent: Cell = shown_amount(unit, _number(each, "spent"))
        yield [
            str(each.get("budget")),
            _whose(str(each.get("scope"))),
            (str(spent), BAD) if _is_full(each) else spent,
            shown_amount(unit, _number(each, "reserved")),
            limit,
            f"in {wait} s" if wait else "",
        ]


def _whose(scope: str) -> str:
    return "all" if scope == "*" else scope


def shown_amount(unit: str, amount: int) -> str:
    """Return an amount for people, dollars rounded up."""
    if unit != "usd":
        return f"{amount} tokens"
    step = MICRO_CENTS_PER_USD // 10**_DOLLARS_SHOWN
    return f"${amount_text(-(-amount // step), 10**_DOLLARS_SHOWN)}"


def _accounts(body: Mapping[str, object]) -> list[Mapping[str, object]]:
    found = body.get("budgets")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _is_full(account: Mapping[str, object]) -> bool:
    return _number(account, "spent") + _number(account, "reserved") >= _number(account, "limit")


def _number(account: Mapping[str, object], key: str) -> int:
    value = account.get(key)
    return value if isinstance(value, int) else 0
