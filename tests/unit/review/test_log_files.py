"""The files of a log: each with its number, which is the same for every process."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

from egress.audit import files
from egress.audit.verify import NoLogError
from egress.errors import UnreadableError
from egress.review.log_files import LogFiles, chain_key, file_number


def put(log: Path, *names: str) -> None:
    for name in names:
        (log / name).parent.mkdir(parents=True, exist_ok=True)
        (log / name).write_text("x" * 7)


def test_files_stand_chain_after_chain_and_the_newest_of_each_is_known(tmp_path: Path) -> None:
    log = tmp_path / "audit"
    put(log, "audit-000002.jsonl", "audit-000001.jsonl", "chains/0012/audit-000003.jsonl")
    found = list(LogFiles.of(log))
    assert [file.name for file in found] == [
        "audit-000001.jsonl",
        "audit-000002.jsonl",
        "chains/0012/audit-000003.jsonl",
    ]
    assert [file.number for file in found] == [1, 2, file_number(11, 3)]
    assert [file.is_newest for file in found] == [False, True, True]
    assert [file.size() for file in found] == [7, 7, 7]
    assert [chain_key(file.number) for file in found] == [0, 0, 11]


def test_a_file_of_an_older_version_keeps_its_number_when_others_come(tmp_path: Path) -> None:
    log = tmp_path / "audit"
    put(log, "audit-000001.jsonl", "../runs/4f2a9c1e/audit/audit-000001.jsonl")
    before = {file.name: file.number for file in LogFiles.of(log)}
    put(log, "../runs/00000000/audit/audit-000001.jsonl", "chains/0002/audit-000001.jsonl")
    after = {file.name: file.number for file in LogFiles.of(log)}
    assert {name: after[name] for name in before} == before
    assert len(set(after.values())) == 4
    assert max(after.values()) < 2**63, "it fits a database"


def test_two_chains_never_share_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names whose sums are equal, as the sums of two of some thousand may be."""
    monkeypatch.setattr("egress.review.log_files.crc32", lambda data: crc32(data) & 0)
    log = tmp_path / "audit"
    put(log, *(f"../runs/{number:08x}/audit/audit-000001.jsonl" for number in range(3)))
    assert len({file.number for file in LogFiles.of(log)}) == 3


def test_a_file_that_is_gone_has_no_size(tmp_path: Path) -> None:
    put(tmp_path, "audit-000001.jsonl")
    (file,) = LogFiles.of(tmp_path)
    file.path.unlink()
    assert file.size() == 0


def test_without_a_log_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(NoLogError, match="there is no audit log"):
        LogFiles.there(tmp_path)
    with pytest.raises(UnreadableError, match="cannot be read: no such file"):
        LogFiles.there(tmp_path / "none")


def test_a_chain_that_goes_away_meanwhile_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "audit-000001.jsonl", "chains/0002/audit-000001.jsonl", "chains/0003/audit-000001.jsonl")
    numbers = files.numbers

    def gone(folder: Path) -> list[int]:
        if folder.name == "0002":
            raise FileNotFoundError
        return numbers(folder)

    monkeypatch.setattr(files, "numbers", gone)
    assert [file.chain.place for file in LogFiles.of(tmp_path)] == [".", "chains/0003"]
