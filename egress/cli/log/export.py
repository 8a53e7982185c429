"""`egress log export`: make a bundle of evidence for another person."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from egress.cli import folder_options, render, rule_options
from egress.cli.log import filter_options, locations
from egress.cli.render import DIM, DOUBT, GOOD, count

if TYPE_CHECKING:
    from egress.review.evidence_bundle import BundledRuleFile


@click.command(short_help="Export a signed bundle of evidence.")
@filter_options.options
@click.option(
    "--output",
    "-o",
    "target",
    type=folder_options.FILE,
    metavar="FILE",
    default="evidence.zip",
    show_default=True,
    help="The bundle.",
)
@click.option(
    "--rules",
    "-r",
    "files",
    multiple=True,
    type=folder_options.FILE,
    help="A rule file to include; may be repeated.",
)
@click.option("--key", type=folder_options.FILE, metavar="FILE", help="The key of the log.")
@click.option(
    "--signing-key",
    type=folder_options.FILE,
    metavar="FILE",
    help="An Ed25519 key in PEM, created if missing. [`evidence.key` beside the key of the log]",
)
@locations.of_log
def export(
    target: Path,
    files: tuple[Path, ...],
    key: Path | None,
    signing_key: Path | None,
    state_dir: Path | None,
    directory: Path | None,
    **options: str,
) -> int:
    """Export lines of the audit log in a signed bundle, with proof that they are part of the log.

    Verifies the log first, and records the result in the bundle. Later lines are not included; if the log
    changes meanwhile, no bundle is written. The recipient checks the bundle with `egress log verify BUNDLE`,
    without any key. Send the fingerprint over another channel.

    \b
    Examples:
      egress log export --sandbox agent-1 --since 1d
    """
    from egress.audit import verify_log
    from egress.review import evidence_bundle, evidence_key

    wanted = filter_options.filters(**options)
    folder, file = locations.folder_and_key(state_dir, directory, key)
    known = locations.read_key(file, folder)
    # Rules are read before the log is verified: a wrong name should not cost a long run.
    kept = _rules(files)
    private = evidence_key.read_or_create(signing_key or file.with_name(evidence_key.NAME))
    # Verified before signing: a signature on an unchecked log would prove nothing.
    verified = verify_log(folder, known, keeps_seen=True)
    policy = rule_options.policy(files)[1].digest if files else ""
    order = evidence_bundle.BundleRequest(wanted, verified, kept, policy, rule_options.now() * 1_000_000)
    made = evidence_bundle.make(target, order, private)
    # Still exported: a damaged log is evidence, too, and the bundle admits the damage.
    if not verified.is_sound:
        render.line(
            ("note: ", DOUBT),
            "the log failed verification, and the bundle says so: `egress log verify`",
            stderr=True,
        )
    render.line(("ok ", GOOD), f"{target}: {count(made.lines, 'line')} of {made.leaves}")
    render.line(("signed by: ", DIM), made.fingerprint)
    return 0


def _rules(files: tuple[Path, ...]) -> tuple[BundledRuleFile, ...]:
    """Return the rule files unchanged, under distinct names."""
    from egress.policy.rule_file_reader import read_text
    from egress.review.evidence_bundle import BundledRuleFile

    return tuple(
        # Numbered, since files of two folders may share their name.
        BundledRuleFile(f"{number}-{path.name}", read_text(path).encode("utf-8"))
        for number, path in enumerate(files, 1)
    )
