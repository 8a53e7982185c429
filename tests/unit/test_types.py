"""The shared values: what they show of themselves, and what they refuse to show."""

from __future__ import annotations

import copy
import json
import pickle
import traceback

import pytest

from egress.types import Decision, HostDecision, Place, RuleRef, Secret, Slot, Verdict

VALUE = b"ghp_0123456789abcdefghijABCDEFGHIJ012345"
SECRET = Secret("github", VALUE)


def test_shows_a_place_the_way_editors_jump_to_it() -> None:
    assert str(Place("hosts.yaml", 3, 7)) == "hosts.yaml:3:7"


def test_shows_the_line_of_the_preset_behind_a_place() -> None:
    assert str(Place("hosts.yaml", 3, 7, "preset github:12")) == "hosts.yaml:3:7 (preset github:12)"


def test_names_a_rule_the_way_people_write_it() -> None:
    assert str(RuleRef("api.example.com", "read", Place("hosts.yaml", 3, 7))) == "api.example.com#read"


def test_names_a_slot_by_kind_and_name() -> None:
    assert str(Slot("header", "authorization")) == "header:authorization"
    assert str(Slot("path")) == "path"


def test_a_decision_is_allowed_only_by_its_verdict() -> None:
    assert Decision(Verdict.ALLOW, "rule.allowed").allowed
    assert not Decision(Verdict.DENY, "rule.allowed").allowed
    assert HostDecision(Verdict.ALLOW, "host.allowed").allowed
    assert not HostDecision(Verdict.DENY, "host.allowed").allowed


def test_reveals_a_secret_when_asked_outright() -> None:
    assert SECRET.reveal() == VALUE


@pytest.mark.parametrize(
    "shown",
    WAYS := [
        repr(SECRET),
        str(SECRET),
        f"{SECRET}",
        f"{SECRET!r:>60}",
        f"{[SECRET]} { ({'token': SECRET}) }",
        "%s %r" % (SECRET, SECRET),  # noqa: UP031 - the old operator is one of the ways to leak
        "{}".format(SECRET),  # noqa: UP032 - so is this one
    ],
    ids=range(len(WAYS)),
)
def test_shows_the_name_of_a_secret_and_nothing_of_its_value(shown: str) -> None:
    assert "github" in shown
    assert "ghp_" not in shown
    assert "0123456789" not in shown


def test_refuses_to_be_pickled_or_copied() -> None:
    """S-38: a value that can be copied ends up in a file or another process."""
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy, json.dumps):
        with pytest.raises(TypeError) as caught:
            attempt(SECRET)
        assert "ghp_" not in "".join(traceback.format_exception(caught.value))


def test_compares_secrets_by_identity_alone() -> None:
    """Equality of values would be an oracle, and a hash of the value would be in every dict's order."""
    assert Secret("github", VALUE) != Secret("github", VALUE)
    assert len({SECRET, SECRET, Secret("github", VALUE)}) == 2
