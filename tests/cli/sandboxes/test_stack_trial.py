"""A trial finds what is there, and tells those who trust from those who do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress import environment
from egress.cli.sandboxes.stacks.known_stacks import Stack
from egress.cli.sandboxes.stacks.stack_trial import AbsentStack, StackResult, open_trial
from egress.fleet.runtime_choice import RuntimeChoice
from egress.proxy.clock import SystemClock
from tests.cli.sandboxes.trial_fixtures import folder, namespaces, refusal

__all__ = ["folder", "namespaces", "refusal"]

CURL = Stack("curl", "curl --version", 'curl -fsS -o /dev/null "$URL"', "")
BLIND = Stack("blind curl", "curl --version", 'curl -fsS --cacert /dev/null "$URL"', "look at it")
OWN = Stack("own", "echo 1.0", "curl -fsS -o /dev/null -H 'Authorization: Bearer mine' \"$URL\"", "")
NONE = Stack("none", "nonesuch --version", "true", "")
LOUD = Stack("loud", "echo none", "printf 'first\\n\\033[31mlast\\n\\n'; exit 3", "ask it")

pytestmark = pytest.mark.system("curl", "curl")


@pytest.mark.usefixtures("namespaces")
def test_who_trusts_is_told_from_who_does_not(folder: Path, tmp_path: Path) -> None:
    """That a request arrived counts, and not what a program says. What is not there is said to be absent."""
    private = tmp_path / "private"
    private.mkdir(0o700)
    choice = RuntimeChoice("namespace", "for a test")
    with open_trial(choice, environment.read_environment(), folder, private, SystemClock().now()) as trial:
        tried = list(trial.try_stacks("host", (CURL, BLIND, OWN, NONE, LOUD)))
        assert trial.fleet.list() == ()
    assert [each.stack for each in tried] == ["curl", "blind curl", "own", "none", "loud"]
    assert [each for each in tried if isinstance(each, AbsentStack)] == [AbsentStack("none")]
    found = {each.stack: each for each in tried if isinstance(each, StackResult)}
    assert (found["curl"].trusts, found["curl"].injected, found["curl"].cure) == (True, True, "")
    assert found["curl"].version[0].isdigit()
    blind = found["blind curl"]
    assert (blind.trusts, blind.injected, blind.cure) == (False, False, "look at it")
    assert "curl: (77)" in blind.said
    assert found["own"].injected
    assert found["loud"] == StackResult(
        stack="loud", version="?", trusts=False, injected=False, cure="ask it", said="[31mlast"
    )


@pytest.mark.usefixtures("namespaces")
def test_its_requests_are_not_among_those_of_others(folder: Path, tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(0o700)
    choice = RuntimeChoice("namespace", "for a test")
    with open_trial(choice, environment.read_environment(), folder, private, SystemClock().now()) as trial:
        (found,) = trial.try_stacks("host", (CURL,))
        assert isinstance(found, StackResult)
        assert found.trusts
    assert (private / "audit").is_dir()
    assert not (tmp_path / ".local/state/egress/audit").exists()
