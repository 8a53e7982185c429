"""What a start costs: each command loads only what it needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import ROOT, command, environment, put

HEAVY = {
    "mitmproxy",
    "docker",
    "graphql",
    "cryptography",
    "structlog",
    "pydantic_settings",
    "publicsuffixlist",
}
FOR_RULES = {"pydantic", "ruamel", "_ruamel_yaml"}
RULES = "version: 1\nhosts:\n  a.example.com: {}\n"


def loaded(arguments: list[str], folder: Path) -> set[str]:
    """The top-level names of all modules that the command imports."""
    put(folder / "hosts.yaml", RULES)
    words = command(arguments)
    run = subprocess.run(
        [words[0], "-X", "importtime", *words[1:]],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
    )
    lines = (line.rpartition("|") for line in run.stderr.splitlines() if line.startswith("import time:"))
    return {name.strip().partition(".")[0] for _, _, name in lines}


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], [], ["check", "--nonsense"]])
def test_asking_for_help_loads_next_to_nothing(arguments: list[str], tmp_path: Path) -> None:
    found = loaded(arguments, tmp_path)
    assert "click" in found
    if arguments != ["check", "--nonsense"]:
        assert not found & (HEAVY | FOR_RULES | {"rich"})
    assert not found & HEAVY


@pytest.mark.parametrize(
    "arguments",
    [
        ["check"],
        ["test"],
        ["rules", "show"],
        ["explain", "GET", "https://a.example.com/"],
        ["init", "--print"],
        ["presets"],
    ],
)
def test_commands_about_rules_load_rules_and_no_proxy(arguments: list[str], tmp_path: Path) -> None:
    found = loaded(arguments, tmp_path)
    assert found >= {"pydantic", "_ruamel_yaml"}
    assert not found & HEAVY
    assert "rich" not in found, "only a terminal needs it"


@pytest.mark.parametrize(
    "arguments",
    [
        *(["run", "--help"], ["shell", "--help"], ["up", "--help"], ["run", "--keep", "--", "true"]),
        *(["ps"], ["down"], ["exec", "box", "true"], ["logs", "box"], ["rm", "box"], ["status"]),
    ],
    ids=" ".join,
)
def test_commands_about_sandboxes_load_no_rule_compiler(arguments: list[str], tmp_path: Path) -> None:
    """They ask another process, which has read the rules."""
    found = loaded(arguments, tmp_path)
    assert "click" in found
    assert not found & (HEAVY | FOR_RULES | {"rich"})


def test_a_run_starts_its_proxy_before_it_loads_the_reader_of_the_log() -> None:
    code = "import sys; import egress.cli.sandboxes.run; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not [name for name in run.stdout.split() if name.startswith(("egress.review", "egress.audit"))]


UNUSED_BY_THE_PROXY = {
    # Protocols, add-ons and tools of mitmproxy that Egress does not have it load.
    *("aioquic", "asgiref", "flask", "jinja2", "ldap3", "passlib", "pyparsing", "urwid", "werkzeug"),
    # Colours of tracebacks in structlog.
    *("pygments", "rich"),
    # Only `watchfiles.awatch` needs it, once the proxy serves.
    "anyio",
}


def test_the_proxy_loads_nothing_that_it_does_not_use() -> None:
    code = (
        "import sys\nfrom egress.cli.serve import load_structlog\nload_structlog()\n"
        "import egress.proxy.process.lifecycle\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    found = set(run.stdout.split())
    assert found >= {"mitmproxy", "structlog", "OpenSSL"}
    assert not found & UNUSED_BY_THE_PROXY


def test_importing_the_command_line_loads_no_command() -> None:
    code = "import sys; import egress.cli.main; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    names = [name for name in run.stdout.split() if name.startswith("egress.")]
    assert sorted(names) == [
        "egress.cli",
        "egress.cli.main",
        "egress.cli.render",
        "egress.environment",
        "egress.errors",
        # The names that `egress` offers, and nothing of what they stand for.
        "egress.lazy_names",
        "egress.types",
    ]
