"""What clients are made of is fetched once, and whoever needs it is told when it could not be."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.proxy.clients import cache
from tests.proxy.clients.cache import Fetched

Folders = list[Path]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(cache, "ROOT", tmp_path)
    monkeypatch.setattr(cache, "UNDER_CI", False)
    (tmp_path / "pins").write_text("one==1\n")


def fetched(folder: Path, seen: Folders, *, works: bool = True) -> Fetched:
    def make(into: Path) -> None:
        seen.append(into)
        if not works:
            raise subprocess.SubprocessError("no index")

    return Fetched("stuff", (folder / "pins",), make)


def required(what: Fetched) -> list[tuple[str, object]]:
    """What a test that needs it leaves for the end of the run."""
    node = SimpleNamespace(user_properties=[])
    what.require(cast("pytest.FixtureRequest", SimpleNamespace(node=node)))
    return list(node.user_properties)


def test_it_is_made_once_and_not_again_in_another_run(tmp_path: Path) -> None:
    seen: Folders = []
    first, second = fetched(tmp_path, seen), fetched(tmp_path, seen)
    assert required(first) == required(first) == required(second) == []
    assert seen == [second.folder]


def test_other_pins_are_another_folder(tmp_path: Path) -> None:
    seen: Folders = []
    required(fetched(tmp_path, seen))
    (tmp_path / "pins").write_text("one==2\n")
    required(fetched(tmp_path, seen))
    assert len(set(seen)) == 2


def test_what_cannot_be_fetched_leaves_a_test_out_and_is_tried_once(tmp_path: Path) -> None:
    seen: Folders = []
    what = fetched(tmp_path, seen, works=False)
    for _ in range(2):
        with pytest.raises(pytest.skip.Exception, match="what pins names could not be fetched: no index"):
            required(what)
    assert len(seen) == 1


def test_under_ci_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "UNDER_CI", True)
    with pytest.raises(pytest.fail.Exception, match="no index"):
        required(fetched(tmp_path, [], works=False))


def test_what_was_half_made_is_made_again(tmp_path: Path) -> None:
    seen: Folders = []
    with pytest.raises(pytest.skip.Exception):
        required(fetched(tmp_path, seen, works=False))
    required(fetched(tmp_path, seen))
    assert len(seen) == 2


def test_a_step_that_fails_says_where_to_look(tmp_path: Path) -> None:
    with pytest.raises(subprocess.SubprocessError, match=r"^sh failed, \.log tells why$"):
        cache.work("sh", "-c", "echo no; exit 3", folder=tmp_path)
    assert (tmp_path / ".log").read_text() == "no\n"


def test_the_locks_hold_a_hash_for_everything_and_no_address_of_an_index() -> None:
    here = Path(__file__).parent
    for entry in (here / "requirements.lock").read_text().replace("\\\n", " ").splitlines():
        assert "--hash=sha256:" in entry
        assert "://" not in entry
    wanted = set((here / "requirements.in").read_text().split())
    assert wanted <= set(re.findall(r"^([\w-]+)==", (here / "requirements.lock").read_text(), re.MULTILINE))
    locks = list(here.glob("programs/*/package-lock.json"))
    assert locks
    for lock in locks:
        packages = json.loads(lock.read_text())["packages"]
        for name, package in packages.items():
            assert "resolved" not in package, f"{lock}: {name}"
            assert not name or package["integrity"], f"{lock}: {name}"
