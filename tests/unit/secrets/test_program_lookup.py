"""A program is guarded where it is found: both are asked of the same words, and have to agree."""

from __future__ import annotations

from pathlib import Path

from egress.secrets.child_environment import ChildEnvironment
from egress.secrets.command import CommandSecretSource
from egress.secrets.program_lookup import ProgramLookup
from tests.unit.secrets.secret_samples import SYSTEM_PATH, script


def test_it_is_found_where_it_is_said_to_be(tmp_path: Path) -> None:
    """By this a sandbox is kept from writing it."""
    one = script(tmp_path, "echo token-123", "get")
    environ = {"PATH": f".:relative:{tmp_path}:{SYSTEM_PATH}", "HOME": str(tmp_path)}
    programs = ProgramLookup.of_environ(environ)
    for word in ("get", "~/get", str(one)):
        assert programs.find(word) == str(one)
        assert (
            CommandSecretSource((word,), ChildEnvironment(environ)).fetch().secret_named("x").reveal()
            == b"token-123"
        )
    assert [programs.find(word) for word in ("./get", "", "nothing-of-that-name")] == [None, None, None]
    assert programs.folders == (str(tmp_path), *SYSTEM_PATH.split(":"))
    assert (
        ProgramLookup.of_environ({"HOME": "x", "PATH": ""}).home,
        ProgramLookup.of_environ({"PATH": ""}).folders,
    ) == ("/", ())
