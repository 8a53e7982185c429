"""The table of GitHub's schema: consistent with itself, and closed where it has to be."""

from __future__ import annotations

import json

import pytest

from egress.inspect.graphql.github.schema_data import SCHEMA

DATA = json.loads(SCHEMA)


def test_the_table_leads_to_types_that_it_has() -> None:
    """A type without rows would make all its fields unknown; a slot of no kind would stand for anything."""
    kinds = {"", "id", "people", "repository", "local", "closed", *DATA["inputs"]}
    rows = [text for each in DATA["objects"].values() for text in each.get("inside", {}).values()]
    targets = {text.split()[0] for text in rows} - {"-"}
    assert targets | {pair.split()[0] for pair in DATA["mutations"].values()} <= DATA["objects"].keys()
    rows += [text for each in DATA["objects"].values() for text in each.get("stub", {}).values()]
    slots = [slot for text in rows for slot in text.split()[1:]]
    slots += [slot for text in DATA["inputs"].values() for slot in text.split()]
    assert {slot.partition(":")[2] for slot in slots} <= kinds
    assert {pair.split()[1] for pair in DATA["mutations"].values()} <= DATA["inputs"].keys()


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        ("Repository", "forks"),
        ("Repository", "tempCloneToken"),
        ("Repository", "vulnerabilityAlerts"),
        ("Topic", "repositories"),
        ("Ref", "compare"),
    ],
)
def test_what_leads_out_is_closed(owner: str, name: str) -> None:
    assert name in DATA["objects"][owner]["closed"].split()


def test_repositories_are_reached_as_stubs_alone() -> None:
    """The one repository that a document may read whole is that of its root field."""
    found = [
        (owner, name)
        for owner, rows in DATA["objects"].items()
        for name, text in rows.get("inside", {}).items()
        if text.split()[0] in ("Repository", "RepositoryConnection", "User", "Organization", "Actor", "Team")
    ]
    assert found == []


def test_a_mutation_that_needs_what_is_in_no_repository_is_not_there() -> None:
    for name in (
        "updateEnvironment",
        "createProjectV2",
        "updateEnterpriseProfile",
        "cloneTemplateRepository",
    ):
        assert name not in DATA["mutations"]
    assert "createIssue" in DATA["mutations"]
