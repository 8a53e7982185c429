"""What a command is given of the environment."""

from __future__ import annotations

import pytest

from egress.secrets.child_environment import COMMON_VARIABLES, PROGRAM_VARIABLES, ChildEnvironment
from egress.secrets.source_value import SourceValue
from tests.unit.secrets.secret_samples import TOKEN


def test_passes_what_a_program_needs_and_nothing_else() -> None:
    environ = {
        "PATH": "/usr/bin",
        "HOME": "/home/you",
        "LC_ALL": "C",
        "XDG_RUNTIME_DIR": "/run/user/1",
        "SSH_AUTH_SOCK": "/run/agent",
        "VAULT_ADDR": "https://vault.example",
    }
    dangers = {
        "LD_PRELOAD": "/x.so",
        "PYTHONPATH": "/x",
        "EGRESS_RULES": "/r",
        "MY_TOKEN": "t",
        "BASH_ENV": "/x",
    }
    assert ChildEnvironment({**environ, **dangers}).of("get") == environ


@pytest.mark.parametrize(
    ("program", "variable"),
    [("vault", "VAULT_TOKEN"), ("op", "OP_SERVICE_ACCOUNT_TOKEN"), ("bw", "BW_SESSION"), ("gh", "GH_TOKEN")],
)
def test_the_key_to_a_vault_goes_to_its_own_program_alone(program: str, variable: str) -> None:
    surroundings = ChildEnvironment({variable: "key"})
    assert surroundings.of(program) == {variable: "key"}
    assert surroundings.of("get-secret") == {}
    assert surroundings.of("pass") == {}


def test_a_variable_that_the_rules_name_is_never_passed_on() -> None:
    surroundings = ChildEnvironment({"GH_TOKEN": "t", "HOME": "/"})
    surroundings.hide("GH_TOKEN")
    assert surroundings.of("gh") == {"HOME": "/"}


def test_a_variable_that_holds_a_secret_is_never_passed_on() -> None:
    proxy = f"http://me:{TOKEN.decode()}@proxy"
    surroundings = ChildEnvironment(
        {"HTTPS_PROXY": proxy, "GH_TOKEN": TOKEN.decode(), "HOME": "/"}, [SourceValue(TOKEN)]
    )
    assert surroundings.of("gh") == {"HOME": "/"}


def test_the_path_keeps_no_entry_that_depends_on_the_folder() -> None:
    assert ChildEnvironment({"PATH": ".:/usr/bin::bin:/bin"}).of("x") == {"PATH": "/usr/bin:/bin"}


@pytest.mark.parametrize(("home", "folder"), [("/home/you", "/home/you"), ("", "/"), ("home", "/")])
def test_commands_run_in_the_home_of_the_user(home: str, folder: str) -> None:
    assert ChildEnvironment({"HOME": home}).home == folder


def test_no_credential_stands_on_the_common_list() -> None:
    """A guard against a later addition: these words in a name mean that its value is a key."""
    words = ("TOKEN", "SECRET", "PASSWORD", "SESSION", "ACCESS_KEY")
    names = [
        n
        for n in " ".join(COMMON_VARIABLES).split()
        if n not in {"DBUS_SESSION_BUS_ADDRESS", "PASSWORD_STORE_DIR"}
    ]
    assert not [name for name in names if any(word in name for word in words)]
    patterns = (*names, *" ".join(PROGRAM_VARIABLES.values()).split())
    assert all("*" not in pattern[:-1] for pattern in patterns)
