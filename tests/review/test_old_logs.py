"""Logs that version 0.1.0 wrote: the same calls give the same bytes, and every command still reads them."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import cast

import pytest

from egress.audit import verify_log
from egress.audit.inflight import SLOT
from egress.audit.verify import verify
from egress.cli.log.line_format import as_csv, cells
from egress.review import Filters, Index, LogEntry, NotALineError, evidence_check, parse
from egress.review.evidence_bundle import BundleRequest, make
from egress.review.timeline import build_timeline
from tests.unit.audit.sample import KEY, files, kinds, opened, sound
from tests.unit.audit.samples import scenario

SAMPLES = Path(scenario.__file__).parent
LOGS = {"written": scenario.written, "killed": scenario.killed, "pruned": scenario.pruned}
ANSWERS = json.loads(gzip.decompress((SAMPLES / "answers.json.gz").read_bytes()))
"""What version 0.1.0 made of every line: what its index held of it, and what its commands printed."""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A copy of the log with every kind of line, to be indexed and written on."""
    return shutil.copytree(SAMPLES / "written", tmp_path / "audit")


def lines_of(log: Path) -> list[tuple[str, int, bytes]]:
    found = []
    for path in files(log):
        at = 0
        for line in path.read_bytes().split(b"\n")[:-1]:
            found.append((path.name, at, line))
            at += len(line) + 1
    return found


def answered() -> list[tuple[bytes, dict[str, object]]]:
    """Every line of the samples, and what the old version made of it."""
    found = [(line, place) for name in LOGS for *place, line in lines_of(SAMPLES / name)]
    assert [[answer["file"], answer["at"]] for answer in ANSWERS] == [place for _, place in found]
    return [(line, answer) for (line, _), answer in zip(found, ANSWERS, strict=True)]


@pytest.mark.parametrize("name", LOGS)
def test_the_same_calls_write_the_same_bytes(name: str, tmp_path: Path) -> None:
    LOGS[name](tmp_path / "log")
    for path in (SAMPLES / name).iterdir():
        written, before = (tmp_path / "log" / path.name).read_bytes(), path.read_bytes()
        if path.name == "in-flight" and name != "killed":
            # The old version kept the room for requests behind the counters.
            before = before[:SLOT]
        assert written == before, path.name


def test_an_old_log_is_sound_and_has_every_kind_of_line() -> None:
    for name in LOGS:
        sound(SAMPLES / name)
    found = {str(kind) for name in LOGS for kind in kinds(SAMPLES / name)}
    assert len(found) == 20


def test_a_changed_byte_of_an_old_log_is_found(old: Path) -> None:
    file = files(old)[0]
    data = bytearray(file.read_bytes())
    data[data.index(b"api.github.com")] ^= 1
    file.write_bytes(data)
    assert not verify(old, KEY).is_sound


def test_every_old_line_reads_as_before(capsys: pytest.CaptureFixture[str]) -> None:
    for line, answer in answered():
        if "kind" in answer:
            with pytest.raises(NotALineError) as raised:
                parse(line)
            assert raised.value.kind == answer["kind"]
            continue
        entry = parse(line)
        assert entry.fields == json.loads(line)
        assert [entry.seq, entry.moment] == [answer["seq"], answer["moment"]]
        # The note is the sentence that today's version has for a code.
        told = [[s.name, s.text, s.took_us, s.after_us] for s in build_timeline(entry)]
        story = cast("list[list[object]]", answer["story"])
        assert told == [[name, text, took, after] for name, text, took, _, after in story]
        assert [cell if isinstance(cell, str) else cell[0] for cell in cells(entry)] == answer["cells"]


def test_the_start_of_a_new_version_records_what_was_under_way(tmp_path: Path) -> None:
    log = shutil.copytree(SAMPLES / "killed", tmp_path / "audit")
    opened(log).close()
    assert kinds(log)[-3:] == ["gap", "lost", "lost"]
    sound(log)


def test_an_old_log_is_written_on(old: Path) -> None:
    sink = opened(old)
    sink.event("stopped", reason="SIGTERM")
    sink.close()
    assert sound(old).lines == 165


def test_an_index_finds_every_old_line(old: Path) -> None:
    with Index(old) as index:
        state = index.catch_up()
        assert (state.lines, state.odd, state.trouble) == (164, (("half", 1),), "")
        expected = [answer for _, answer in answered() if answer["log"] == "written" and "seq" in answer]
        found = list(index.each(Filters()))
        assert [entry.seq for entry in found] == [answer["seq"] for answer in expected]
        assert index.total(Filters()).requests == sum(requests_of(answer) for answer in expected)


def requests_of(answer: dict[str, object]) -> int:
    numbers = answer["numbers"]
    assert isinstance(numbers, list)
    return int(numbers[1])


def test_an_old_index_is_used_or_made_anew(old: Path) -> None:
    place = old / "index.sqlite3"
    place.write_bytes(gzip.decompress((SAMPLES / "index.sqlite3.gz").read_bytes()))
    place.chmod(0o640)
    with Index(old) as index:
        assert index.catch_up().lines == 164
        assert len(index.query(Filters(verdict="deny"), 100).entries) == 36


def test_old_evidence_is_still_sound() -> None:
    found = evidence_check.check(SAMPLES / "evidence.zip")
    assert (found.is_sound, found.part("taken").get("lines")) == (True, 36)


def test_an_old_log_is_exported(old: Path, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    order = BundleRequest(Filters(verdict="deny"), verify_log(old, KEY, keeps_seen=True))
    made = make(tmp_path / "evidence.zip", order, Ed25519PrivateKey.from_private_bytes(KEY))
    assert evidence_check.check(tmp_path / "evidence.zip", made.fingerprint).is_sound
    # The tree of hashes is over the bytes of the lines, so it names the same log as the old evidence.
    assert made.root == evidence_check.check(SAMPLES / "evidence.zip").part("log")["root"]


def test_an_old_log_is_printed_as_csv_as_before(capsys: pytest.CaptureFixture[str]) -> None:
    import csv
    import io

    found: list[tuple[LogEntry, dict[str, object]]] = [
        (parse(line), answer) for line, answer in answered() if "seq" in answer
    ]
    as_csv([entry for entry, _ in found], with_head=False)
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    # A field that came later has its column behind the old ones.
    assert [row[:20] for row in rows] == [answer["csv"] for _, answer in found]
