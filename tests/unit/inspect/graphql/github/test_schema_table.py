"""Rows of the table, read when they are first asked for."""

from __future__ import annotations

import pytest

from egress.inspect.graphql.github.schema_table import FieldRow, schema_table

TABLE = schema_table()


def test_the_table_is_loaded_once() -> None:
    assert schema_table() is TABLE


@pytest.mark.parametrize(
    ("owner", "name", "row"),
    [
        ("Repository", "name", FieldRow("inside", "", {})),
        ("Repository", "label", FieldRow("inside", "Label", {"name": ""})),
        ("Repository", "parent", FieldRow("stub", "Repository", {})),
        ("Repository", "forks", FieldRow("closed", "", {})),
        ("CheckRun", "isRequired", FieldRow("inside", "", {"pullRequestId": "id", "pullRequestNumber": ""})),
        ("Repository", "newField", None),
        ("NewType", "id", None),
    ],
)
def test_a_field_is_told_by_its_type(owner: str, name: str, row: FieldRow | None) -> None:
    assert TABLE.field(owner, name) == row
    assert TABLE.has(owner) is (owner != "NewType")


def test_a_mutation_takes_its_input_alone() -> None:
    assert TABLE.mutation("addComment") == FieldRow(
        "inside", "AddCommentPayload", {"input": "AddCommentInput"}
    )
    assert TABLE.mutation("newMutation") is None


def test_slots_of_an_input_hold_ids_people_and_addresses() -> None:
    slots = TABLE.input_slots("CreateIssueInput")
    assert slots is not None
    assert (slots["repositoryId"], slots["assigneeIds"], slots["title"]) == ("id", "people", "")
    assert TABLE.input_slots("CommittableBranch") == {
        "branchName": "",
        "id": "id",
        "repositoryNameWithOwner": "repository",
    }
    assert TABLE.input_slots("NewInput") is None


def test_a_stub_has_names_and_no_content() -> None:
    assert {"id", "login", "name", "nameWithOwner", "number", "title"} <= TABLE.stub_leaves
    assert not {"body", "bodyText", "email", "homepageUrl", "text", "tempCloneToken"} & TABLE.stub_leaves
    assert TABLE.stub_objects["fieldValueByName"] == {"name"}
    assert TABLE.stub_objects["owner"] == frozenset()
