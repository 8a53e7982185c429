"""What owners leave, on folders made for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from egress.runtime.fake import FakeProxyClient
from egress.runtime.namespace import reaper
from egress.runtime.owner_lock import OwnerLock


def left(home: Path, name: str, lease: str) -> Path:
    folder = home / f"of-{name}"
    folder.mkdir()
    groups = home / "groups"
    (groups / f"egress-{name}").mkdir(parents=True)
    reaper.write_note(folder, lease, name, [groups / f"egress-{name}"])
    return folder


def test_what_nobody_holds_is_removed_and_told(tmp_path: Path) -> None:
    home = tmp_path.resolve()
    gone = home / "gone.lease"
    with OwnerLock(home) as lease:
        kept = left(home, "kept", str(lease.path))
        left(home, "left", str(gone))
        (home / "strange").mkdir()
        gateway = FakeProxyClient()
        gateway.admit("left")
        assert reaper.reap(home, gateway) == ("left",)
        there = {"groups", kept.name, "strange", lease.path.name}
        assert {each.name for each in home.iterdir()} == there
        assert [each.name for each in (home / "groups").iterdir()] == ["egress-kept"]
        assert gateway.admitted == {}
    assert reaper.reap(tmp_path / "missing") == ()


def test_a_note_that_was_spoilt_does_no_harm(tmp_path: Path) -> None:
    home = tmp_path.resolve()
    for number, text in enumerate(("", "[]", '{"groups": 5}', '{"name": "x", "groups": ["/", "/etc"]}')):
        folder = home / str(number)
        folder.mkdir()
        reaper.write_note(folder, str(home / "gone.lease"), "x", [])
        (folder / "sandbox.json").write_text(text)
    assert reaper.reap(home) == ("x",)
    assert list(home.iterdir()) == []


def test_a_folder_is_removed_whatever_was_done_to_keep_it(tmp_path: Path) -> None:
    folder = tmp_path / "box"
    (folder / "a/b").mkdir(parents=True)
    (folder / "a/b/c").write_text("x")
    (folder / "out").symlink_to(tmp_path)
    (tmp_path / "mine").write_text("kept")
    subprocess.run(["chmod", "0", str(folder / "a/b"), str(folder / "a")], check=True)
    reaper.remove_folder(folder)
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def test_folders_deeper_than_a_path_is_long_are_removed_with_few_descriptors(tmp_path: Path) -> None:
    """A sandbox made some thousands, one in the other: they stayed, and took a descriptor each meanwhile."""
    folder = tmp_path / "box"
    folder.mkdir()
    make = "import os\nfor _ in range(3000): os.mkdir('d'); open('f', 'w').close(); os.chdir('d')"
    subprocess.run([sys.executable, "-c", make], cwd=folder, check=True)
    # In a process of its own: this one may have more open by now.
    clean = (
        "import resource, sys; from pathlib import Path; from egress.runtime.namespace import reaper\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); reaper.remove_folder(Path(sys.argv[1]))"
    )
    subprocess.run([sys.executable, "-c", clean, str(folder)], check=True)
    assert list(tmp_path.iterdir()) == []


def test_many_names_in_one_folder_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaper, "_BATCH_ENTRIES", 3)
    for number in range(20):
        (tmp_path / f"box/{number}").mkdir(parents=True)
        (tmp_path / f"box/file-{number}").touch()
    reaper.remove_folder(tmp_path / "box")
    assert list(tmp_path.iterdir()) == []
