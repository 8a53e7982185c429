"""One option means one thing, whatever the command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from egress.cli import folder_options
from egress.cli.main import COMMANDS, cli

SHARED = ("--state-dir", "--runtime-dir", "--audit-dir", "--upstream-ca", "--resolve", "--seccomp")
OPEN_SANDBOXES = ("run", "shell", "up")
ASK_A_PROCESS = ("cp", "down", "exec", "kill", "logs", "metrics", "ps", "rm", "status")


def commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            inner = click.Context(command)
            for each in command.list_commands(inner):
                found = command.get_command(inner, each)
                assert found is not None
                yield f"{name} {each}", found


def options(command: click.Command) -> dict[str, click.Option]:
    return {flag: each for each in command.params if isinstance(each, click.Option) for flag in each.opts}


ALL = {name: options(command) for name, command in commands()}


@pytest.mark.parametrize("flag", SHARED)
def test_an_option_has_one_help_text(flag: str) -> None:
    found = {name: (each[flag].help, each[flag].metavar) for name, each in ALL.items() if flag in each}
    plain = {name: str(text).partition(" [")[0] for name, (text, _) in found.items()}
    assert len(found) >= 3
    assert len(set(plain.values())) == 1, plain
    assert len({metavar for _, metavar in found.values()}) == 1, found


@pytest.mark.parametrize("name", OPEN_SANDBOXES)
def test_commands_that_start_a_proxy_take_the_options_of_one(name: str) -> None:
    assert set(SHARED) <= set(ALL[name])


@pytest.mark.parametrize("name", ASK_A_PROCESS)
def test_commands_that_ask_a_process_are_told_where_it_is(name: str) -> None:
    assert {"--state-dir", "--runtime-dir"} <= set(ALL[name])


def runtime_dir_of(*words: str) -> Path | None:
    found: list[Path | None] = []

    @folder_options.of_running
    def command(runtime_dir: Path | None) -> int:
        found.append(runtime_dir)
        return 0

    click.command()(command).main(args=list(words), standalone_mode=False)
    return found[0]


def test_the_runtime_folder_is_where_a_proxy_with_that_state_folder_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("EGRESS_RUNTIME_DIR", "EGRESS_STATE_DIR", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    assert runtime_dir_of() is None
    assert runtime_dir_of("--state-dir", "/srv/state") == Path("/srv/state/run")
    assert runtime_dir_of("--state-dir", "/srv/state", "--runtime-dir", "/run/x") == Path("/run/x")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert runtime_dir_of("--state-dir", "/srv/state") == Path("/run/user/7/egress")
    monkeypatch.setenv("EGRESS_RUNTIME_DIR", "/run/named")
    assert runtime_dir_of("--state-dir", "/srv/state") == Path("/run/named")
