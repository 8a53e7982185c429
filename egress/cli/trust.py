"""`egress trust`: say that a rule file which lies in a working directory may be used."""

from __future__ import annotations

from pathlib import Path

import click

from egress import environment
from egress.cli import render, rulefiles
from egress.cli.render import DIM, GOOD, count
from egress.errors import ContentError, UsageError
from egress.policy.rule_file_reader import read_text
from egress.policy.state_dir import check_state_dir, make_state_dir
from egress.policy.trust import TrustedFiles
from egress.policy.trust import text_digest as digest_of


@click.command()
@click.argument("files", nargs=-1, type=rulefiles.FILE, metavar="[FILE]...")
@click.option("--list", "only_list", is_flag=True, help="List the files that are trusted.")
@click.option("--forget", is_flag=True, help="Trust these files no longer.")
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
@click.option("--state-dir", type=rulefiles.FILE, help="The folder of the list, if `serve` has its own.")
def trust(
    files: tuple[Path, ...], only_list: bool, forget: bool, as_json: bool, state_dir: Path | None
) -> int:
    """Say that you have read a rule file, so that `egress serve` may use it.

    Only a file that is merely found in the working directory needs it: rules can name programs to run
    for a secret. What counts is the text; after a change the file has to be trusted again.

    \b
    Examples:
      egress trust --list
      egress trust config/hosts.yaml
    """
    folder = state_dir or environment.state_dir(environment.read_environment())
    known = TrustedFiles(folder)
    check_state_dir(folder)
    if only_list or as_json:
        if files or forget:
            raise UsageError("--list takes no files", "name files without it")
        _show(known, as_json=as_json)
        return 0
    if not files:
        raise UsageError("no file is named", "name the file you have read, such as config/hosts.yaml")
    make_state_dir(folder)
    for file in files:
        _forget(known, file) if forget else _add(known, file)
    return 0


def _add(known: TrustedFiles, file: Path) -> None:
    read = digest_of(read_text(file))
    loaded = rulefiles.read([file])[1]
    if loaded.policy is None:
        render.findings(loaded.findings, stderr=True)
        raise ContentError(f"{file} is not sound, and was not trusted", "put right what is listed above")
    digest = known.add(file)
    if digest != read:
        known.forget(file)
        raise ContentError(f"{file} changed while it was looked at, and was not trusted", "look at it again")
    policy = loaded.policy
    commands = sum(spec.scheme == "command" for spec in policy.secrets.values())
    what = f"{count(len(policy.entries), 'host')}, {count(len(policy.secrets), 'secret')}"
    runs = f", {count(commands, 'program')} to run" if commands else ""
    render.line(("trusted ", GOOD), f"{file}: {what}{runs} ", (digest[:16], DIM))


def _forget(known: TrustedFiles, file: Path) -> None:
    if known.forget(file):
        render.line(f"{file} is trusted no longer; a proxy that runs keeps its rules until it reloads")
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
