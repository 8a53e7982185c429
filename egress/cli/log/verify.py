"""`egress log verify`: check that the log, or a bundle of evidence, is unchanged."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from egress.cli import folder_options, progress, render
from egress.cli.log import locations
from egress.cli.render import BAD, DIM, GOOD, count
from egress.errors import UnreadableError, UsageError

if TYPE_CHECKING:
    from egress.audit import LogVerification, VerifiedChain
    from egress.audit.files import Pruning
    from egress.review.evidence_check import CheckedEvidence


@click.command(short_help="Check that no line was changed, added or removed.")
@click.argument("bundle", type=folder_options.FILE, required=False)
@locations.of_log
@click.option("--key", metavar="FILE", help="The key of the log; for a bundle, the expected fingerprint.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def verify(
    bundle: Path | None, state_dir: Path | None, directory: Path | None, key: str | None, as_json: bool
) -> int:
    """Check that no line of the audit log was changed, added or removed.

    Reads every file of every chain of the log and changes nothing; proxies may run meanwhile. By default it
    uses the folder and key of `egress serve`. Keep the numbers and MACs that it prints in another place: a
    complete rollback of the log still verifies.

    With BUNDLE, it checks a file made by `egress log export`, and needs nothing else. Compare the printed
    fingerprint with the one you were told, or pass that with --key.

    \b
    Examples:
      egress log verify
      egress log verify --state-dir /var/lib/egress
      egress log verify --dir /var/log/egress --key /etc/egress/audit.key
      egress log verify evidence.zip
    """
    # A bundle is checked first and alone: its recipient has neither the log nor its key.
    if bundle is not None:
        return _bundle(bundle, key or "", as_json=as_json)
    from egress.audit import verify_log

    folder, file = locations.folder_and_key(state_dir, directory, None if key is None else Path(key))
    known = locations.read_key(file, folder)
    try:
        with progress.step("verifying the log"):
            found = verify_log(folder, known)
    except UnreadableError as error:
        # The usual cause is the key of another log, so the hint names the key.
        hint = f"{error.hint}; the key taken was {file}{locations.beside(folder, file)}"
        raise UnreadableError(error.message, hint) from None
    if as_json:
        render.data(_as_data(folder, found))
    else:
        _show(folder, found)
    return int(not found.is_sound)


def _show(folder: Path, found: LogVerification) -> None:
    for fault in found.faults:
        render.line((f"{fault}", BAD))
        render.line(("  hint: ", DIM), fault.hint)
    what = f"{count(found.lines, 'line')} in {count(found.files, 'file')}"
    if len(found.chains) > 1:
        what += f" of {count(len(found.chains), 'chain')}"
    # No fault by itself: a line can be announced before it is written.
    if found.unfinished:
        more = count(found.unfinished, "line")
        render.line(f"{more} announced and not there: the proxy was killed, or is writing just now")
    for place, pruning in found.prunings:
        render.line(("begins: ", DIM), _at(place), _begins(pruning))
    if not found.is_sound:
        render.line((count(len(found.faults), "fault"), BAD), f" in {folder}: {what}")
        return
    render.line(("ok ", GOOD), f"{folder}: {what}")
    for chain in found.chains:
        render.line(("newest: ", DIM), _at(chain.place), f"{chain.found.newest} {chain.found.mac}")


def _at(place: str) -> str:
    """Return the place of a chain as a prefix; nothing for the first chain."""
    from egress.audit.chain_folders import FIRST_PLACE

    return "" if place == FIRST_PLACE else f"{place}: "


def _as_data(folder: Path, found: LogVerification) -> dict[str, object]:
    faults = [{**asdict(fault), "hint": fault.hint} for fault in found.faults]
    chains = [_chain(chain) for chain in found.chains]
    # The first chain stands here too: it is the only one where proxies ran one after the other.
    first = chains[0] if chains else {"newest": 0, "mac": "", "pruning": None}
    return {
        "ok": found.is_sound,
        "directory": str(folder),
        "lines": found.lines,
        "files": found.files,
        "faults": faults,
        "newest": first["newest"],
        "mac": first["mac"],
        "unfinished": found.unfinished,
        "pruning": first["pruning"],
        "chains": chains,
    }


def _chain(chain: VerifiedChain) -> dict[str, object]:
    found = chain.found
    return {
        "place": chain.place,
        "ok": found.is_sound,
        "lines": found.lines,
        "files": found.files,
        "newest": found.newest,
        "mac": found.mac,
        "unfinished": found.unfinished,
        "pruning": None if found.pruning is None else _pruning(found.pruning),
    }


def _begins(value: Pruning) -> str:
    from egress.audit.clock import format_timestamp

    before = f"{count(value.files, 'file')} before it, {value.size} bytes, deleted by {value.by}"
    forced = ", with --force" if value.is_forced else ""
    return f"with line {value.seq}; {before} at {format_timestamp(value.at)}{forced}"


def _pruning(value: Pruning) -> dict[str, object]:
    """Return a pruning with its time in readable form, and a sentence about it."""
    from egress.audit.clock import format_timestamp

    return {**asdict(value), "at": format_timestamp(value.at), "told": _begins(value)}


# A bundle ---------------------------------------------------------------------------------------


def _bundle(path: Path, key: str, *, as_json: bool) -> int:
    from egress.review import evidence_check, evidence_key

    # A mistyped fingerprint must not count as "no fingerprint given".
    if key and not evidence_key.is_fingerprint(key):
        raise UsageError(
            "this is no fingerprint", "it is `sha256:` and 64 digits, as `egress log export` prints"
        )
    found = evidence_check.check(path, key)
    if as_json:
        render.data({"ok": found.is_sound, "bundle": str(path), **asdict(found)})
    else:
        _show_bundle(path, found, is_named=bool(key))
    return int(not found.is_sound)


def _show_bundle(path: Path, found: CheckedEvidence, *, is_named: bool) -> None:
    for fault in found.faults:
        render.line((fault, BAD))
    if not found.is_sound:
        render.line((count(len(found.faults), "fault"), BAD), f" in {path}")
        return
    log, taken = found.part("log"), found.part("taken")
    made = found.statement.get("made")
    whole = f"{taken.get('lines')} of the {log.get('leaves')} lines of the log, as it was at {made}"
    render.line(("ok ", GOOD), f"{path}: {whole}")
    chains = log.get("chains")
    # A bundle of a version before 0.3 has the one chain in the place of all.
    ends = chains if isinstance(chains, dict) else {".": log}
    if log.get("sound") is not True:
        render.line(("the log was not sound when this was made; its faults are in the statement", BAD))
    for place, end in ends.items():
        if isinstance(end, dict):
            _show_end(_at(str(place)), end, is_sound=log.get("sound") is True)
    # Anyone can sign a bundle: only a fingerprint from another channel proves the author.
    compare = "" if is_named else ": compare it with the one that you were told"
    render.line(("signed by: ", DIM), f"{found.fingerprint}{compare}")


def _show_end(place: str, end: dict[str, object], *, is_sound: bool) -> None:
    """Tell how far a chain of the log went, and where it began."""
    if is_sound:
        newest = f"{place}up to number {end.get('newest')}, {end.get('mac')}"
        render.line(("the log was sound ", GOOD), newest)
    pruned = end.get("pruned")
    if isinstance(pruned, dict):
        who = f"{pruned.get('by')} at {pruned.get('at')}"
        began = f"{place}it began with line {pruned.get('seq')}: what was before it had been deleted by {who}"
        render.line(began)
