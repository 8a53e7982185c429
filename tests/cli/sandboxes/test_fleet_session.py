"""The sandboxes that a command works with: whose they are, and what it asks of their proxy."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from egress.cli.sandboxes import fleet_session
from egress.cli.sandboxes.agents import find_agent
from egress.cli.sandboxes.fleet_options import FleetOptions
from egress.errors import EgressError, UsageError
from egress.fleet import Fleet, FleetInfo
from egress.fleet.errors import FleetUnavailableError, ProxyFailedError
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.environ import read_requested
from egress.runtime.errors import ImageMissingError
from egress.runtime.spec import Mount, Spec
from tests.cli.sandboxes.fake_control import answering

SECRET = "sesame-open-sesame-42"


def test_those_that_are_served_are_taken(fleet: Fleet, folder: Path) -> None:
    with fleet_session.fleet(FleetOptions(runtime_dir=folder)) as found:
        assert fleet_session.is_shared(found)
        assert found.about == fleet.about


ENDING = [signal.SIGTERM, signal.SIGHUP]


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize("number", ENDING)
def test_a_signal_unwinds_what_was_opened(folder: Path, number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as caught, fleet_session.fleet(FleetOptions(runtime_dir=folder)):
        os.kill(os.getpid(), number)
    assert caught.value.code == 128 + number
    assert signal.getsignal(number) == before


@pytest.mark.usefixtures("fleet")
def test_another_signal_does_not_cut_short_what_the_first_began(folder: Path) -> None:
    """Who ends a session sends several."""
    ended = []

    def end(number: signal.Signals) -> None:
        with fleet_session.fleet(FleetOptions(runtime_dir=folder)):
            try:
                os.kill(os.getpid(), number)
            finally:
                for each in ENDING:
                    os.kill(os.getpid(), each)
                ended.append(number)

    for number in ENDING:
        with pytest.raises(SystemExit) as caught:
            end(number)
        assert caught.value.code == 128 + number
    assert ended == ENDING


@pytest.mark.usefixtures("fleet")
def test_a_signal_that_is_ignored_stays_so(folder: Path) -> None:
    """As under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with fleet_session.fleet(FleetOptions(runtime_dir=folder)):
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_one_that_is_kept_is_one_of_those_that_are_served(fleet: Fleet, folder: Path) -> None:
    """The rest ends with this process."""
    with fleet_session.fleet(FleetOptions(runtime_dir=folder), keep=True) as found:
        assert found.about == fleet.about
    for own in (
        FleetOptions(rules=(folder / "hosts.yaml",), runtime_dir=folder),
        FleetOptions(seccomp=folder / "seccomp.json", runtime_dir=folder),
        FleetOptions(resolve=("a.example.com=192.0.2.1",), runtime_dir=folder),
    ):
        with (
            pytest.raises(UsageError, match="--keep") as caught,
            fleet_session.fleet(own, keep=True),
        ):
            pass
        assert "egress up" in caught.value.hint


def test_a_sandbox_is_expected_with_the_image_that_it_will_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as that is there, and not where the folder of a mount could change meanwhile."""
    spec, engine = Spec(name="one", image="host"), cast("DockerEngine", None)
    made: list[str | None] = ["egress-demo:stat-1"]
    monkeypatch.setattr("egress.runtime.docker.images.demo.made_demo_image", lambda _: made[0])
    agent = find_agent("claude-code")
    for image, who, wanted in (
        (None, None, "egress-demo:stat-1"),
        ("mine", None, "mine"),
        (None, agent, "egress-agents"),
        ("mine", agent, "mine"),
    ):
        assert fleet_session._expected(spec, image, who, engine) == replace(spec, image=wanted)
    mounts = (Mount(source=Path("/data"), target="/data"),)
    assert fleet_session._expected(replace(spec, mounts=mounts), "mine", None, engine) is None
    made[0] = None
    assert fleet_session._expected(spec, None, None, engine) is None


def test_mistakes_in_rules_stand_in_lines_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ProxyFailedError, match="cannot be used") as caught, fleet_session.translate_errors():
        raise ProxyFailedError("they cannot be used\nhosts.yaml:3: no\n\x1b[2J", "fix the errors", status=1)
    assert caught.value.message == "they cannot be used"
    assert (caught.value.hint, caught.value.exit_status) == ("fix the errors", 1)
    err = capsys.readouterr().err
    assert err.startswith("hosts.yaml:3: no\n")
    assert "\x1b" not in err


def test_an_image_that_is_not_there_is_told_by_its_option() -> None:
    with (
        pytest.raises(ImageMissingError, match="--image: no image some"),
        fleet_session.translate_errors(),
    ):
        raise ImageMissingError("no image some", "make it")
    with pytest.raises(ImageMissingError) as caught, fleet_session.translate_errors("egress-sandbox"):
        raise ImageMissingError("no image egress-sandbox", "make it")
    assert caught.value.hint == "build it with `egress image build sandbox`"


def test_where_none_are_served_it_is_said_how_to_begin(folder: Path) -> None:
    with pytest.raises(FleetUnavailableError) as caught, fleet_session.connect_served(folder):
        pass
    assert "egress up" in caught.value.hint


def test_an_image_is_not_made_where_one_was_named() -> None:
    assert fleet_session.image(FleetInfo(kind="docker"), "mine") == "mine"
    assert fleet_session.image(FleetInfo(kind="docker", image="usual"), "mine") == "mine"
    assert fleet_session.image(FleetInfo(kind="docker", image="usual"), None) == "usual"
    assert fleet_session.image(FleetInfo(kind="namespace"), None) == "host"


def test_a_variable_from_which_the_proxy_takes_a_secret_cannot_be_copied(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKER_TOKEN", SECRET)
    about = FleetInfo(kind="docker", runtime_dir=folder)
    with answering(folder, {"rules": {"variables": {"TRACKER_TOKEN": "set"}}}):
        with pytest.raises(UsageError, match="TRACKER_TOKEN"):
            fleet_session.variables(about, read_requested(["TRACKER_TOKEN"]))
        with pytest.raises(UsageError, match="OTHER") as caught:
            fleet_session.variables(about, read_requested([f"OTHER=x{SECRET}x"]))
        assert SECRET not in str(caught.value) + caught.value.hint
        assert fleet_session.requested_variables(about, read_requested(["OTHER=fine"])) == {"OTHER": "fine"}


def test_whose_rules_hold_is_said_at_the_start(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They can be of a file that was found here: nobody should have to guess which."""
    about = FleetInfo(kind="docker", why="for a test", runtime_dir=folder)
    with answering(folder, {"rules": {"files": ["hosts.d/one.yaml", "hosts.d/\x1b[2J.yaml"]}}):
        fleet_session.introduce(about)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "egress: runtime: docker (for a test)"
    assert second.startswith("egress: rules: hosts.d/one.yaml, hosts.d/")
    assert "\x1b" not in second
    (folder / "control.sock").unlink()
    with answering(folder, {"rules": {}}):
        assert fleet_session.rule_files(about) == "no known file"


def test_a_secret_that_the_proxy_has_not_is_told_of(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    about = FleetInfo(kind="docker", runtime_dir=folder)
    with answering(folder, {"rules": {"variables": {"MINE": "not set", "OTHER": "set"}}}):
        fleet_session.variables(about, ())
    err = capsys.readouterr().err
    assert "MINE is not set for the proxy, or is empty" in err
    assert "OTHER" not in err


@pytest.mark.parametrize("answer", [{}, {"rules": {}}, {"rules": {"variables": ["A"]}}])
def test_a_proxy_that_does_not_say_which_secrets_it_has_gets_no_sandbox(
    answer: dict[str, object], folder: Path
) -> None:
    about = FleetInfo(kind="docker", runtime_dir=folder)
    with answering(folder, answer), pytest.raises(EgressError, match="report its secrets"):
        fleet_session.variables(about, ())


class ImageShelf:
    """An engine that knows some images."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def image_id(self, name: str) -> str:
        if name not in self.names:
            raise ImageMissingError(name)
        return name


def test_an_agent_in_a_container_wants_the_image_with_the_agents() -> None:
    known = cast("DockerEngine", ImageShelf("egress-agents"))
    assert fleet_session._agents_image(known) == "egress-agents"
    with pytest.raises(ImageMissingError, match="--agent: the engine has no image egress-agents") as caught:
        fleet_session._agents_image(cast("DockerEngine", ImageShelf()))
    assert "`egress image build agents`" in caught.value.hint


def test_an_agent_in_namespaces_is_a_program_of_this_machine() -> None:
    agent = find_agent("claude-code")
    assert fleet_session.image(FleetInfo(kind="namespace"), None, agent=agent) == "host"
    assert fleet_session.image(FleetInfo(kind="docker"), "mine", agent=agent) == "mine"
