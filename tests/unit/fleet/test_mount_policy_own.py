"""Where Egress's own code is: everything that it imported, and what will be looked at next time."""

from __future__ import annotations

import sys
from pathlib import Path

import egress
from egress.fleet.mount_policy import own_code_paths
from tests.unit.secrets.secret_samples import script


def is_in(path: Path, places: tuple[Path, ...]) -> bool:
    return any(path.is_relative_to(place) or path.is_relative_to(place.resolve()) for place in places)


def test_all_that_egress_imports_lies_there() -> None:
    places = own_code_paths({})
    assert Path(egress.__file__).parent in places
    own = [module for name, module in sys.modules.items() if name.split(".")[0] in OURS]
    files = [Path(file) for module in own if (file := getattr(module, "__file__", None))]
    assert len(files) > len(OURS)
    assert [file for file in files if not is_in(file, places)] == []
    assert is_in(Path(sys.executable).resolve(), places)


OURS = {"egress", "json", "site", "structlog", "pydantic", "click"}


def test_nothing_that_is_no_code_of_it_lies_there(tmp_path: Path) -> None:
    assert not any(
        tmp_path.is_relative_to(place) or place.is_relative_to(tmp_path) for place in own_code_paths({})
    )
    assert not any(Path("/usr/share").is_relative_to(place) for place in own_code_paths({}))


def test_the_program_that_will_be_started_and_pythonpath_count(tmp_path: Path) -> None:
    program = script(tmp_path, "true", "egress")
    modules = tmp_path / "modules"
    places = own_code_paths({"PATH": f"{tmp_path}:/usr/bin", "PYTHONPATH": f"{modules}:"})
    assert {program, modules, Path.cwd()} <= set(places)
