"""`egress trust`: allow the use of a rule file from a working directory."""

from __future__ import annotations

from pathlib import Path

import click

from egress import environment
from egress.cli import folder_options, render, rule_options
from egress.cli.render import DIM, GOOD, count
from egress.errors import ContentError, UsageError
from egress.policy.rule_file_reader import read_text
from egress.policy.state_dir_ownership import check_state_dir, make_state_dir
from egress.policy.trust import TrustedFiles
from egress.policy.trust import text_digest as digest_of


@click.command()
@click.argument("files", nargs=-1, type=folder_options.FILE, metavar="[FILE]...")
@click.option("--list", "only_list", is_flag=True, help="List the trusted files.")
@click.option("--forget", is_flag=True, help="Stop trusting these files.")
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
@folder_options.state_dir
def trust(
    files: tuple[Path, ...], only_list: bool, forget: bool, as_json: bool, state_dir: Path | None
) -> int:
    """Trust a rule file that you have read, so that `egress serve` may use it.

    Only needed for a file found in the working directory: rules can name programs that run for a secret.
    Trust covers the exact text; after a change, trust the file again.

    \b
    Examples:
      egress trust --list
      egress trust config/hosts.yaml
    """
    folder = state_dir or environment.state_dir(environment.read_environment())
    known = TrustedFiles(folder)
    check_state_dir(folder)
    # Listing never creates the state folder.
    if only_list or as_json:
        if files or forget:
            raise UsageError("--list takes no files", "remove --list or the files")
        _show(known, as_json=as_json)
        return 0
    if not files:
        raise UsageError("no file is named", "name the file you have read, such as config/hosts.yaml")
    make_state_dir(folder)
    for file in files:
        _forget(known, file) if forget else _add(known, file)
    return 0


def _add(known: TrustedFiles, file: Path) -> None:
    # Taken before the check, to notice a file that is swapped while it is read.
    read = digest_of(read_text(file))
    loaded = rule_options.read([file])[1]
    if loaded.policy is None:
        render.findings(loaded.findings, stderr=True)
        raise ContentError(f"{file} has errors and was not trusted", "fix the errors above")
    digest = known.add(file)
    if digest != read:
        # Undone at once: the text that is trusted now was never checked.
        known.forget(file)
        raise ContentError(f"{file} changed while it was checked, and was not trusted", "read it again")
    policy = loaded.policy
    # Programs are counted in the summary: they are the reason why trust is asked for.
    commands = sum(spec.scheme == "command" for spec in policy.secrets.values())
    summary = f"{count(len(policy.entries), 'host')}, {count(len(policy.secrets), 'secret')}"
    runs = f", {count(commands, 'program')} to run" if commands else ""
    render.line(("trusted ", GOOD), f"{file}: {summary}{runs} ", (digest[:16], DIM))


def _forget(known: TrustedFiles, file: Path) -> None:
    if known.forget(file):
        render.line(f"{file} is no longer trusted; a running proxy keeps its rules until it reloads")
    else:
        render.line(f"{file} was not trusted")


def _show(known: TrustedFiles, *, as_json: bool) -> None:
    files = known.all()
    if as_json:
        render.data([{"file": file, "sha256": digest} for file, digest in files.items()])
    elif files:
        render.table([(file, (digest[:16], DIM)) for file, digest in files.items()])
    else:
        render.line("no file is trusted")
