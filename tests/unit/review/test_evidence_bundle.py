"""Making a bundle: what is in it, and what may not stop it."""

from __future__ import annotations

import json
import sqlite3
import stat
import zipfile
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from unittest.mock import patch

import pytest

from egress.audit import verify_log
from egress.audit.verified_digest import VerifiedExtent
from egress.errors import UnreadableError
from egress.review import Filters, Index
from egress.review.evidence_bundle import BundledRuleFile, BundleRequest, BundleResult, leaves, make
from egress.review.evidence_key import read_or_create
from egress.review.line_reader import pieces
from egress.review.merkle import hash_leaf
from egress.review.pruning import Retention, prune
from tests.unit.audit.sample import KEY, files
from tests.unit.review.sample import START, write


def made(
    folder: Path, filters: Filters | None = None, *, rotate_at: int = 900, name: str = "out.zip"
) -> BundleResult:
    log = folder / "log"
    if not log.exists():
        write(log, rotate_at=rotate_at)
    rules = [BundledRuleFile("1-hosts.yaml", b"version: 1\n")]
    order = BundleRequest(
        filters or Filters(), verify_log(log, KEY, keeps_seen=True), rules, "5f2b8c0d", START
    )
    return make(folder / name, order, read_or_create(folder / "key"))


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


def checked(log: Path) -> BundleRequest:
    return BundleRequest(Filters(), verify_log(log, KEY, keeps_seen=True), now=START)


def is_refused(folder: Path, order: BundleRequest) -> bool:
    with pytest.raises(UnreadableError, match="changed during the export"):
        make(folder / "other.zip", order, read_or_create(folder / "key"))
    return not (folder / "other.zip").exists()


def blanked(lines: list[bytes]) -> list[bytes]:
    """One line says something else, and another is gone; a blank one holds its place."""
    return [lines[0], lines[1].replace(b"github", b"gitlab"), b"", *lines[3:]]


def altered(lines: list[bytes]) -> list[bytes]:
    return [lines[0], lines[1].replace(b"github", b"gitlab"), *lines[2:]]


def cut(lines: list[bytes]) -> list[bytes]:
    return [*lines[:-2], b""]


@pytest.mark.parametrize("change", [blanked, altered, cut])
def test_a_log_that_is_changed_after_it_was_checked_is_not_signed(
    change: Callable[[list[bytes]], list[bytes]], tmp_path: Path
) -> None:
    write(tmp_path / "log")
    order = checked(tmp_path / "log")
    file = files(tmp_path / "log")[0]
    data = file.read_bytes()
    file.write_bytes(b"\n".join(change(data.split(b"\n"))))
    assert file.read_bytes() != data
    assert is_refused(tmp_path, order)
    file.write_bytes(data)
    made(tmp_path)
    file.unlink()
    assert is_refused(tmp_path, order)


def test_what_is_written_after_it_was_checked_is_left_out(tmp_path: Path) -> None:
    log = tmp_path / "log"
    write(log)
    file = files(log)[0]
    before = file.read_bytes()
    file.write_bytes(before + b'{"seq":9')
    order = checked(log)
    file.write_bytes(before + b'{"seq":9,"time":"forged"}\n')
    (log / "audit-000002.jsonl").write_bytes(b'{"seq":10}\n')
    found = make(tmp_path / "out.zip", order, read_or_create(tmp_path / "key"))
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        assert archive.read("lines.jsonl") == before
    assert found.leaves == before.count(b"\n")


def test_a_file_in_front_of_the_log_is_no_part_of_it(tmp_path: Path) -> None:
    """`verify` begins at the anchor, so nobody checked it."""
    log = tmp_path / "log"
    write(log, rotate_at=900)
    first = files(log)[0]
    forged = first.read_bytes().replace(b"agent-1", b"agent-9")
    prune(log, KEY, Retention(files=3), by="root", now=START)
    assert not first.exists()
    first.write_bytes(forged)
    whole = b"".join(file.read_bytes() for file in files(log)[1:])
    assert checked(log).verified.is_sound
    made(tmp_path)
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        assert archive.read("lines.jsonl") == whole


def test_a_check_that_kept_nothing_is_no_ground_for_a_bundle(tmp_path: Path) -> None:
    write(tmp_path / "log")
    order = BundleRequest(Filters(), verify_log(tmp_path / "log", KEY), now=START)
    with pytest.raises(ValueError, match="keeps_seen"):
        make(tmp_path / "other.zip", order, read_or_create(tmp_path / "key"))
    assert not (tmp_path / "other.zip").exists()


def test_every_line_of_a_file_is_a_leaf_whatever_it_is(tmp_path: Path) -> None:
    long, longer = b"y" * 300_000, b"z" * (1 << 21)
    data = b"a\n\nb#\n" + long + b"\n" + longer + b"\n"
    (tmp_path / "audit-000001.jsonl").write_bytes(data + b"rest")
    expected = [
        *((0, hash_leaf(b"a"), b"a"), (2, hash_leaf(b""), b""), (3, hash_leaf(b"b#"), b"b#")),
        *((6, hash_leaf(long), b""), (300_007, hash_leaf(longer), b"")),
    ]
    assert list(leaves(tmp_path, VerifiedExtent(1, len(data), sha256(data).digest()))) == expected
    assert list(leaves(tmp_path, VerifiedExtent(1, 3, sha256(data[:3]).digest()))) == expected[:2]
    for size, digest in ((3, sha256(data).digest()), (2, sha256(data[:3]).digest()), (4, bytes(32))):
        with pytest.raises(UnreadableError, match="changed during"):
            list(leaves(tmp_path, VerifiedExtent(1, size, digest)))


def test_lines_never_go_for_one_that_is_too_long(tmp_path: Path) -> None:
    """The long line is read twice: to find its end, and for its leaf."""
    file = tmp_path / "audit-000001.jsonl"
    true = b"a\n" * 150_000
    file.write_bytes(b"y" * (len(true) - 1) + b"\n")
    with file.open("rb") as reading:
        found = list(pieces(reading))
    assert [piece.skipped for piece in found] == [len(true)]
    file.write_bytes(true)
    each = leaves(tmp_path, VerifiedExtent(1, len(true), sha256(true).digest()))
    with (
        patch("egress.review.evidence_bundle.pieces", return_value=found),
        pytest.raises(UnreadableError, match="changed during"),
    ):
        list(each)


def test_a_file_that_is_there_is_kept_and_a_failure_leaves_none(tmp_path: Path) -> None:
    made(tmp_path)
    with pytest.raises(UnreadableError, match="already"):
        made(tmp_path)
    with (
        patch("egress.review.evidence_bundle._json", side_effect=OSError(28, "No space left")),
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
