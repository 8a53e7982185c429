"""What is said of tools is what their tests prove, and no tool is left out in silence.

docs/works-with.json holds what was proven, docs/works-with.md shows it. Versions are those of the pins when
it was written.
"""

from __future__ import annotations

from scripts.works_with import declared_tools, tool_table

BOTH = ["docker", "namespace"]
RENEW = "run make tools, which writes it"


def test_the_table_says_of_each_tool_what_its_tests_declare() -> None:
    """No claim that no test proves, none that is missing, no settings but those the tests use."""
    known, found = declared_tools(), tool_table()
    assert set(found["tools"]) == set(known.rows), RENEW
    assert found["absent"] == dict(known.absent), RENEW
    for tool, row in found["tools"].items():
        assert {**row, "version": ""} == {**known.rows[tool], "version": ""}, f"{tool}: {RENEW}"
        unshown = set(row["cannot"]) - set(row["proves"])
        assert not unshown, f"{tool} cannot {unshown}, and no test shows it"


def test_every_tool_is_proven_in_both_runtimes() -> None:
    for tool, row in tool_table()["tools"].items():
        assert row["version"], tool
        assert row["proves"], tool
        for fact, runtimes in row["proves"].items():
            assert runtimes == BOTH, f"{tool}: {fact}"


def test_what_has_to_be_set_is_worth_a_look() -> None:
    """Nothing is the goal: a tool that newly wants something set is named here on purpose."""
    wanting = {tool for tool, row in tool_table()["tools"].items() if row["sets"]}
    # The two of AWS do nothing without a key, and with a dummy they get as far as the reason.
    assert wanting == {"git, for URLs of ssh", "boto3", "AWS CLI"}
