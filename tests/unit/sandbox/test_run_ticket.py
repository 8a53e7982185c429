"""A command with a ticket: the ticket is in the address of its proxy, and nowhere else."""

from __future__ import annotations

import subprocess

import pytest

from egress.run_ticket import ticket_text
from egress.runtime.spec import Command
from egress.sandbox.run_ticket import ticketed

TICKET = ticket_text(bytes(32))


def run(argv: tuple[str, ...], **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command of a sandbox in which these variables are set."""
    made = ticketed(Command(argv=argv), TICKET)
    env = {"PATH": "/usr/bin:/bin", **variables, **made.env}
    assert TICKET not in " ".join(made.argv)
    return subprocess.run(made.argv, env=env, capture_output=True, text=True, check=False)


def test_the_ticket_is_the_user_of_every_address_of_the_proxy() -> None:
    done = run(("env",), HTTPS_PROXY="http://198.18.0.2:3128", http_proxy="http://[fd00::1]:3128", OTHER="x")
    said = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert said["HTTPS_PROXY"] == f"http://{TICKET}@198.18.0.2:3128"
    assert said["http_proxy"] == f"http://{TICKET}@[fd00::1]:3128"
    assert said["OTHER"] == "x"
    assert "EGRESS_TICKET" not in said
    assert "ALL_PROXY" not in said


def test_words_and_status_of_the_command_are_its_own() -> None:
    proxy = {"https_proxy": "http://proxy:3128"}
    words = ("sh", "-c", 'printf "%s|" "$@"; exit 7', "name", "a b", "", "$(id)", "*")
    done = run(words, **proxy)
    assert (done.stdout, done.returncode) == ("a b||$(id)|*|", 7)
    # A ticket of an outer run is replaced, and not nested.
    nested = run(("printenv", "https_proxy"), https_proxy="http://egress-run-old@proxy:3128")
    assert nested.stdout == f"http://{TICKET}@proxy:3128\n"


@pytest.mark.parametrize("variables", [{}, {"HTTPS_PROXY": ""}, {"HTTPS_PROXY": "socks5://proxy:1080"}])
def test_without_a_proxy_in_its_environment_a_run_does_not_begin(variables: dict[str, str]) -> None:
    done = run(("echo", "began"), **variables)
    assert (done.stdout, done.returncode) == ("", 126)
    assert "HTTPS_PROXY is not set" in done.stderr
    assert TICKET not in done.stderr


def test_a_text_that_is_no_ticket_is_refused() -> None:
    with pytest.raises(ValueError, match="no ticket"):
        ticketed(Command(argv=("env",)), "x")
