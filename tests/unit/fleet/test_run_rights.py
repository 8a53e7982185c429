"""Commands with rights of their own: each has a ticket in the address of its proxy, until it ends."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable

import pytest

from egress.errors import EgressError
from egress.fleet.protocol import FleetInfo
from egress.fleet.proxy_policies import ProxyPolicies
from egress.fleet.run_rights import RunsWithRights, ticketed
from egress.run_ticket import MAX_TICKET_SECONDS, RunTicket, is_ticket, ticket_text
from egress.runtime.errors import GatewayError, SandboxTimeoutError, UnsupportedError
from egress.runtime.fake import FakeRuntime
from egress.runtime.fake.process import ProgramCall
from egress.runtime.spec import Command, RunRights, Spec

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


RIGHTS = RunRights(profile="wide", parameters={"repo": "acme/site"}, by="me")


class NotingKeeper:
    """Keeps tickets as a proxy does, and says what was asked of it."""

    def __init__(self) -> None:
        self.live: dict[str, RunTicket] = {}
        self.asked: list[tuple[str, int, str, bool]] = []
        self.refusal: EgressError | None = None
        self.ended = threading.Event()

    def add_ticket(
        self, name: str, ticket: RunTicket, seconds: int, by: str = "", *, is_delegated: bool = False
    ) -> int:
        self.asked.append((name, seconds, by, is_delegated))
        self.live[ticket.id] = ticket
        return ticket.expires

    def end_ticket(self, name: str, ticket: str, made_by: str | None = None) -> None:
        assert (name, made_by) == ("one", None)
        self.live.pop(ticket)
        self.ended.set()
        if self.refusal is not None:
            raise self.refusal


class Runs:
    """A sandbox in memory, whose shell says what it got."""

    def __init__(self) -> None:
        self.keeper = NotingKeeper()
        self.seen: list[dict[str, str]] = []
        self.runtime = FakeRuntime(images={"any"}, programs={"/bin/sh": self._shell})
        self.runtime.create(Spec(name="one", image="any"))
        self.runtime.start("one")
        policies = ProxyPolicies(lambda: FleetInfo(kind="fake"), self.runtime.info, self.keeper)
        self.runs = RunsWithRights(self.runtime, policies)

    def _shell(self, call: ProgramCall) -> int:
        self.seen.append(dict(call.env))
        assert len(self.keeper.live) == 1
        if call.argv[-1] == "cat":
            call.write(call.read())
        return 7


@pytest.fixture
def place() -> Runs:
    return Runs()


def exec_run(place: Runs, command: Command) -> int:
    return place.runs.exec("one", command).exit_code


def spawn_run(place: Runs, command: Command) -> int:
    process = place.runs.spawn("one", command)
    process.close_input()
    return process.wait(30).exit_code


@pytest.mark.parametrize("act", [exec_run, spawn_run])
def test_a_run_has_a_ticket_that_is_gone_when_its_end_is_known(
    place: Runs, act: Callable[[Runs, Command], int]
) -> None:
    assert act(place, Command(argv=("env",), rights=RIGHTS)) == 7
    assert place.keeper.live == {}
    assert place.keeper.asked == [("one", MAX_TICKET_SECONDS, "me", False)]
    [env] = place.seen
    assert is_ticket(env["EGRESS_TICKET"])


@pytest.mark.parametrize("act", [exec_run, spawn_run])
def test_a_ticket_that_cannot_be_revoked_costs_nobody_the_result(
    place: Runs, act: Callable[[Runs, Command], int], capsys: pytest.CaptureFixture[str]
) -> None:
    place.keeper.refusal = GatewayError("the proxy has ended", "start it again")
    assert act(place, Command(argv=("env",), rights=RIGHTS)) == 7
    said = capsys.readouterr()
    assert "ticket.not_revoked" in said.err + said.out


def test_a_ticket_ends_with_a_command_that_nobody_waits_for(place: Runs) -> None:
    place.runs.spawn("one", Command(argv=("env",), rights=RIGHTS)).close_input()
    assert place.keeper.ended.wait(30)
    assert place.keeper.live == {}


def test_a_command_that_still_runs_keeps_its_ticket(place: Runs) -> None:
    process = place.runs.spawn("one", Command(argv=("cat",), rights=RIGHTS))
    with pytest.raises(SandboxTimeoutError):
        process.wait(0.05)
    assert len(place.keeper.live) == 1
    process.write(b"hello")
    process.close_input()
    assert process.wait(30).stdout_bytes == b"hello"
    assert place.keeper.live == {}


def test_a_ticket_lasts_a_little_longer_than_the_command_may(place: Runs) -> None:
    exec_run(place, Command(argv=("env",), timeout=10.5, rights=RIGHTS))
    assert place.keeper.asked[0][1] == 71
    exec_run(place, Command(argv=("env",), timeout=10**6, rights=RIGHTS))
    assert place.keeper.asked[1][1] == MAX_TICKET_SECONDS


@pytest.mark.parametrize("verb", ["exec", "spawn"])
def test_a_command_that_does_not_start_leaves_no_ticket(place: Runs, verb: str) -> None:
    place.runtime.stop("one")
    with pytest.raises(EgressError):
        getattr(place.runs, verb)("one", Command(argv=("env",), rights=RIGHTS))
    assert place.keeper.live == {}
    assert len(place.keeper.asked) == 1


@pytest.mark.parametrize("verb", ["exec", "spawn"])
def test_a_runtime_alone_begins_no_command_with_rights_of_its_own(place: Runs, verb: str) -> None:
    with pytest.raises(UnsupportedError, match="no rights of its own"):
        getattr(place.runtime, verb)("one", Command(argv=("env",), rights=RIGHTS))
    assert place.seen == []


def test_without_wishes_there_are_no_rights() -> None:
    assert RunRights.asked(None, {}) is None
    assert RunRights.asked("", {}) == RunRights(profile="")
    assert RunRights.asked(None, {"a": "b"}) == RunRights(parameters={"a": "b"})
