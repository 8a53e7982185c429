"""What is looked at keeps its values to itself."""

from __future__ import annotations

from pathlib import Path

from tests.unit.doctor.proxy_setups import patient

TOKEN = b"tok_A1b2C3d4E5f6G7h8I9j0"


def test_it_shows_neither_its_environment_nor_its_secrets(tmp_path: Path) -> None:
    found = patient(tmp_path, environ={"OTHER": "hidden-in-there"}, values={"TOKEN": TOKEN})
    assert TOKEN.decode() not in repr(found)
    assert "hidden-in-there" not in repr(found)


def test_settings_and_environment_are_those_it_was_given(tmp_path: Path) -> None:
    found = patient(tmp_path, environ={"OTHER": "x"}, sandbox="box")
    assert found.values.sandbox == "box"
    assert found.environ["OTHER"] == "x"
