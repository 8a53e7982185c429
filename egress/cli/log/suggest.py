"""`egress log suggest`: print the YAML that would allow a denied request, and its risk."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from egress.cli import folder_options, render, rule_options, traffic_options
from egress.cli.log import locations
from egress.cli.log.id_argument import IdCommand
from egress.cli.render import BAD, BOLD, DIM, DOUBT, GOOD
from egress.errors import ContentError, UnreadableError

if TYPE_CHECKING:
    from egress.review import Index, LogEntry
    from egress.review.drafting import Observation, Suggestion
    from egress.review.drafting.preset_offer import PresetOffer

MAX_ID_LENGTH = 1000
_MAX_STARTS = 100
"""Starts and reloads of a run that are looked through for its rules."""


@click.command(cls=IdCommand, short_help="Suggest a rule change for a denied request, with its risk.")
@click.argument("request", metavar="REQUEST-ID")
@locations.of_index
@click.option(
    "--rules", "-r", "files", multiple=True, type=folder_options.FILE, help="Rule file; may be repeated."
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def suggest(
    request: str,
    state_dir: Path | None,
    directory: Path | None,
    place: Path | None,
    files: tuple[Path, ...],
    as_json: bool,
) -> int:
    """Print the smallest rule change that would allow a denied request, and its risk.

    The id is in the denial that the sandbox received; a refused connection has its own. The change was
    applied to a copy of the rules and the request decided again, so it works as shown. Nothing is written.
    The exit status is 1 if there is no suggestion.

    \b
    Examples:
      egress log suggest c-17-3
      egress log suggest c-17-3 --rules config/hosts.yaml
    """
    from egress.policy.rule_files import read_rule_texts
    from egress.review.drafting import suggest_for_line

    line, had = _found(request, state_dir, directory, place) if request else (None, "")
    if line is None:
        raise _unknown(request)
    at_hand = _rules_to_change(files, had)
    # The suggestion is tried on these rules, so errors in them are reported first.
    _, policy = rule_options.policy(at_hand)
    found = suggest_for_line(line, read_rule_texts(at_hand), policy, rule_options.now())
    # A line without a decision, such as a reload, has no request to repeat.
    if found is None:
        raise _unknown(request)
    if not found.is_current:
        _warn_of_other_rules(at_hand, had)
    if as_json:
        render.data({"request": request, "asked": _asked(found.request), **asdict(found.suggestion)})
    else:
        _show(found.request, found.suggestion)
    return int(not found.suggestion.steps)


def _unknown(request: str) -> ContentError:
    return ContentError(
        f"the log has no request {request[:60]!r}", "the denial that the sandbox received contains the id"
    )


def _found(
    request: str, state_dir: Path | None, directory: Path | None, place: Path | None
) -> tuple[LogEntry | None, str]:
    """Return the newest line with this id, and the rule files that decided it, as their proxy named them.

    The index finds the line; without one the log is read. The files are empty if the log does not tell.
    """
    from egress.review.drafting import find, is_decided

    with suppress(UnreadableError), locations.open_index(state_dir, directory, place) as index:
        # Cut, because the id was typed and becomes part of a query.
        line = index.newest(request[:MAX_ID_LENGTH], lambda entry: is_decided(entry, request))
        if line is None and index.state().trouble:
            line = find(locations.folder(state_dir, directory), request)
        return line, _rules_of(line, index) if line else ""
    # An index is a convenience: without one, the log itself is searched.
    return find(locations.folder(state_dir, directory), request), ""


def _rules_of(line: LogEntry, index: Index) -> str:
    from egress.review import Filters

    for event in ("started", "reloaded"):
        found = index.query(Filters(event=event, run=line.text("run")), _MAX_STARTS).entries
        for each in found:
            if each.text("policy") == line.text("policy"):
                return each.text("files")
    return ""


def _rules_to_change(files: tuple[Path, ...], had: str) -> Sequence[Path]:
    """Return the named rules, else those that decided, else those that `egress serve` would use."""
    decided = [Path(name).expanduser() for name in had.split(", ") if name]
    if not files and decided and all(each.exists() for each in decided):
        return decided
    try:
        return traffic_options.rules_at_hand(files)
    except UnreadableError as error:
        if not had:
            raise
        raise UnreadableError(
            error.message, f"name them with --rules: the request was decided by {had}"
        ) from None


def _warn_of_other_rules(at_hand: Sequence[Path], had: str) -> None:
    named = ", ".join(str(each) for each in at_hand)
    decided = f" ({had})" if had else ""
    text = f"{named} is not what decided this request{decided}: the rules changed since, or are others"
    render.line(("note: ", DIM), text, stderr=True)


def _asked(one: Observation) -> str:
    if one.kind != "request":
        return f"connect {one.host}:{one.port}" if one.port else f"look up {one.host}"
    # Default ports are left out, as people write URLs.
    standard = 443 if one.scheme == "https" else 80
    return f"{one.method} {one.scheme}://{one.host}{'' if one.port == standard else f':{one.port}'}{one.path}"


def _show(one: Observation, answer: Suggestion) -> None:
    render.line((_asked(one), BOLD))
    render.line()
    if answer.refusal:
        render.line("  ", ("no suggestion: ", BAD if answer.code else GOOD), answer.refusal)
        return
    for step in answer.steps:
        render.line(("  write in ", GOOD), step.where, ":")
        # As it stands in the file, so that it can be copied.
        for text in step.yaml:
            render.line(text, whole=True)
        render.line()
    for risk in answer.risks:
        render.line(("  risk: ", DOUBT), risk)
    render.line(("  tried: ", DIM), f"with this change, the verdict is {answer.outcome}")
    if answer.preset is not None:
        _show_preset(answer.preset, one.host)


def _show_preset(preset: PresetOffer, host: str) -> None:
    render.line()
    render.line("or, if ", (host, BOLD), " is what this preset is for:")
    render.line()
    render.line("  ", (preset.name, BOLD), f"  {preset.title}")
    render.line()
    render.line(("  write in ", GOOD), preset.where, ":")
    for text in preset.yaml:
        render.line(text, whole=True)
    render.line()
    render.line(
        ("  tried: ", DIM),
        f"with it, this request is allowed; `egress presets {preset.name}` says what else is",
    )
