"""A program is guarded where it is found: both are asked of the same words, and have to agree."""

from __future__ import annotations

from pathlib import Path

from egress.secrets.command import CommandSource
from egress.secrets.programs import Programs
from egress.secrets.surroundings import Surroundings
from tests.unit.secrets.rig import SYSTEM_PATH, script


def test_it_is_found_where_it_is_said_to_be(tmp_path: Path) -> None:
    """By this a sandbox is kept from writing it."""
    one = script(tmp_path, "echo token-123", "get")
    environ = {"PATH": f".:relative:{tmp_path}:{SYSTEM_PATH}", "HOME": str(tmp_path)}
    programs = Programs.by(environ)
    for word in ("get", "~/get", str(one)):
        assert programs.found(word) == str(one)
        assert CommandSource((word,), Surroundings(environ)).look().named("x").reveal() == b"token-123"
    assert [programs.found(word) for word in ("./get", "", "nothing-of-that-name")] == [None, None, None]
    assert programs.folders == (str(tmp_path), *SYSTEM_PATH.split(":"))
    assert (Programs.by({"HOME": "x", "PATH": ""}).home, Programs.by({"PATH": ""}).folders) == ("/", ())
