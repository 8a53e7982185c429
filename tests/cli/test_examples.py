"""Every example in every help text runs as it stands, in a folder with the shipped rules."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import click
import pytest

from egress.cli.main import cli
from tests.cli.command import CONFIG, assert_is_an_answer, egress

DENIED = {
    "egress explain POST https://api.github.com/gists config/hosts.yaml",
    "egress explain POST https://github.com --git 'push acme/app refs/heads/main'",
    "egress doctor",
    "egress doctor --json",
    "egress doctor --rules config/hosts.yaml --offline",
}
"""Examples that show a denial, or a fault."""

WANTING = {
    "egress budget": "no proxy is running",
    "egress budget agents --json": "no proxy is running",
    "egress prices show claude-haiku-4-5 prices.yaml": "file not found: prices.yaml",
    "egress prices show gpt-5-mini prices.yaml --json": "file not found: prices.yaml",
    "egress cp notes.md run-4f2a9c1e:notes.md": "`egress up` is not running",
    "egress cp run-4f2a9c1e:/workspace/dist dist": "`egress up` is not running",
    "egress doctor --image my-agents": "my-agents",
    "egress down": "`egress up` is not running",
    "egress down --keep": "`egress up` is not running",
    "egress exec --detach run-4f2a9c1e -- python3 -m http.server 8000": "`egress up` is not running",
    "egress exec --timeout 10m run-4f2a9c1e -- make test": "`egress up` is not running",
    "egress exec run-4f2a9c1e -- git status": "`egress up` is not running",
    "egress expose": "`egress up` is not running",
    "egress expose run-4f2a9c1e 8000 --expires 2h": "`egress up` is not running",
    "egress expose run-4f2a9c1e 8000 --remove": "`egress up` is not running",
    "egress kill api.example.com": "no proxy is running",
    "egress kill --undo api.example.com": "no proxy is running",
    "egress kill --secret deploy-token --keep": "no proxy is running",
    "egress mcp --mount .:/workspace:rw": "no rules found",
    "egress mcp builder --api-listen 127.0.0.1:8701": "`egress up` is not running",
    "egress policy agent-1": "no proxy is running",
    "egress policy agent-1 --allow 'GET https://files.example.com/public/**'": "no proxy is running",
    "egress policy agent-1 --deny 'https://api.example.com' --ttl 1h": "no proxy is running",
    "egress policy agent-1 --undo g-5f2b8c0d": "no proxy is running",
    "egress log verify": "key not found",
    "egress log verify --state-dir /var/lib/egress": "key not found",
    "egress log export --sandbox agent-1 --since 1d": "key not found",
    "egress log prune --keep-size 10G": "key not found",
    "egress log prune --older-than 30d --dry-run": "key not found",
    "egress log query --sandbox agent-1 --host '*.github.com' --status 5xx": "the audit log",
    "egress log query --secret github --grep /user/keys --json": "the audit log",
    "egress log query --verdict deny --since 2h": "the audit log",
    "egress log show 3fJq0b2Kx9aZ": "the audit log",
    "egress ui": "the audit log",
    "egress ui --listen 127.0.0.1:0 --rules config/hosts.yaml": "the audit log",
    "egress ui --socket review.sock": "the audit log",
    "egress log stats": "the audit log",
    "egress log stats --by host --since 1d": "the audit log",
    "egress log stats --by time --sandbox agent-1 --json": "the audit log",
    "egress log suggest c-17-3": "the audit log",
    "egress log suggest c-17-3 --rules config/hosts.yaml": "the audit log",
    "egress log tail": "there is no audit log",
    "egress log tail -f": "there is no audit log",
    "egress log tail -f --verdict deny": "there is no audit log",
    "egress log verify evidence.zip": "cannot read the bundle evidence.zip",
    "egress log verify --dir /var/log/egress --key /etc/egress/audit.key": "key not found",
    "egress rules draft --since 1d": "the audit log",
    "egress rules draft --since 7d --profile coding -o hosts.draft.yaml": "the audit log",
    "egress rules replay config/hosts.yaml --since 2h --json": "file not found: config/hosts.yaml",
    "egress rules replay hosts.draft.yaml --since 1d": "file not found: hosts.draft.yaml",
    "egress k8s check *.yaml --accept label.missing:dashboard": "file not found: *.yaml",
    "egress k8s check kubernetes.yaml": "file not found: kubernetes.yaml",
    "egress k8s inject agent.yaml --proxy 10.96.0.92 | kubectl apply -f -": "file not found: agent.yaml",
    "egress k8s inject job.yaml --sidecar --rules egress-rules --secret egress-token | kubectl apply -f -": (
        "file not found: job.yaml"
    ),
    "egress log archive | wc -c": "the audit log",
    "egress log collect both one/audit two/audit --key audit.key": "key not found",
    "egress log verify --dir agents/log --key agents/audit.key": "key not found",
    "egress ui --dir agents/log": "the audit log",
    "egress logs -f run-4f2a9c1e": "`egress up` is not running",
    "egress logs run-4f2a9c1e": "`egress up` is not running",
    "egress attach run-4f2a9c1e": "`egress up` is not running",
    "egress attach run-4f2a9c1e 9f2c4e1ab07d5538": "`egress up` is not running",
    "egress ps": "`egress up` is not running",
    "egress ps --json": "`egress up` is not running",
    "egress ps --processes": "`egress up` is not running",
    "egress sleep run-4f2a9c1e": "`egress up` is not running",
    "egress wake run-4f2a9c1e": "`egress up` is not running",
    "egress snapshot create run-4f2a9c1e with-packages": "`egress up` is not running",
    "egress snapshot create --kind image run-4f2a9c1e with-tools": "`egress up` is not running",
    "egress snapshot list": "`egress up` is not running",
    "egress snapshot list --json": "`egress up` is not running",
    "egress snapshot rm with-packages": "`egress up` is not running",
    "egress rm --all": "`egress up` is not running",
    "egress rm run-4f2a9c1e": "`egress up` is not running",
    "egress run --mount .:/workspace:rw -- bash": "no rules found",
    "egress run -- curl https://api.example.com/v1/me": "no rules found",
    "egress serve --rules hosts.yaml": "file not found: hosts.yaml",
    "egress shell": "no rules found",
    "egress shell run-4f2a9c1e": "`egress up` is not running",
    "egress up": "no rules found",
    "egress up --api-listen 127.0.0.1:8700": "no rules found",
    "egress up --image my-agents --ready 2": "--image",
    "egress up --rules hosts.yaml --runtime docker": "file not found: hosts.yaml",
    "egress env --shell fish": "no proxy is running",
    "egress metrics": "no proxy is running",
    "egress status": "no proxy is running",
    "egress status --json": "no proxy is running",
}
"""Examples that want something that is not here, and what they say then; tests of the proxy have it."""

BUILDING = {
    "egress image build agents",
    "egress image build sandbox --base debian:stable-slim",
    'egress run --agent claude-code --mount .:/workspace:rw -- claude -p "fix the test"',
    "egress up --image my-agents --ready 2",
}
"""Examples that take an engine and its images: tests of images and of tools have them."""

STAYING = {"egress demo api", "egress demo api --port 9443 --out /tmp/demo-ca.pem"}
"""Examples that serve until they are stopped: tests/unit/cli/test_demo.py stops them."""

DIALLING = {
    "egress gate --blocked 10.96.0.1:443 --blocked 169.254.169.254:80 --proxy 10.96.0.92:3128",
    'egress gate --blocked 10.96.0.1:443 --gateway 10.96.0.92:3128 --uid "$POD_UID"',
    "egress k8s ca --namespace agents",
    "egress k8s ca --namespace agents --renew",
    "egress k8s ca --namespace agents --retire",
    "egress log collect agents/log --kubernetes -n agents --key agents/audit.key",
    "egress net-lock",
    "egress net-lock --proxy-user 20001",
}
"""Examples for a cluster, or for a pod of one: tests of gate, cluster and lock have those."""


def commands(group: click.Group, context: click.Context) -> list[click.Command]:
    found: list[click.Command] = [group]
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found += commands(command, context) if isinstance(command, click.Group) else [command]
    return found


def words(example: str) -> list[str]:
    """The arguments of an example, without a program behind it that takes its output."""
    return shlex.split(example.partition(" | ")[0])[1:]


def examples() -> list[str]:
    with click.Context(cli) as context:
        helps = [command.help or "" for command in commands(cli, context)]
    lines = (line.strip() for text in helps for line in text.partition("Examples:")[2].splitlines())
    return sorted({line for line in lines if line.startswith("egress ")})


def test_there_are_examples_and_the_denials_are_among_them() -> None:
    assert len(examples()) > 10
    assert set(examples()) >= DENIED | BUILDING | DIALLING | STAYING | WANTING.keys()


@pytest.mark.parametrize("example", sorted(set(examples()) - BUILDING - DIALLING - STAYING - WANTING.keys()))
def test_an_example_runs_as_it_stands(example: str, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    shutil.copy(CONFIG, tmp_path / "config")
    # Package managers would ask their registries.
    env = {"PATH": str(tmp_path)} if example.startswith("egress init") else None
    outcome = egress(*words(example), cwd=tmp_path, env=env)
    if "completion" not in example:
        assert_is_an_answer(outcome)
    assert outcome.status == (1 if example in DENIED else 0), outcome
    assert outcome.out
    # The first export makes the authority, and says so.
    assert not outcome.err or (outcome.err.startswith("note: ") and "ca export" in example)


@pytest.mark.parametrize("example", sorted(WANTING))
def test_an_example_that_wants_more_says_what_it_wants(example: str, tmp_path: Path) -> None:
    outcome = egress(*words(example), cwd=tmp_path)
    assert outcome.status == 3, outcome
    assert WANTING[example] in outcome.err
    assert "hint: " in outcome.err
