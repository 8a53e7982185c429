"""A folder is listed with facts, by one command, up to a limit."""

from __future__ import annotations

import pytest

from egress.runtime.errors import PathNotFoundError, SandboxStateError
from egress.sandbox import paths
from egress.sandbox.command_runner import CommandRunner
from egress.sandbox.errors import FolderTooLargeError, PathKindError, PathOutsideError
from egress.sandbox.folder_list import _parse_entry, list_folder
from egress.sandbox.handle import Sandbox
from tests.unit.sandbox.contract import ODD
from tests.unit.sandbox.local_runtime import LocalRuntime


def place(box: Sandbox, runtime: LocalRuntime) -> CommandRunner:
    return CommandRunner(runtime, box.name)


def test_each_entry_has_its_name_and_facts(box: Sandbox, runtime: LocalRuntime) -> None:
    for name in ODD:
        box.files.write(f"odd/{name}", "12345", mode=0o640)
    box.exec("mkdir odd/.hidden; ln -s plain odd/link")
    found = {each.name: each.facts for each in list_folder(place(box, runtime), "odd")}
    assert list(found) == sorted([*ODD, ".hidden", "link"])
    assert {(found[name].kind, found[name].size, found[name].mode) for name in ODD} == {("file", 5, 0o640)}
    assert (found[".hidden"].is_folder, found["link"].is_link, found["link"].kind) == (True, True, "other")


def test_an_empty_folder_has_no_entries(box: Sandbox, runtime: LocalRuntime) -> None:
    assert list_folder(place(box, runtime), ".") == []


def test_a_folder_beyond_the_limit_is_refused(box: Sandbox, runtime: LocalRuntime) -> None:
    box.exec("touch 1 2 3")
    assert len(list_folder(place(box, runtime), ".", 3)) == 3
    with pytest.raises(FolderTooLargeError, match="more than 2 entries"):
        list_folder(place(box, runtime), ".", 2)
    box.exec('for n in 1 2 3 4 5 6 7 8 9; do touch "$n$(printf %0200d 0)"; done')
    with pytest.raises(FolderTooLargeError):
        list_folder(place(box, runtime), ".", 1)


def test_what_is_no_folder_of_the_workspace_is_refused(box: Sandbox, runtime: LocalRuntime) -> None:
    box.files.write("a", "")
    for path, error in (("a", PathKindError), ("no", PathNotFoundError), ("..", PathOutsideError)):
        with pytest.raises(error):
            list_folder(place(box, runtime), path)


@pytest.mark.parametrize(
    "said", [b"", b"81a4 3 1", b"81a4 3 1 ./", b"81a4 3 ./a", b"x 3 1 ./a", b"81a4 3 1 ./a/b"]
)
def test_what_is_no_entry_is_refused(said: bytes) -> None:
    with pytest.raises(ValueError, match=r"not an entry|not the facts of a file"):
        _parse_entry(said)


def test_a_list_of_another_program_is_refused(
    box: Sandbox, runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "FILES_SCRIPT", "printf 'what else/\\n'")
    with pytest.raises(SandboxStateError):
        list_folder(place(box, runtime), ".")
