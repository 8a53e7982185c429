"""`egress log verify`: check that the log, or a bundle of evidence, is unchanged."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from egress.cli import folder_options, render
from egress.cli.log import locations
from egress.cli.render import BAD, DIM, GOOD, count
from egress.errors import UnreadableError, UsageError

if TYPE_CHECKING:
    from egress.audit import Verification
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

    Reads every file of the log and changes nothing; the proxy may run meanwhile. By default it uses the
    folder and key of `egress serve`. Keep the number and MAC that it prints in another place: a complete
    rollback of the log still verifies.

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
    from egress.audit.verify import verify as check

    folder, file = locations.folder_and_key(state_dir, directory, None if key is None else Path(key))
    known = locations.read_key(file, folder)
    try:
        found = check(folder, known)
    except UnreadableError as error:
        # The usual cause is the key of another log, so the hint names the key.
        hint = f"{error.hint}; the key taken was {file}{locations.beside(folder, file)}"
        raise UnreadableError(error.message, hint) from None
    if as_json:
        render.data(_as_data(folder, found))
    else:
        _show(folder, found)
    return int(not found.is_sound)


def _show(folder: Path, found: Verification) -> None:
    for fault in found.faults:
        render.line((f"{fault}", BAD))
        render.line(("  hint: ", DIM), fault.hint)
    what = f"{count(found.lines, 'line')} in {count(found.files, 'file')}"
    # No fault by itself: a line can be announced before it is written.
    if found.unfinished:
        more = count(found.unfinished, "line")
        render.line(f"{more} announced and not there: the proxy was killed, or is writing just now")
    if found.pruning is not None:
        render.line(("begins: ", DIM), _begins(found.pruning))
    if found.is_sound:
        render.line(("ok ", GOOD), f"{folder}: {what}")
        render.line(("newest: ", DIM), f"{found.newest} {found.mac}")
    else:
        render.line((count(len(found.faults), "fault"), BAD), f" in {folder}: {what}")


def _as_data(folder: Path, found: Verification) -> dict[str, object]:
    faults = [{**asdict(fault), "hint": fault.hint} for fault in found.faults]
    data = {"ok": found.is_sound, "directory": str(folder), **asdict(found), "faults": faults}
    # Always empty here: only `egress log export` has the extents kept.
    del data["seen"]
    return {**data, "pruning": None if found.pruning is None else _pruning(found.pruning)}


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
    if log.get("sound") is True:
        render.line(("the log was sound ", GOOD), f"up to number {log.get('newest')}, {log.get('mac')}")
    else:
        render.line(("the log was not sound when this was made; its faults are in the statement", BAD))
    pruned = log.get("pruned")
    if isinstance(pruned, dict):
        who = f"{pruned.get('by')} at {pruned.get('at')}"
        render.line(f"it began with line {pruned.get('seq')}: what was before it had been deleted by {who}")
    # Anyone can sign a bundle: only a fingerprint from another channel proves the author.
    compare = "" if is_named else ": compare it with the one that you were told"
    render.line(("signed by: ", DIM), f"{found.fingerprint}{compare}")
