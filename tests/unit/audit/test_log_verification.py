"""Verifying a log of several chains: what was changed, cut or deleted is found, and in which chain."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from egress.audit import verify_log
from egress.audit.chain_register import REGISTER
from egress.errors import UnreadableError
from egress.review.pruning import Retention, prune
from tests.tiers import examples
from tests.unit.audit.chained_log import copied, faults, opened_log, sound_log, write_chains
from tests.unit.audit.sample import KEY, opened
from tests.unit.audit.tampering import KINDS, Change


@pytest.fixture
def log(tmp_path: Path) -> Path:
    write_chains(tmp_path / "log", 3)
    return tmp_path / "log"


def put_back(log: Path, copy: Path, *names: str) -> None:
    """Put files and folders of a log back to what a copy has."""
    for name in names:
        if (copy / name).is_dir():
            shutil.rmtree(log / name, ignore_errors=True)
            shutil.copytree(copy / name, log / name)
        else:
            shutil.copy2(copy / name, log / name)


def test_every_chain_is_told_with_its_end(log: Path) -> None:
    found = sound_log(log)
    assert [(chain.place, chain.found.newest) for chain in found.chains] == [
        (".", 3),
        ("chains/0002", 4),
        ("chains/0003", 5),
    ]
    assert (found.lines, found.files, found.unfinished) == (12, 3, 0)


@pytest.mark.parametrize("chain", ["", "chains/0002/", "chains/0003/"])
def test_a_changed_line_is_found_in_its_chain_alone(chain: str, log: Path) -> None:
    file = log / f"{chain}audit-000001.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"reloaded"', b'"relOaded"', 1))
    assert faults(log) == [("altered", f"{chain}audit-000001.jsonl")]


@pytest.mark.parametrize("chain", ["", "chains/0002/", "chains/0003/"])
def test_a_cut_tail_is_found(chain: str, log: Path) -> None:
    file = log / f"{chain}audit-000001.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))
    assert faults(log) == [("cut", f"{chain}audit-000001.jsonl")]


@pytest.mark.parametrize("name", ["0002", "0003"])
def test_a_deleted_chain_is_found(name: str, log: Path) -> None:
    shutil.rmtree(log / "chains" / name)
    assert faults(log) == [("chain", f"chains/{name}")]


def test_a_chain_whose_files_are_gone_is_found(log: Path) -> None:
    for path in (log / "chains/0002").iterdir():
        path.unlink()
    for path in log.glob("[ahi]*"):
        path.unlink()
    assert faults(log) == [("chain", "."), ("chain", "chains/0002")]


def test_a_deleted_register_is_found(log: Path) -> None:
    (log / REGISTER).unlink()
    assert faults(log) == [("register", REGISTER)]


def test_a_changed_register_is_found(log: Path) -> None:
    data = (log / REGISTER).read_bytes()
    (log / REGISTER).write_bytes(data.replace(b"0003", b"0004"))
    assert faults(log) == [("register", REGISTER)]


def test_a_chain_that_was_put_back_is_found_by_the_register(log: Path) -> None:
    """By itself it is sound: its files and its head are of one moment."""
    copy = copied(log, "copy")
    sinks = [opened_log(log), opened_log(log)]
    for sink in sinks:
        sink.close()
    put_back(log, copy, "chains/0002")
    assert faults(log) == [("cut", "chains/0002/audit-000001.jsonl")]


def test_other_lines_in_place_of_those_that_were_registered_are_found(log: Path) -> None:
    """Its key was used by a proxy that wrote on from an older state: as many lines, and not the same."""
    copy = copied(log, "copy")
    sinks = [opened_log(log), opened_log(log)]
    for sink in sinks:
        sink.close()
    put_back(log, copy, "chains/0002")
    sink = opened(log / "chains/0002")
    sink.event("stopped", reason="another")
    sink.event("stopped", reason="another")
    sink.close()
    assert faults(log) == [("altered", "chains/0002/audit-000001.jsonl")]


def test_a_register_that_was_put_back_is_found_by_the_count_in_a_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    write_chains(log, 2)
    copy = copied(log, "copy")
    sinks = [opened_log(log) for _ in range(3)]
    for sink in sinks:
        sink.close()
    opened_log(log).close()
    put_back(log, copy, REGISTER)
    shutil.rmtree(log / "chains/0003")
    assert faults(log) == [("register", REGISTER)]


def test_what_is_not_found_is_a_chain_and_a_register_put_back_before_another_start(tmp_path: Path) -> None:
    """The limit that the reference states: keep the printed ends elsewhere."""
    log = tmp_path / "log"
    held = opened_log(log)
    copy = copied(log, "copy")
    opened_log(log).close()
    put_back(log, copy, REGISTER)
    shutil.rmtree(log / "chains/0002")
    held.close()
    assert faults(log) == []


@pytest.mark.parametrize("chain", [".", "chains/0002", "chains/0003"])
@pytest.mark.parametrize("place", ["chains/0009", "../runs/0123abcd/audit"])
def test_a_copy_of_a_chain_is_found_although_each_of_its_lines_is_authentic(
    chain: str, place: str, log: Path
) -> None:
    (log / place).parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(log / chain, log / place, ignore=shutil.ignore_patterns("chains"))
    assert faults(log) == [("foreign", place)]
    # A start goes on in one of them, and enters it into the register.
    opened_log(log).close()
    assert ("foreign", place) in faults(log)


def test_an_older_state_of_a_chain_beside_it_is_found(tmp_path: Path) -> None:
    """Also where each has lines that the other has not, in further files."""
    log = tmp_path / "log"
    opened_log(log).close()
    (log / "chains/0009").mkdir(parents=True)
    for file in log.iterdir():
        if file.is_file():
            shutil.copy2(file, log / "chains/0009")
    later = opened_log(log)
    later.begin_file()
    later.event("reloaded", policy="later")
    later.close()
    assert faults(log) == [("foreign", "chains/0009")]


def test_a_log_that_is_written_meanwhile_is_sound(tmp_path: Path) -> None:
    log, sinks = tmp_path / "log", []
    for number in range(4):
        sinks.append(opened_log(log))
        sinks[0].event("reloaded")
        assert len(sound_log(log).chains) == number + 1
    (log / "chains/0005").mkdir()
    sound_log(log)
    for sink in sinks:
        sink.close()


def test_pruned_chains_stay_sound_although_their_registered_lines_are_gone(log: Path) -> None:
    sinks = [opened_log(log) for _ in range(3)]
    for sink in sinks:
        sink.begin_file()
        sink.close()
    assert len(prune(log, KEY, Retention(files=1), by="root", now=0).files) == 3
    assert [place for place, _ in sound_log(log).prunings] == [".", "chains/0002", "chains/0003"]


def test_without_a_log_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="there is no audit log"):
        verify_log(tmp_path, KEY)
    with pytest.raises(UnreadableError, match="no such file"):
        verify_log(tmp_path / "none", KEY)


def test_another_key_is_refused(log: Path) -> None:
    with pytest.raises(UnreadableError, match="not written with this key"):
        verify_log(log, bytes(32))


CHANGE = st.builds(Change, st.sampled_from(KINDS), st.floats(0, 1, exclude_max=True), st.integers(1, 255))


@settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(change=CHANGE, which=st.integers(0, 100))
def test_no_change_of_any_file_goes_unseen(log: Path, change: Change, which: int) -> None:
    paths = sorted(path for path in log.rglob("*") if path.is_file() and path.name != "in-flight")
    path = paths[which % len(paths)]
    before = path.read_bytes()
    after = change.apply(before)
    path.write_bytes(after)
    try:
        found = verify_log(log, KEY)
        assert found.is_sound == (before == after), (path, change)
    except UnreadableError:
        assert before != after
    finally:
        path.write_bytes(before)
