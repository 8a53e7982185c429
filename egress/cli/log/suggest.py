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
    from egress.review import LogEntry
    from egress.review.drafting import Observation, Suggestion
    from egress.review.drafting.preset_offer import PresetOffer

MAX_LINES = 1000
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
    from egress.policy.bundled_presets import preset_texts
    from egress.policy.rule_file_reader import printable_path, read_text
    from egress.policy.rule_files import find_rule_files
    from egress.review.drafting import observe
    from egress.review.drafting import suggest as suggested
    from egress.rules.compile.load import RuleText

    line = _found(request, state_dir, directory, place) if request else None
    # A line without a decision, such as a reload, has no request to repeat.
    one = observe(line.fields) if line else None
    if line is None or one is None:
        raise ContentError(
            f"the log has no request {request[:60]!r}", "the denial that the sandbox received contains the id"
        )
    had = _rules_of(line, state_dir, directory, place)
    at_hand = _rules_to_change(files, had)
    # The suggestion is tried on these rules, so errors in them are reported first.
    _, policy = rule_options.policy(at_hand)
    if policy.digest != line.text("policy"):
        _warn_of_other_rules(at_hand, had)
    sources = [RuleText(printable_path(path), read_text(path)) for path in find_rule_files(at_hand, Path())]
    answer = suggested(one, line.text("address"), sources, preset_texts(), rule_options.now())
    if as_json:
        render.data({"request": request, "asked": _asked(one), **asdict(answer)})
    else:
        _show(one, answer)
    return int(not answer.steps)


def _found(
    request: str, state_dir: Path | None, directory: Path | None, place: Path | None
) -> LogEntry | None:
    """Return the newest line with this id: by the index, or by reading the log if there is none."""
    from egress.review.drafting import find, is_decided

    try:
        with locations.open_index(state_dir, directory, place) as index:
            # Cut, because the id was typed and becomes part of a query.
            line = index.newest(request[:MAX_LINES], lambda entry: is_decided(entry, request))
            if line is not None or not index.state().trouble:
                return line
    except UnreadableError:
        # An index is a convenience: without one, the log itself is searched.
        pass
    return find(locations.folder(state_dir, directory), request)


def _rules_of(line: LogEntry, state_dir: Path | None, directory: Path | None, place: Path | None) -> str:
    """Return the rule files that decided, as their proxy named them; empty if the log does not tell."""
    from egress.review import Filters

    with suppress(UnreadableError), locations.open_index(state_dir, directory, place) as index:
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
