"""`egress init`: write a first rule file from the setup of this machine. Writes no value of any secret."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from egress import environment
from egress.cli import (
    atomic_write,
    discover,
    folder_options,
    init_template,
    package_registries,
    render,
    rule_options,
)
from egress.cli.render import BOLD, DIM, GOOD
from egress.errors import ContentError, UnreadableError
from egress.policy.bundled_presets import preset_texts
from egress.rules.compile.load import RuleText, load
from egress.rules.compile.rule_tests import run_rule_tests
from egress.rules.language.schema import schema_text

SCHEMA = "hosts.schema.json"


@click.command()
@click.option(
    "--output",
    "-o",
    type=folder_options.FILE,
    help="Output file. [config/hosts.yaml if config/ exists, else hosts.yaml]",
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("--print", "only_print", is_flag=True, help="Print the rules instead of writing a file.")
@click.option("--offline", is_flag=True, help="Ask package managers only what needs no network.")
def init(output: Path | None, force: bool, only_print: bool, offline: bool) -> int:
    """Write a commented hosts.yaml for this machine.

    Looks at names of environment variables, keys of .env, git remotes, and the configuration of gh, pip and
    npm. Asks pip, npm, cargo, go and apt which registries they use; some of them ask their registry. Values
    of secrets are neither written nor shown.

    \b
    Examples:
      egress init --print
      egress init --print --offline
      egress init --output hosts.new.yaml
    """
    target = output or _default()
    environ = environment.read_environment()
    # Some of the tools take seconds, and nothing else is seen of them.
    if sys.stderr.isatty():
        render.line(("asking pip, npm, cargo, go and apt for their registries", DIM), stderr=True)
    answers = package_registries.ask_tools(environ, offline=offline)
    found = discover.discover(environ, _home(), Path(), answers=answers)
    schema = target.parent / SCHEMA
    text = init_template.text(found, with_schema=not only_print or schema.exists())
    # Checked before anything is written or printed: printed rules get pasted, too.
    _refuse_broken(target, text)
    if only_print:
        render.text(text)
        return 0
    atomic_write.write(target, text, replace=force)
    written = [target]
    # An existing schema may be of a newer version, or edited: it stays.
    if not schema.exists():
        atomic_write.write(schema, schema_text(), replace=False)
        written.append(schema)
    _report(written, found)
    return 0


def _default() -> Path:
    return Path("config/hosts.yaml") if Path("config").is_dir() else Path("hosts.yaml")


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        raise UnreadableError("this user has no home directory", "set HOME") from None


def _refuse_broken(target: Path, text: str) -> None:
    """Never produce rules that `check` or `test` would reject."""
    now = rule_options.now()
    loaded = load([RuleText(str(target), text)], preset_texts(), now)
    if loaded.policy is not None and not any(result.problem for result in run_rule_tests(loaded.policy, now)):
        return
    render.findings(loaded.findings)
    raise ContentError(
        "the generated rules are not valid; nothing was written",
        "this is a bug in Egress: please report it",
    )


def _report(written: list[Path], found: discover.DiscoveredSetup) -> None:
    target = written[0]
    render.line(("wrote ", GOOD), (", ".join(str(path) for path in written), BOLD))
    for item in init_template.summary(found) or ["nothing useful found: the file allows nothing yet"]:
        render.line("  ", item)
    render.line(("next: ", DIM), f"read it, then `egress check {target}` and `egress test {target}`")
