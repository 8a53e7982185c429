"""`egress init`: a first rule file, from what this machine tells. It writes no value of any secret."""

from __future__ import annotations

from pathlib import Path

import click

from egress import environment
from egress.cli import atomic_write, discover, init_template, render, rulefiles
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
    type=rulefiles.FILE,
    help="Where to write it: config/hosts.yaml where config/ exists, else hosts.yaml.",
)
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@click.option("--print", "only_print", is_flag=True, help="Print it and write nothing.")
def init(output: Path | None, force: bool, only_print: bool) -> int:
    """Write a commented hosts.yaml for this machine.

    It looks at names of environment variables, keys of .env, git remotes, and the configuration of gh,
    pip and npm. Values of secrets are neither read into the file nor shown.

    \b
    Examples:
      egress init --print
      egress init --output hosts.new.yaml
    """
    target = output or _default()
    found = discover.discover(environment.read_environment(), _home(), Path())
    schema = target.parent / SCHEMA
    text = init_template.text(found, with_schema=not only_print or schema.exists())
    _refuse_broken(target, text)
    if only_print:
        render.text(text)
        return 0
    atomic_write.write(target, text, replace=force)
    written = [target]
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
    """Never hand out rules that `check` or `test` would complain about."""
    now = rulefiles.now()
    loaded = load([RuleText(str(target), text)], preset_texts(), now)
    if loaded.policy is not None and not any(result.problem for result in run_rule_tests(loaded.policy, now)):
        return
    render.findings(loaded.findings)
    raise ContentError(
        "what was found does not make sound rules; nothing was written",
        "this is a mistake in egress: please report it",
    )


def _report(written: list[Path], found: discover.DiscoveredSetup) -> None:
    target = written[0]
    render.line(("wrote ", GOOD), (", ".join(str(path) for path in written), BOLD))
    for item in init_template.summary(found) or ["found nothing of use here: the file allows nothing yet"]:
        render.line("  ", item)
    render.line(("next: ", DIM), f"read it, then `egress check {target}` and `egress test {target}`")
