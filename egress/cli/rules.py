"""`egress rules`: show the rules, draft them from traffic, and replay traffic by them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from egress.cli import atomic_write, folder_options, render, rule_options, traffic_options
from egress.cli.log import locations
from egress.cli.render import BAD, DIM, DOUBT, GOOD, Style, count
from egress.errors import UnreadableError

if TYPE_CHECKING:
    from egress.review.drafting import Replay, RuleDraft, VerdictChange
    from egress.rules.decide.policy import Policy

MAX_SHOWN_CHANGES = 20


@click.group()
def rules() -> None:
    """Show the rules as the proxy sees them, or draft rules from traffic."""


@rules.command()
@click.argument("files", nargs=-1, type=folder_options.FILE, metavar="[FILE]...")
@click.option("--json", "as_json", is_flag=True, help="Print entries and rules as JSON.")
def show(files: tuple[Path, ...], as_json: bool) -> int:
    """Print the rules with all files joined and presets expanded.

    The output is an equivalent rule file. Comments name the origin of each rule.

    \b
    Examples:
      egress rules show
      egress rules show config/hosts.yaml
    """
    from egress.rules.compile.policy_writer import as_data, as_text

    _, policy = rule_options.policy(files)
    if as_json:
        render.data(as_data(policy))
    else:
        render.text(as_text(policy))
    return 0


# Drafting -------------------------------------------------------------------------------------


def _of_log(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options for log and index; `--log` is the former name of `--dir`."""
    return locations.of_index(command, "--log")


@rules.command(short_help="Draft rules that allow the observed traffic.")
@traffic_options.SINCE
@traffic_options.PROFILE
@_of_log
@click.option(
    "--rules", "-r", "files", multiple=True, type=folder_options.FILE, help="Current rules; may be repeated."
)
@click.option(
    "--output", "-o", type=folder_options.FILE, metavar="FILE", help="Output file; printed by default."
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
def draft(
    since: str,
    profile: str | None,
    state_dir: Path | None,
    directory: Path | None,
    place: Path | None,
    files: tuple[Path, ...],
    output: Path | None,
    force: bool,
) -> int:
    """Draft a rule file that allows the observed traffic, with a comment on each line.

    Made from the audit log, best under `mode: observe`. A rule that allows more than was observed says so.
    Sources and bindings of secrets, and denies, come from the current rules: no log holds them. Read the
    draft before use: observed behaviour is not always wanted behaviour.

    \b
    Examples:
      egress rules draft --since 1d
      egress rules draft --since 7d --profile coding -o hosts.draft.yaml
    """
    from egress.review.drafting import draft as drafted

    log = locations.folder(state_dir, directory)
    seen = traffic_options.gather_traffic(log, place or locations.own_index_path(log), since, profile)
    made = drafted(seen, _at_hand(files), rule_options.now())
    if output is None:
        render.text(made.text)
        return 0
    atomic_write.write(output, made.text, replace=force)
    _tell(output, made)
    return 0


def _at_hand(files: tuple[Path, ...]) -> Policy | None:
    """Return the named rules, or the default ones; a draft works without."""
    try:
        return rule_options.policy(traffic_options.rules_at_hand(files))[1]
    # Default rules are optional for a draft; named rules are not.
    except UnreadableError:
        if files:
            raise
        return None


def _tell(output: Path, made: RuleDraft) -> None:
    render.line(("wrote ", GOOD), f"{output}: {count(made.hosts, 'host')}")
    if made.left_out:
        left = count(sum(one.count for one in made.left_out), "request")
        render.line(("left out: ", DOUBT), f"{left}; see the head of the file")
    render.line(("next: ", DIM), f"read it, then `egress rules replay {output}`", whole=True)


# Replaying ------------------------------------------------------------------------------------


@rules.command(short_help="Show what other rules would change.")
@click.argument("files", nargs=-1, required=True, type=folder_options.FILE, metavar="FILE...")
@traffic_options.SINCE
@traffic_options.PROFILE
@_of_log
@click.option("--json", "as_json", is_flag=True, help="Print the changes as JSON.")
def replay(
    files: tuple[Path, ...],
    since: str,
    profile: str | None,
    state_dir: Path | None,
    directory: Path | None,
    place: Path | None,
    as_json: bool,
) -> int:
    """Decide the requests of the audit log again by other rules, and show what would change.

    Nothing is sent. The log has no query, headers or body: requests that depend on them are reported as
    undecidable. The exit status is 1 if a request that passed would be denied.

    \b
    Examples:
      egress rules replay hosts.draft.yaml --since 1d
      egress rules replay config/hosts.yaml --since 2h --json
    """
    from egress.review.drafting import replay as replayed

    _, policy = rule_options.policy(files)
    log = locations.folder(state_dir, directory)
    seen = traffic_options.gather_traffic(log, place or locations.own_index_path(log), since, profile)
    found = replayed(seen, policy, rule_options.now())
    if as_json:
        render.data({"ok": not found.denied, **asdict(found)})
    else:
        _show(found)
    return int(bool(found.denied))


def _show(found: Replay) -> None:
    # The most disruptive changes come first.
    _group("newly denied", found.denied, BAD)
    _group("newly allowed", found.allowed, DOUBT)
    _group("other secrets", found.secrets, DOUBT)
    _group("cannot be told from the log", found.untold, DIM)
    if found.not_compared:
        render.line(f"{found.not_compared} denied or cut for reasons other than the rules, not compared")
    lost = sum(change.count for change in found.denied)
    verdict = (f"{lost} newly denied", BAD) if lost else ("nothing newly denied", GOOD)
    render.line(verdict, f", {found.same} unchanged")


def _group(title: str, changes: list[VerdictChange], style: Style) -> None:
    if not changes:
        return
    render.line((f"{title}: {sum(change.count for change in changes)}", style))
    render.table([_row(change) for change in changes[:MAX_SHOWN_CHANGES]], indent=2)
    if len(changes) > MAX_SHOWN_CHANGES:
        render.line(f"  and {count(len(changes) - MAX_SHOWN_CHANGES, 'group')} more: use --json for all")


def _row(change: VerdictChange) -> list[render.Cell]:
    more = f" and {count(change.paths - 1, 'path')} more" if change.paths > 1 else ""
    request = f"{change.method or 'connect'} {change.host}:{change.port}{change.path}{more}"
    why = change.note or change.rule or change.code
    return [f"{change.count} x", request, why, (f"such as {change.example}", DIM)]
