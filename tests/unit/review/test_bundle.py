"""Making a bundle: what is in it, and what may not stop it."""

from __future__ import annotations

import json
import sqlite3
import stat
import zipfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from egress.audit import verify
from egress.errors import UnreadableError
from egress.review import Filters, Index
from egress.review.bundle import Made, Order, RuleFile, leaves, make
from egress.review.merkle import leaf
from egress.review.retention import Retention, prune
from egress.review.signing import read_or_create
from tests.unit.audit.sample import KEY, files
from tests.unit.review.sample import START, write


def made(
    folder: Path, filters: Filters | None = None, *, rotate_at: int = 900, name: str = "out.zip"
) -> Made:
    log = folder / "log"
    if not log.exists():
        write(log, rotate_at=rotate_at)
    rules = [RuleFile("1-hosts.yaml", b"version: 1\n")]
    order = Order(filters or Filters(), verify(log, KEY), rules, "5f2b8c0d", START)
    return make(folder / name, log, order, read_or_create(folder / "key"))


def test_the_lines_are_as_they_are(tmp_path: Path) -> None:
    found = made(tmp_path)
    raw = b"".join(file.read_bytes() for file in files(tmp_path / "log"))
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        assert archive.read("lines.jsonl") == raw
        assert archive.read("proof") == b""
        assert archive.testzip() is None
    assert found.lines == found.leaves == raw.count(b"\n")
    assert stat.S_IMODE((tmp_path / "out.zip").stat().st_mode) == 0o600


def test_it_says_what_it_was_made_of(tmp_path: Path) -> None:
    found = made(tmp_path, Filters(sandbox="bob"))
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        statement = json.loads(archive.read("statement.json"))
        summary = json.loads(archive.read("summary.json"))
        assert archive.read("rules/1-hosts.yaml") == b"version: 1\n"
    assert found.lines == 1
    assert statement["taken"] == {"lines": 1, "filters": {"sandbox": "bob"}}
    assert statement["log"]["sound"] is True
    assert statement["policies"] == {"5f2b8c0d": {"lines": 1, "files": ["1-hosts.yaml"]}}
    assert statement["key"] == found.fingerprint
    assert set(statement["members"]) == {"lines.jsonl", "proof", "summary.json", "rules/1-hosts.yaml"}
    assert summary["secret"] == {"mail": 1, "github": 1}


def test_it_says_who_deleted_what_came_before(tmp_path: Path) -> None:
    write(tmp_path / "log", rotate_at=900)
    made(tmp_path)
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        assert json.loads(archive.read("statement.json"))["log"]["pruned"] is None
    found = prune(tmp_path / "log", KEY, Retention(files=3), by="root", now=START)
    made(tmp_path, name="pruned.zip")
    with zipfile.ZipFile(tmp_path / "pruned.zip") as archive:
        told = json.loads(archive.read("statement.json"))["log"]["pruned"]
    assert (told["by"], told["files"], told["size"]) == ("root", len(found.files), found.size)
    assert told["at"] == "2026-03-01T09:30:00.000123Z"


def test_a_bundle_of_the_same_log_has_the_same_root(tmp_path: Path) -> None:
    whole = made(tmp_path)
    part = made(tmp_path, Filters(verdict="deny"), name="part.zip")
    none = made(tmp_path, Filters(host="nowhere"), name="none.zip")
    assert whole.root == part.root == none.root
    assert (part.lines, none.lines) == (2, 0)


def test_an_index_that_was_changed_hides_no_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    write(log, rotate_at=900)
    with Index(log, reserve=0) as index:
        index.catch_up()
        place = index.place
    with closing(sqlite3.connect(place)) as changed, changed:
        changed.execute("UPDATE shape SET host = 'elsewhere'")
    with Index(log, reserve=0) as index:
        assert not index.query(Filters(host="mail.example.com")).entries
    assert made(tmp_path, Filters(host="mail.example.com")).lines == 1


def test_a_log_that_is_another_one_since_it_was_checked_is_not_signed(tmp_path: Path) -> None:
    made(tmp_path)
    checked = verify(tmp_path / "log", KEY)
    order = Order(Filters(), replace(checked, mac="0" * 64), now=START)
    with pytest.raises(UnreadableError, match="was changed while it was exported"):
        make(tmp_path / "other.zip", tmp_path / "log", order, read_or_create(tmp_path / "key"))
    files(tmp_path / "log")[0].unlink()
    order = Order(Filters(), checked, now=START)
    with pytest.raises(UnreadableError, match="was changed while it was exported"):
        make(tmp_path / "other.zip", tmp_path / "log", order, read_or_create(tmp_path / "key"))
    assert not (tmp_path / "other.zip").exists()


def test_every_line_of_a_file_is_a_leaf_whatever_it_is(tmp_path: Path) -> None:
    long = b"y" * 300_000
    data = b"a\n\nb#\n" + long + b"\nrest"
    (tmp_path / "audit-000001.jsonl").write_bytes(data)
    expected = [(0, leaf(b"a"), b"a"), (2, leaf(b""), b""), (3, leaf(b"b#"), b"b#"), (6, leaf(long), b"")]
    assert list(leaves(tmp_path, 1, len(data) - 4)) == expected
    assert list(leaves(tmp_path, 1, 3)) == expected[:2]


def test_a_file_that_is_there_is_kept_and_a_failure_leaves_none(tmp_path: Path) -> None:
    made(tmp_path)
    with pytest.raises(UnreadableError, match="already"):
        made(tmp_path)
    with (
        patch("egress.review.bundle._json", side_effect=OSError(28, "No space left")),
        pytest.raises(UnreadableError, match="no space left"),
    ):
        made(tmp_path, name="other.zip")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("other")]


def test_a_file_that_was_laid_in_its_way_is_not_written_to(tmp_path: Path) -> None:
    """Neither one that others may read, nor another name of a file that is dear to somebody."""
    (tmp_path / "out.zip.new").touch()
    (tmp_path / "out.zip.new").chmod(0o666)
    made(tmp_path)
    assert stat.S_IMODE((tmp_path / "out.zip").stat().st_mode) == 0o600
    dear = tmp_path / "dear"
    dear.write_text("mine")
    for name, lay in (("hard.zip", "hardlink_to"), ("soft.zip", "symlink_to")):
        getattr(tmp_path / f"{name}.new", lay)(dear)
        made(tmp_path, name=name)
        assert zipfile.is_zipfile(tmp_path / name)
        assert not (tmp_path / name).is_symlink()
        assert dear.read_text() == "mine"
