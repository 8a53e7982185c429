"""Checking a bundle: one that was touched in any way is not taken for sound."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egress.errors import EgressError, UnreadableError
from egress.review import Filters
from egress.review.evidence_check import check
from egress.review.evidence_key import read_or_create
from tests.unit.review.test_evidence_bundle import made

TAKEN = Filters(verdict="deny")


def rewritten(path: Path, change: dict[str, bytes | None]) -> Path:
    """The same bundle with other members."""
    with zipfile.ZipFile(path) as old:
        members: dict[str, bytes | None] = {name: old.read(name) for name in old.namelist()}
    other = path.with_name("other.zip")
    with zipfile.ZipFile(other, "w") as new:
        for name, data in (members | change).items():
            if data is not None:
                new.writestr(name, data)
    return other


def member(path: Path, name: str) -> bytes:
    with zipfile.ZipFile(path) as archive:
        return archive.read(name)


def test_a_bundle_needs_nothing_else(tmp_path: Path) -> None:
    fingerprint = made(tmp_path, TAKEN).fingerprint
    found = check(tmp_path / "out.zip")
    assert found.is_sound
    assert found.fingerprint == fingerprint
    assert found.part("taken")["lines"] == 2
    assert check(tmp_path / "out.zip", fingerprint).is_sound
    assert check(tmp_path / "out.zip", "sha256:" + "0" * 64).faults == (
        "the bundle was signed with a key other than the expected one",
    )


@pytest.mark.parametrize("name", ["lines.jsonl", "proof", "summary.json", "rules/1-hosts.yaml"])
def test_a_member_that_was_changed_or_is_missing_is_told(name: str, tmp_path: Path) -> None:
    made(tmp_path, TAKEN)
    path = tmp_path / "out.zip"
    data = member(path, name)
    assert any("changed" in fault for fault in check(rewritten(path, {name: data + b" \n"})).faults)
    assert any("changed" in fault for fault in check(rewritten(path, {name: data[:-1]})).faults)
    assert any("missing" in fault for fault in check(rewritten(path, {name: None})).faults)


def test_a_statement_that_was_changed_says_nothing(tmp_path: Path) -> None:
    made(tmp_path, TAKEN)
    path = tmp_path / "out.zip"
    data = member(path, "statement.json").replace(b'"lines": 2', b'"lines": 3')
    found = check(rewritten(path, {"statement.json": data}))
    assert found.faults == ("the statement was changed: its signature is invalid",)
    assert found.statement == {}


def test_lines_that_somebody_else_signed_show_it_by_the_key(tmp_path: Path) -> None:
    """All that a forger can do is sign with a key of their own; the fingerprint is another one then."""
    first = made(tmp_path, TAKEN).fingerprint
    key = read_or_create(tmp_path / "forged")
    path = tmp_path / "out.zip"
    statement = json.loads(member(path, "statement.json"))
    data = json.dumps(statement).encode()
    from egress.review.evidence_key import public

    other = rewritten(path, {"statement.json": data, "signature": key.sign(data), "key.pem": public(key)})
    found = check(other, first)
    assert found.fingerprint != first
    assert len(found.faults) == 2


def test_a_statement_that_lies_about_the_tree_is_found(tmp_path: Path) -> None:
    made(tmp_path, TAKEN)
    path = tmp_path / "out.zip"
    key = read_or_create(tmp_path / "key")
    for change in ({"leaves": 3}, {"leaves": -1}, {"root": "00"}, {"leaves": "x"}):
        statement = json.loads(member(path, "statement.json"))
        statement["log"].update(change)
        data = json.dumps(statement).encode()
        assert len(check(rewritten(path, {"statement.json": data, "signature": key.sign(data)})).faults) == 1


def test_members_that_nobody_named_are_told(tmp_path: Path) -> None:
    made(tmp_path, TAKEN)
    (fault,) = check(rewritten(tmp_path / "out.zip", {"more": b"x"})).faults
    assert "does not list" in fault


@settings(deadline=None)
@given(st.floats(0, 1, exclude_max=True), st.integers(1, 255))
def test_one_changed_byte_is_found_or_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, at: float, byte: int
) -> None:
    path = shared(tmp_path_factory)
    data = path.read_bytes()
    place = int(at * len(data))
    other = path.with_name("flipped.zip")
    other.write_bytes(data[:place] + bytes([data[place] ^ byte]) + data[place + 1 :])
    try:
        found = check(other)
    except EgressError:
        return
    if found.is_sound:
        assert found.statement == check(path).statement


def shared(factory: pytest.TempPathFactory) -> Path:
    folder = factory.getbasetemp() / "evidence"
    if not (folder / "out.zip").exists():
        folder.mkdir()
        made(folder, TAKEN)
    return folder / "out.zip"


@pytest.mark.parametrize("data", [b"", b"no zip", b"PK\x05\x06" + bytes(18)])
def test_what_is_no_bundle_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(UnreadableError, match="not an evidence bundle"):
        check(tmp_path / "x")
    with pytest.raises(UnreadableError, match="cannot read the bundle"):
        check(tmp_path / "none")


@pytest.mark.parametrize(
    "change",
    [
        {"key.pem": b"x"},
        {"signature": bytes(65)},
        {"signature": b""},
        {"key.pem": None},
        {"statement.json": None},
    ],
)
def test_a_bundle_without_its_parts_is_none(change: dict[str, bytes | None], tmp_path: Path) -> None:
    made(tmp_path, TAKEN)
    other = rewritten(tmp_path / "out.zip", change)
    if change == {"signature": b""}:
        assert not check(other).is_sound
        return
    with pytest.raises(UnreadableError, match="not an evidence bundle"):
        check(other)
