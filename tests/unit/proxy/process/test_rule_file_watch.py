"""Every way in which rule files change is noticed, and what is no change is not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import watchfiles

from egress.proxy.process.rule_file_watch import changes, fingerprint, folders


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "etc" / "hosts.yaml"
    path.parent.mkdir()
    path.write_text("one", encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "hosts.d"
    path.mkdir()
    (path / "a.yaml").write_text("one", encoding="utf-8")
    return path


def rename(path: Path) -> None:
    new = path.with_suffix(".new")
    new.write_text("two", encoding="utf-8")
    new.replace(path)


def swap_link(path: Path) -> None:
    """The way a volume of Kubernetes changes: all through one link that is swapped."""
    versions = path.parent / "..1", path.parent / "..2"
    for number, version in enumerate(versions):
        version.mkdir()
        (version / path.name).write_text(f"version {number}", encoding="utf-8")
    data = path.parent / "..data"
    data.symlink_to(versions[0].name)
    path.unlink()
    path.symlink_to(f"..data/{path.name}")


def become_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


CHANGES: dict[str, Callable[[Path], object]] = {
    "written": lambda path: path.write_text("two", encoding="utf-8"),
    "written longer": lambda path: path.write_text("one and two", encoding="utf-8"),
    "renamed over": rename,
    "removed": lambda path: path.unlink(),
    "emptied": lambda path: os.truncate(path, 0),
    "made a folder": become_folder,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_a_file_shows(change: str, rules: Path) -> None:
    os.utime(rules, ns=(1, 1))
    before = fingerprint([rules])
    assert fingerprint([rules]) == before
    CHANGES[change](rules)
    assert fingerprint([rules]) != before


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_in_a_folder_shows(change: str, folder: Path) -> None:
    os.utime(folder / "a.yaml", ns=(1, 1))
    before = fingerprint([folder])
    CHANGES[change](folder / "a.yaml")
    assert fingerprint([folder]) != before


def test_a_new_file_in_a_folder_shows_and_a_hidden_one_does_not(folder: Path) -> None:
    before = fingerprint([folder])
    (folder / ".a.yaml.swp").write_text("", encoding="utf-8")
    assert fingerprint([folder]) == before
    (folder / "b.yaml").write_text("", encoding="utf-8")
    assert fingerprint([folder]) != before


def test_a_link_that_is_swapped_shows(rules: Path) -> None:
    swap_link(rules)
    before = fingerprint([rules])
    new = rules.parent / "..new"
    new.symlink_to("..2")
    new.replace(rules.parent / "..data")
    assert fingerprint([rules]) != before


def test_what_is_not_there_has_a_fingerprint_too(tmp_path: Path) -> None:
    missing = tmp_path / "no" / "hosts.yaml"
    before = fingerprint([missing])
    missing.parent.mkdir()
    missing.write_text("", encoding="utf-8")
    assert fingerprint([missing]) != before


def test_folders_around_a_file_and_its_target_are_watched(rules: Path, folder: Path, tmp_path: Path) -> None:
    assert folders([rules]) == (rules.parent,)
    assert folders([folder]) == (tmp_path, folder)
    link = tmp_path / "link.yaml"
    link.symlink_to(rules)
    assert folders([link]) == (tmp_path, rules.parent)
    assert folders([tmp_path / "no" / "hosts.yaml"]) == ()


async def noticed(paths: list[Path], change: Callable[[], object]) -> int:
    """How many changes are noticed: at least one, or this never returns; and all until it is quiet."""
    found = 0
    watching = changes(paths, interval=0.02, settle=0.01)
    first = asyncio.ensure_future(anext(watching))
    while not first.done():
        change()
        # Sooner or later the watch has begun; a change before that is none.
        await asyncio.wait([first], timeout=0.1)
    found += 1
    await watching.aclose()  # type: ignore[attr-defined]
    return found


async def test_a_change_since_the_files_were_read_is_noticed(rules: Path) -> None:
    """Whoever saves a file in the moment between reading and watching is not overlooked."""
    before = fingerprint([rules])
    rename(rules)
    watching = changes([rules], before, interval=0.02, settle=0.01)
    await anext(watching)
    await watching.aclose()  # type: ignore[attr-defined]


async def test_without_a_change_there_is_nothing_to_notice(rules: Path) -> None:
    watching = changes([rules], fingerprint([rules]), interval=0.02, settle=0.01)
    first = asyncio.ensure_future(anext(watching))
    assert not (await asyncio.wait([first], timeout=0.2))[0]
    first.cancel()


async def test_a_change_is_noticed(rules: Path) -> None:
    assert await noticed([rules], lambda: rename(rules)) == 1


async def test_a_change_is_noticed_where_the_machine_gives_no_notices(
    rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no space left for watches")

    monkeypatch.setattr(watchfiles, "awatch", refuse)
    assert await noticed([rules], lambda: rename(rules)) == 1


async def test_a_file_that_comes_into_being_is_noticed(tmp_path: Path) -> None:
    missing = tmp_path / "later" / "hosts.yaml"

    def make() -> None:
        missing.parent.mkdir(exist_ok=True)
        missing.write_text("now", encoding="utf-8")

    assert await noticed([missing], make) == 1
