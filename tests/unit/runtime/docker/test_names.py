"""Names say whose a container is, and are read again after a crash."""

from __future__ import annotations

import pytest

from egress.runtime.docker import names

CELL = "0123abcd"


@pytest.mark.parametrize(
    "sandbox", ["a", "one", "one-two", "door", "ready", "x.new", "workspace-1", "a" * 63]
)
def test_a_sandbox_is_found_by_the_name_of_its_container(sandbox: str) -> None:
    for name, is_started in ((names.assigned(sandbox, CELL), False), (names.started(sandbox, CELL), True)):
        assert (names.sandbox_of(name), names.is_started(name)) == (sandbox, is_started)


@pytest.mark.parametrize(
    "name", [names.unassigned(CELL), names.network(CELL), "egress-one", "other-one-0123abcd", ""]
)
def test_what_nobody_has_taken_is_nobodys(name: str) -> None:
    assert names.sandbox_of(name) == ""
    assert not names.is_started(name)


def test_no_two_things_have_one_name() -> None:
    kinds = (names.network, names.workspace, names.door, names.unassigned)
    shown = (names.image_volume(CELL, 0), names.image_volume(CELL, 1))
    assert len({*(kind(CELL) for kind in kinds), *shown}) == len(kinds) + len(shown)


@pytest.mark.parametrize("sandbox", ["a", "deadbeef", "image-deadbeef-1", "x.new", "door"])
def test_everything_of_a_cell_names_it(sandbox: str) -> None:
    made = (names.network, names.workspace, names.door, names.unassigned)
    taken = (names.assigned(sandbox, CELL), names.started(sandbox, CELL), names.image_volume(CELL, 12))
    assert {names.cell_of(each) for each in (*(kind(CELL) for kind in made), *taken)} == {CELL}


@pytest.mark.parametrize(
    "name", ["", "egress", "egress-one", "other-0123abcd", f"{names.workspace(CELL)}-owner"]
)
def test_what_is_of_no_cell_names_none(name: str) -> None:
    assert names.cell_of(name) == ""
