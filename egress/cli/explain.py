"""`egress explain`: show what would happen to a request, and which line decides it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from egress.cli import folder_options, render, rule_options
from egress.cli.denial_fix import DenialFix, find_fix
from egress.cli.handler_options import of_handlers, with_handlers
from egress.cli.parameter_options import read_parameters
from egress.cli.render import BAD, BOLD, DIM, GOOD, Cell
from egress.cli.rules_with_grants import with_grants
from egress.errors import CODES, UsageError
from egress.inspect.inspector import Facts, Unreadable
from egress.rules.compile.asked_body import graphql_body, with_json_type
from egress.rules.compile.asked_git import ASKED_GIT_HINT, AskedGit, asked_git
from egress.rules.compile.asked_llm import asked_llm
from egress.rules.compile.asked_mcp import mcp_body
from egress.rules.compile.asked_request import asked_head
from egress.rules.compile.policy_writer import limit_fields
from egress.rules.compile.rule_tests import describe_decision
from egress.rules.decide.explain import ConsideredRule, Explanation
from egress.rules.decide.explain import explain as explained
from egress.rules.decide.outbound import Outbound
from egress.rules.decide.policy import Policy
from egress.rules.language import quantities
from egress.rules.language.report import MeaningError
from egress.types import GrantRef, Head, Identity, Verdict

if TYPE_CHECKING:
    from egress.handlers.caller import HandlerCaller
    from egress.handlers.trial import HandlerTrial


class RequestOptions(TypedDict):
    """Options about the request and who sends it, besides method and URL."""

    headers: tuple[str, ...]
    profile: str | None
    params: tuple[str, ...]
    sandbox: str | None
    runtime_dir: Path | None
    at: str | None
    websocket: bool
    body: str | None
    graphql: str | None
    mcp: str | None
    git: str | None
    handlers: Path | None
    run: bool
    llm: str | None


@click.command()
@click.argument("method")
@click.argument("url")
@click.argument("files", nargs=-1, type=folder_options.FILE, metavar="[FILE]...")
@click.option(
    "--rules",
    "-r",
    "named",
    multiple=True,
    type=folder_options.FILE,
    help="Rule file, the same as FILE; may be repeated.",
)
@click.option(
    "--header",
    "-H",
    "headers",
    multiple=True,
    metavar="'NAME: VALUE'",
    help="Header of the request; may be repeated.",
)
@click.option("--profile", "-p", help="Profile of the sandbox.")
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE",
    help="Parameter of the sandbox; may be repeated.",
)
@click.option("--sandbox", metavar="NAME", help="A running sandbox, with its profile and grants.")
@folder_options.of_running
@click.option("--at", metavar="MOMENT", help="Time of the request: a day or RFC 3339 moment. [now]")
@click.option("--websocket", is_flag=True, help="The request opens a WebSocket.")
@click.option("--body", metavar="TEXT", help="Body of the request, where rules ask what it says.")
@click.option("--graphql", metavar="DOCUMENT", help="GraphQL document, sent as the body of the request.")
@click.option("--mcp", metavar="MESSAGE", help="MCP message, such as 'call NAME {...}' or 'tools/list'.")
@click.option(
    "--git",
    metavar="REQUEST",
    help="Fetch or push below the URL, such as 'fetch acme/app' or 'push acme/app refs/heads/x'.",
)
@of_handlers
@click.option("--run", is_flag=True, help="Ask the handler, where one is called. Needs --handlers.")
@click.option("--llm", metavar="CALL", help="Call of a language model, such as 'MODEL max=N'.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def explain(
    method: str,
    url: str,
    files: tuple[Path, ...],
    named: tuple[Path, ...],
    as_json: bool,
    **given: Unpack[RequestOptions],
) -> int:
    """Show what would happen to a request, and which line decides it.

    Also shows the other rules considered, and for a denial how to allow it. Without FILE, reads
    config/hosts.yaml or else hosts.yaml. No secret is resolved and nothing is sent. With --sandbox, its proxy
    is asked for what is granted to it for now. A handler is named, and asked with --run. The exit status is
    0 for allowed, 1 for denied.

    \b
    Examples:
      egress explain GET https://api.github.com/user
      egress explain POST https://api.github.com/gists config/hosts.yaml
      egress explain POST https://github.com --git 'push acme/app refs/heads/main'
    """
    # The command line is checked before any file is read: exit status 2 belongs to it alone.
    bodies = [name for name in ("graphql", "mcp", "llm", "git", "body") if given[name] is not None]
    if len(bodies) > 1:
        raise click.UsageError(f"--{bodies[0]} is the body already: leave --{bodies[1]} out.")
    body = _body(given, url)
    if body is None and method in ("GET", "HEAD"):
        # Such a request has no body, and rules that ask for one decide on its head.
        body = b""
    headers = _headers(given["headers"])
    if any(given[name] is not None for name in ("graphql", "mcp", "llm")):
        headers = list(with_json_type(tuple((name.lower(), value) for name, value in headers)))
    if given["git"] is not None:
        asked = _git(method, given["git"])
        url, body = url.rstrip("/") + asked.target, asked.body
        headers = [*headers, *asked.headers]
    head = asked_head(method, url, headers, websocket=given["websocket"])
    at = given["at"]
    moment = rule_options.now() if at is None else _moment(at)
    _check_options(given)
    parameters = read_parameters(given["params"])
    _, policy = rule_options.policy((*named, *files))
    identity = Identity("explain", given["profile"], parameters)
    if given["sandbox"] is not None:
        policy, identity = with_grants(policy, given["sandbox"], given["runtime_dir"])
    answer = explained(policy, identity, head, moment, body=body)
    called = _called(policy, identity, answer, given["handlers"])
    trial = None
    if called and given["run"]:
        trial = _tried(given["handlers"], policy, identity, head, moment, body or b"")
    advice = DenialFix("") if answer.decision.allowed else find_fix(policy, head, answer)
    if as_json:
        render.data({**_as_data(answer, advice), **_handler_data(called, trial)})
    else:
        _show(method, url, answer, advice, _handler_rows(called, trial))
    return 0 if answer.decision.allowed and (trial is None or not trial.code) else 1


def _check_options(given: RequestOptions) -> None:
    """Refuse options that need, or exclude, each other."""
    if given["sandbox"] is not None and given["profile"] is not None:
        raise click.UsageError("--sandbox has a profile already: leave --profile out.")
    if given["run"] and given["handlers"] is None:
        raise click.UsageError("--run needs the handlers: name their file with --handlers.")
    if given["sandbox"] is not None and given["params"]:
        raise click.UsageError("--sandbox has its parameters already: leave --param out.")


def _tried(
    handlers: Path | None, policy: Policy, identity: Identity, head: Head, now: int, body: bytes
) -> HandlerTrial | None:
    """Ask the handler of the request."""
    from egress.handlers.trial import try_handler

    if handlers is None:
        return None
    return with_handlers(handlers, lambda caller: try_handler(policy, identity, head, now, body, caller))


def _called(policy: Policy, identity: Identity, answer: Explanation, handlers: Path | None) -> str:
    """Return the name of the handler that would be asked; empty for none."""
    if not answer.decision.allowed:
        return ""
    outbound = policy.outbound
    if handlers is not None:
        # The file may have handlers for hosts on which the rules name none.
        outbound = with_handlers(handlers, _outbound)
    use = outbound.handler_for(identity, answer.host, answer.decision.effects)
    return "" if use is None else use.name


async def _outbound(caller: HandlerCaller) -> Outbound:
    return caller.outbound


def _handler_rows(called: str, trial: HandlerTrial | None) -> list[list[Cell]]:
    if not called:
        return []
    return [["handler", called, ("would be called" if trial is None else trial.text, DIM)]]


def _handler_data(called: str, trial: HandlerTrial | None) -> dict[str, object]:
    said = None if trial is None else {"says": trial.text, "code": trial.code, "status": trial.status}
    return {"handler": called, "handler_run": said}


def _body(given: RequestOptions, url: str) -> bytes | None:
    if given["graphql"] is not None:
        return graphql_body(given["graphql"])
    for name, text, body in (
        ("mcp", given["mcp"], mcp_body),
        ("llm", given["llm"], partial(asked_llm, target=url)),
    ):
        if text is not None:
            try:
                return body(text)
            except MeaningError as error:
                raise UsageError(f"--{name}: {error.message}", error.hint) from None
    return None if given["body"] is None else given["body"].encode("utf-8", "surrogateescape")


def _git(method: str, text: str) -> AskedGit:
    if method != "POST":
        raise click.UsageError("--git asks about a POST: write POST as the method.")
    try:
        asked = asked_git(text)
    except MeaningError as error:
        raise UsageError(f"--git: {error.message}", error.hint) from None
    if not asked.target.startswith("/"):
        raise UsageError("--git: the repository stands below the URL", ASKED_GIT_HINT)
    return asked


def _moment(text: str) -> int:
    try:
        return quantities.parse_moment(text)
    except MeaningError as error:
        raise UsageError(f"--at: {error.message}", error.hint) from None


def _headers(texts: tuple[str, ...]) -> list[tuple[str, str]]:
    pairs = [text.partition(":") for text in texts]
    if not all(colon for _, colon, _ in pairs):
        raise UsageError("--header needs NAME: VALUE", "for example --header 'accept: application/json'")
    return [(name, value) for name, _, value in pairs]


# For people -----------------------------------------------------------------------------------


def _show(method: str, url: str, answer: Explanation, advice: DenialFix, handler: list[list[Cell]]) -> None:
    decision = answer.decision
    render.line((f"{method} {url}", BOLD))
    render.line()
    render.line("  ", (decision.verdict.upper(), GOOD if decision.allowed else BAD), f"  {_headline(answer)}")
    render.line()
    render.table([*_facts(answer), *handler], indent=2)
    # The deciding rule is in the table of facts already.
    others = [item for item in answer.considered if item.ref != decision.rule]
    if others:
        render.line()
        render.line("  also considered" if decision.rule else "  considered")
        render.table([_row(item, answer) for item in others], indent=4)
    if advice.sentence:
        render.line()
        render.line(("hint: ", DIM), advice.sentence)
        for text in advice.yaml:
            render.line(f"    {text}")


def _headline(answer: Explanation) -> str:
    decision = answer.decision
    # Allowed without a rule, so there is no rule to name.
    if decision.observed:
        return "no rule allows it; `mode: observe` lets it pass and records it"
    if decision.allowed:
        return f"{decision.rule}"
    message = CODES[decision.code].message.removesuffix(".")
    return answer.reason or message[:1].lower() + message[1:]


def _facts(answer: Explanation) -> Iterator[list[Cell]]:
    decision = answer.decision
    if not decision.allowed:
        yield ["code", f"{decision.code}, status {CODES[decision.code].status}", ""]
    if answer.profile is not None:
        yield ["profile", answer.profile, ""]
    if answer.entry is not None:
        yield ["entry", answer.entry.key, (str(answer.entry.place), DIM)]
        for other in answer.entries[1:]:
            yield ["passed over", other.key, ("less specific; only its denies apply", DIM)]
        if not answer.entry.intercept:
            yield ["unread", "`intercept: never`: only the host is decided on", ""]
    if decision.rule is not None:
        yield ["rule", decision.rule.id, (str(decision.rule.place), DIM)]
        if decision.rule.reason:
            yield ["reason", decision.rule.reason, ""]
        if isinstance(decision.rule, GrantRef):
            yield ["granted", f"by the delegation {decision.rule.delegation}", ""]
    yield from _body_facts(answer)
    if decision.allowed:
        yield from _consequences(answer)


def _body_facts(answer: Explanation) -> Iterator[list[Cell]]:
    if isinstance(answer.found, Unreadable):
        yield ["body", answer.found.detail, ""]
    elif answer.found is not None:
        for name, value in answer.found.log.items():
            yield ["body", f"{name}: {value}", ""]
        if answer.decision.item:
            yield ["body", f"{answer.decision.item} decides", ""]


def _consequences(answer: Explanation) -> Iterator[list[Cell]]:
    decision = answer.decision
    for item in answer.injected:
        what = "swaps" if item.is_placeholder else "injects"
        yield [what, f"{item.secret} into {', '.join(item.slots)}", (f"from {item.source}", DIM)]
    # Said outright: a missing line could also mean a missing feature.
    if not answer.injected:
        yield ["injects", "nothing", ""]
    if decision.lifted is not None:
        yield ["lifted", f"{decision.lifted.id} would deny it", (str(decision.lifted.place), DIM)]
    if decision.effects.strips:
        yield ["strips", ", ".join(map(str, decision.effects.strips)), ("if the sandbox sends it", DIM)]
    for name, value in decision.effects.set_headers:
        yield ["sets", f"{name}: {value}", ("whatever the sandbox sends", DIM)]
    if decision.target:
        yield ["forwards", decision.target, ""]
    for limit in decision.effects.limits:
        bounds_there = ", ".join(f"{name} {value}" for name, value in limit_fields(limit).items())
        yield ["limits", bounds_there, (str(limit.place), DIM)]


def _row(item: ConsideredRule, answer: Explanation) -> list[Cell]:
    style = (GOOD if item.kind is Verdict.ALLOW else BAD) if item.fits else DIM
    name = item.ref.id if answer.entry and item.ref.key == answer.entry.key else str(item.ref)
    fits = "fits too" if answer.decision.rule else "would fit"
    # The entry shows where the preset is used; a rule shows its line in the preset.
    place = item.ref.place.via or str(item.ref.place)
    return [item.kind.value, name, (item.misses or fits, style), (place, DIM)]


# For programs ---------------------------------------------------------------------------------


def _as_data(answer: Explanation, advice: DenialFix) -> dict[str, object]:
    decision = answer.decision
    # Names are stable for programs; texts may change between versions.
    return {
        # The decision first, since many scripts read no further; the reasoning and the advice follow.
        "verdict": decision.verdict,
        "code": decision.code,
        "outcome": describe_decision(decision),
        "rule": str(decision.rule) if decision.rule else None,
        "place": str(decision.place) if decision.place else None,
        "entry": decision.entry,
        "target": decision.target,
        "observed": decision.observed,
        "profile": answer.profile,
        "inject": [{"secret": i.secret, "slots": list(i.slots), "source": i.source} for i in answer.injected],
        "lifted": str(decision.lifted) if decision.lifted else None,
        "delegation": decision.rule.delegation if isinstance(decision.rule, GrantRef) else None,
        "strip": [str(slot) for slot in decision.effects.strips],
        "set_headers": dict(decision.effects.set_headers),
        "entries": [{"key": entry.key, "place": str(entry.place)} for entry in answer.entries],
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
        "facts": dict(answer.found.log) if isinstance(answer.found, Facts) else {},
        "item": decision.item,
        "near": list(answer.near),
        "reason": answer.reason or (decision.rule.reason if decision.rule else ""),
        "hint": advice.sentence,
        "hint_yaml": list(advice.yaml),
    }
