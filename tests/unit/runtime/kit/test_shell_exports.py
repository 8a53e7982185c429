"""Commands for a shell: what the shell makes of them is what was meant."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egress.runtime.kit.paths import KitPaths
from egress.runtime.kit.shell_exports import (
    MISLEADING_VARIABLES,
    SHELL_KINDS,
    ShellKind,
    set_commands,
    shell_kind,
    unset_commands,
)
from egress.runtime.kit.variables import KIT_VARIABLES, variables
from egress.runtime.proxy_address import ProxyAddress
from tests.tiers import examples

PROXY = ProxyAddress("127.0.0.1", 3128)
KIT = variables(KitPaths("/home/you/kit"), PROXY)
SHELLS = [
    pytest.param("posix", ["sh", "-c"], id="sh"),
    pytest.param("posix", ["bash", "-c"], id="bash", marks=pytest.mark.system("bash", "bash")),
    pytest.param("fish", ["fish", "-c"], id="fish", marks=pytest.mark.system("fish", "fish")),
]
SHOW = f"{sys.executable} -c 'import json, os; print(json.dumps(dict(os.environ)))'"
AWKWARD = """it's "$HOME" `id` \\ $(id) \\' ; # * ~ é"""


def environment_after(shell: list[str], commands: str, before: dict[str, str]) -> dict[str, str]:
    run = subprocess.run(
        [*shell, f"{commands}\n{SHOW}"],
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", **before},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stderr == ""
    found: dict[str, str] = json.loads(run.stdout)
    return found


@pytest.mark.parametrize(("kind", "shell"), SHELLS)
def test_all_variables_are_set_and_those_that_go_before_them_are_gone(
    kind: ShellKind, shell: list[str]
) -> None:
    other = dict.fromkeys([*(each.name for each in KIT_VARIABLES), *MISLEADING_VARIABLES], "/else/where")
    found = environment_after(shell, "\n".join(set_commands(KIT, PROXY.url, kind)), {**other, "OWN": "x"})
    assert {name: found[name] for name in KIT} == KIT
    assert not MISLEADING_VARIABLES.keys() & found.keys()
    assert found["OWN"] == "x"


@pytest.mark.parametrize(("kind", "shell"), SHELLS)
def test_they_can_be_removed_again(kind: ShellKind, shell: list[str]) -> None:
    commands = [*set_commands(KIT, PROXY.url, kind), *unset_commands(KIT, kind)]
    assert not KIT.keys() & environment_after(shell, "\n".join(commands), {}).keys()


@pytest.mark.parametrize("shell", [["sh", "-c"], ["bash", "-c"]])
def test_without_quotes_around_it_the_commands_are_one_line_and_hold(shell: list[str]) -> None:
    """`eval $(egress env)` is what many people type."""
    commands = " ".join(set_commands(KIT, PROXY.url, "posix")).replace("\n", " ")
    assert environment_after(shell, commands, {})["SSL_CERT_FILE"] == KIT["SSL_CERT_FILE"]


@pytest.mark.parametrize(("kind", "shell"), SHELLS)
def test_a_value_is_never_code(kind: ShellKind, shell: list[str]) -> None:
    commands = "\n".join(set_commands({"AWKWARD": AWKWARD}, PROXY.url, kind))
    assert environment_after(shell, commands, {})["AWKWARD"] == AWKWARD


@settings(max_examples=examples(20))
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40))
def test_any_value_comes_out_as_it_went_in(value: str) -> None:
    commands = "\n".join(set_commands({"VALUE": value}, PROXY.url, "posix"))
    assert environment_after(["sh", "-c"], commands, {})["VALUE"] == value


@pytest.mark.parametrize(("kind", "shell"), SHELLS)
def test_a_password_is_read_by_the_shell_and_stands_in_no_command(
    kind: ShellKind, shell: list[str], tmp_path: object
) -> None:
    file = f"{tmp_path}/it's a file"
    with open(file, "w", encoding="utf-8") as out:  # noqa: PTH123 - a name with a quote
        out.write("sesame-open\n")
    commands = "\n".join(set_commands(KIT, PROXY.url, kind, file))
    assert "sesame" not in commands
    found = environment_after(shell, commands, {})
    assert found["HTTPS_PROXY"] == found["http_proxy"] == "http://any:sesame-open@127.0.0.1:3128"
    assert found["SSL_CERT_FILE"] == KIT["SSL_CERT_FILE"]


@pytest.mark.parametrize(
    ("shell", "kind"),
    [
        ("/usr/bin/fish", "fish"),
        ("/bin/bash", "posix"),
        ("/bin/zsh", "posix"),
        ("", "posix"),
        ("fish", "fish"),
    ],
)
def test_a_shell_is_known_by_its_name(shell: str, kind: ShellKind) -> None:
    assert shell_kind(shell) == kind
    assert kind in SHELL_KINDS


def test_what_is_removed_is_not_set() -> None:
    assert not MISLEADING_VARIABLES.keys() & KIT.keys()
