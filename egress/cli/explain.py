"""`egress explain`: what would happen to a request, and which line of which file decided it."""

from __future__ import annotations

from pathlib import Path

import click

from egress.cli import render, rulefiles
from egress.cli.render import BAD, BOLD, DIM, GOOD
from egress.errors import CODES, UsageError
from egress.rules import bounds
from egress.rules.cases import Url, outcome, parse_url
from egress.rules.explain import Considered, Explanation
from egress.rules.explain import explain as explained
from egress.rules.report import MeaningError
from egress.types import Head, Headers, Identity, RuleRef, Verdict


@click.command()
@click.argument("method")
@click.argument("url")
@click.option(
    "--rules",
    "-r",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Rule file; may be repeated.",
)
@click.option(
    "--header", "-H", "headers", multiple=True, metavar="'NAME: VALUE'", help="A header of the request."
)
@click.option("--profile", "-p", help="The profile of the sandbox that asks.")
@click.option("--at", metavar="MOMENT", help="A day or RFC 3339 moment; now when left out.")
@click.option("--websocket", is_flag=True, help="The request asks for a WebSocket.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def explain(
    method: str,
    url: str,
    files: tuple[Path, ...],
    headers: tuple[str, ...],
    profile: str | None,
    at: str | None,
    websocket: bool,
    as_json: bool,
) -> int:
    """Say what would happen to a request, which line decides it, and what else was considered.

    No secret is resolved and nothing is sent. The exit status is 0 for allowed, 1 for denied.

    \b
    Examples:
      egress explain GET https://api.github.com/user
      egress explain POST https://api.github.com/gists
    """
    where = _url(url)
    moment = rulefiles.now() if at is None else _moment(at)
    _, policy = rulefiles.policy(files)
    head = Head(method, where.scheme, where.host, where.port, where.target, _headers(headers), websocket)
    answer = explained(policy, Identity("explain", profile), head, moment)
    if as_json:
        render.data(_as_data(answer))
    else:
        _show(method, url, answer)
    return 0 if answer.decision.allowed else 1


def _url(text: str) -> Url:
    try:
        return parse_url(text if "://" in text else f"https://{text}")
    except MeaningError as error:
        raise UsageError(error.message, error.hint) from None


def _moment(text: str) -> int:
    try:
        return bounds.moment(text)
    except MeaningError as error:
        raise UsageError(f"--at: {error.message}", error.hint) from None


def _headers(texts: tuple[str, ...]) -> Headers:
    pairs = []
    for text in texts:
        name, colon, value = text.partition(":")
        if not colon or not name.strip():
            raise UsageError("--header wants NAME: VALUE", "for example --header 'accept: application/json'")
        pairs.append((name.strip().lower(), value.strip()))
    return tuple(pairs)


# For people -----------------------------------------------------------------------------------


def _show(method: str, url: str, answer: Explanation) -> None:
    decision = answer.decision
    render.line((f"{method} {url}", BOLD))
    style = GOOD if decision.allowed else BAD
    by = str(decision.rule) if decision.rule else decision.code
    place = f"  {decision.place}" if decision.place else ""
    render.line("  ", (decision.verdict.upper(), style), f"  {by}", (place, DIM))
    for text in _consequences(answer):
        render.line(f"  {text}")
    if answer.considered:
        render.line()
        render.line("  considered:")
        render.table([_row(item, decision.rule) for item in answer.considered], indent=4)


def _consequences(answer: Explanation) -> list[str]:
    decision = answer.decision
    if not decision.allowed:
        code = CODES[decision.code]
        lines = [f"the sandbox gets {code.status} {decision.code}: {code.message}"]
        if answer.near:
            lines.append(f"hosts with a similar name: {', '.join(answer.near)}")
        return lines
    lines = []
    if decision.observed:
        lines.append("no rule allows it; it passes because of `mode: observe`, and is recorded")
    for item in answer.injected:
        what = "swaps a placeholder for" if item.is_placeholder else "injects"
        lines.append(f"{what} the secret {item.secret} in {', '.join(item.slots)} (from {item.source})")
    if not answer.injected:
        lines.append("injects nothing")
    if decision.target:
        lines.append(f"forwards {decision.target}")
    lines.extend(f"limited by {limit.place}" for limit in decision.effects.limits)
    return lines


def _row(item: Considered, decided: RuleRef | None) -> list[render.Part | str]:
    fits = "decides" if item.ref == decided else "fits" if item.fits else "no"
    style = (GOOD if item.kind is Verdict.ALLOW else BAD) if item.fits else DIM
    return [item.kind.value, str(item.ref), (fits, style), (item.misses, DIM), (str(item.ref.place), DIM)]


# For programs ---------------------------------------------------------------------------------


def _as_data(answer: Explanation) -> dict[str, object]:
    decision = answer.decision
    return {
        "verdict": decision.verdict,
        "code": decision.code,
        "outcome": outcome(decision),
        "rule": str(decision.rule) if decision.rule else None,
        "place": str(decision.place) if decision.place else None,
        "entry": decision.entry,
        "target": decision.target,
        "observed": decision.observed,
        "profile": answer.profile,
        "inject": [{"secret": i.secret, "slots": list(i.slots), "source": i.source} for i in answer.injected],
        "entries": [{"key": key, "place": str(place)} for key, place in answer.entries],
        "considered": [
            {
                "rule": str(c.ref),
                "kind": c.kind,
                "fits": c.fits,
                "misses": c.misses,
                "place": str(c.ref.place),
            }
            for c in answer.considered
        ],
        "near": list(answer.near),
    }
