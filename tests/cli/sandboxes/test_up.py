"""`egress up` and what works with it, for real: a proxy, namespaces, and several processes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from egress.runtime.errors import UnsupportedError
from egress.runtime.namespace import support
from tests.cli.command import Outcome, egress, put
from tests.conftest import LEFT_OUT, UNDER_CI

RULES = "version: 1\nhosts: {api.example.com: {allow: all}}\n"


@dataclass(frozen=True)
class Place:
    """Where it runs."""

    folder: Path

    def egress(self, *words: str) -> Outcome:
        env = {"EGRESS_RUNTIME_DIR": str(self.folder / "run"), "EGRESS_STATE_DIR": str(self.folder / "state")}
        return egress(*words, cwd=self.folder, env=env, timeout=120)


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    try:
        support.check()
    except UnsupportedError as error:
        if UNDER_CI:
            pytest.fail(f"no namespaces: {error}", pytrace=False)
        request.node.user_properties.append((LEFT_OUT, "user namespaces"))
        pytest.skip(str(error))
    with tempfile.TemporaryDirectory(prefix="egress-") as name:
        found = Place(Path(name))
        put(found.folder / "hosts.yaml", RULES)
        yield found
        found.egress("down")


def test_sandboxes_stay_until_they_are_taken_away(place: Place) -> None:
    up = place.egress("up", "--rules", "hosts.yaml", "--runtime", "namespace")
    assert up.status == 0, up
    assert "egress is up: sandboxes of the kind namespace" in up.out
    assert "by the rules of hosts.yaml\n" in up.out

    again = place.egress("up", "--rules", "hosts.yaml")
    assert again.status == 3
    assert "already" in again.err

    made = place.egress("run", "-q", "--keep", "--name", "mine", "--", "sh", "-c", "echo kept > file")
    assert (made.status, made.said) == (0, "")
    assert place.egress("exec", "mine", "--", "cat", "file").out == "kept\n"

    put(place.folder / "in.txt", "from outside\n")
    assert place.egress("cp", "in.txt", "mine:sub/in.txt").status == 0
    assert place.egress("exec", "mine", "cat", "sub/in.txt").out == "from outside\n"
    assert place.egress("cp", "mine:file", "out.txt").status == 0
    assert (place.folder / "out.txt").read_text() == "kept\n"

    denied = "curl -s -o /dev/null http://pastebin.example.org/"
    place.egress("exec", "mine", "--", "sh", "-c", denied)
    assert "pastebin.example.org" in place.egress("logs", "mine").out
    assert place.egress("ps").out.splitlines()[1].split()[:2] == ["mine", "running"]

    assert place.egress("rm", "mine").out == "removed mine\n"
    assert place.egress("ps").out == "there are no sandboxes\n"
    assert place.egress("down").status == 0
    assert place.egress("ps").status == 3


def test_what_keeps_it_from_coming_up_is_said_as_if_it_were_here(place: Place) -> None:
    put(place.folder / "wrong.yaml", "version: 1\nhosts: {api.example.com: {alow: all}}\n")
    up = place.egress("up", "--rules", "wrong.yaml", "--runtime", "namespace")
    assert up.status == 1
    assert up.err.splitlines() == [
        "wrong.yaml:2:27: error: unknown key `alow`",
        "  hint: did you mean `allow`?",
        "error: these rules cannot be used, nothing was started",
        "hint: put right what is listed",
    ]
    assert place.egress("ps").status == 3


def test_mistakes_in_rules_are_told_line_by_line_by_a_command_too(place: Place) -> None:
    put(place.folder / "wrong.yaml", "version: 1\nhosts: {api.example.com: {alow: all}}\n")
    ran = place.egress("run", "--rules", "wrong.yaml", "--runtime", "namespace", "--", "true")
    assert (ran.status, ran.out) == (1, "")
    assert "\\n" not in ran.err
    assert ran.err.splitlines()[0] == "wrong.yaml:2:27: error: unknown key `alow`"


def test_rules_that_were_only_found_here_hold_when_they_are_trusted(place: Place) -> None:
    """S-51: what works here may have written them."""
    run = ("run", "--runtime", "namespace", "--", "true")
    refused = place.egress(*run)
    assert refused.status == 1
    assert "hosts.yaml was only found here, and is not trusted" in refused.err
    assert place.egress("trust", "hosts.yaml").status == 0
    trusted = place.egress(*run)
    assert trusted.status == 0
    assert "egress: by the rules of hosts.yaml\n" in trusted.err
    put(place.folder / "hosts.yaml", RULES + "# changed\n")
    changed = place.egress(*run)
    assert changed.status == 1
    assert "has changed since it was trusted" in changed.err


def test_a_command_of_its_own_proxy_leaves_nothing(place: Place) -> None:
    ran = place.egress("run", "--rules", "hosts.yaml", "--runtime", "namespace", "--", "sh", "-c", "exit 7")
    assert ran.status == 7
    assert "0 requests" in ran.err
    assert not list((place.folder / "run" / "embedded").glob("*"))
