"""No case of the catalogue is without a test, and no test that is named has gone."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.attack.catalogue.case_coverage import CASES, ELSEWHERE, OF_PARTS_ALONE, WHOLE
from tests.attack.catalogue.case_index import (
    IN_SANDBOXES,
    SHARED,
    decorations,
    functions,
    held_here,
    held_in_sandboxes,
)

TESTS = Path(__file__).parents[2]


def test_every_case_has_a_test() -> None:
    held = {*held_here(), *WHOLE, *ELSEWHERE, *held_in_sandboxes()}
    assert [number for number in CASES if number not in held] == []


def test_every_case_is_tried_on_the_whole() -> None:
    """From outside of the proxy, or from inside of a sandbox: tests of parts miss what lies between them."""
    tried = {*held_here(), *WHOLE, *held_in_sandboxes()}
    assert [number for number in CASES if number not in tried] == [*OF_PARTS_ALONE]


def test_no_case_is_made_up() -> None:
    assert {*held_here(), *WHOLE, *ELSEWHERE, *held_in_sandboxes()} <= {*CASES}


def test_what_a_sandbox_may_try_is_tried_from_inside_of_both_kinds() -> None:
    held = held_in_sandboxes()
    for number in ("S-40", "S-41", *(f"S-{each}" for each in range(44, 54))):
        nodes = held.get(number, ())
        kinds = {"namespace" in node for node in nodes}
        assert kinds == {False, True} or any(node.startswith(SHARED) for node in nodes), number


def test_both_kinds_of_sandboxes_are_held_to_the_list_that_they_share() -> None:
    for file in (file for file in IN_SANDBOXES if file.endswith("/test_escapes.py")):
        tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
        bases = [
            base.id
            for node in tree.body
            if isinstance(node, ast.ClassDef) and node.name.startswith("Test")
            for base in node.bases
            if isinstance(base, ast.Name)
        ]
        assert bases == ["Escapes"], file


def test_every_test_that_is_named_exists() -> None:
    gone = []
    for nodes in (*ELSEWHERE.values(), *WHOLE.values()):
        for node in nodes:
            file, _, name = node.partition("::")
            if not (TESTS / file).is_file() or name not in functions(TESTS / file):
                gone.append(node)
    assert gone == []


def test_what_is_not_tried_on_the_naive_proxy_has_its_twin() -> None:
    lonely = []
    for file, name, call in decorations():
        # The reason may be a constant of the file; the twin is always named where it is needed.
        given = {
            word.arg: ast.literal_eval(word.value) if isinstance(word.value, ast.Constant) else ""
            for word in call.keywords
            if word.arg in {"naive", "twin"}
        }
        if given and (given.get("twin") not in functions(file) or given["twin"] == name):
            lonely.append(f"{file.name}::{name}")
    assert lonely == []
