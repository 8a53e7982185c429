"""`egress log verify`: what it finds, what it says to do, and its status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from egress.audit import key as keys
from egress.audit.checkpoint import FILE_NAME
from egress.audit.sink import Sink
from egress.cli.main import cli
from egress.errors import UnreadableError
from tests.unit.audit.sample import NAME, Clock, abandon, files


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log of three lines and its key, where `egress serve` keeps them."""
    monkeypatch.setenv("EGRESS_STATE_DIR", str(tmp_path))
    write(tmp_path)
    return tmp_path / "audit"


def opened(state: Path) -> Sink:
    key = keys.read_or_create(state / "audit.key", state / "audit")
    return Sink.open(state / "audit", key, clock=Clock(), in_flight=4)


def write(state: Path) -> None:
    sink = opened(state)
    for _ in range(3):
        sink.refusal(NAME)
    sink.close()


def run(*words: str) -> tuple[int, str]:
    """The status and what was said; an error of ours is raised, for `egress.cli.main` to show."""
    # Through `egress` itself: click keeps the help option that a group is first seen with.
    result = CliRunner().invoke(cli, ["log", "verify", *words], standalone_mode=False)
    if isinstance(result.exception, UnreadableError):
        raise result.exception
    assert result.exception is None, result.exception
    assert isinstance(result.return_value, int)
    return result.return_value, result.output


def test_a_sound_log_says_so_and_where_it_ends(place: Path) -> None:
    status, said = run()
    assert status == 0
    first, second = said.splitlines()
    assert first == f"ok {place}: 3 lines in 1 file"
    assert second.startswith("newest: 3 ")


def test_a_log_that_was_never_pruned_names_nobody(place: Path) -> None:
    assert "begins" not in run()[1]
    assert json.loads(run("--json")[1])["pruning"] is None


def test_a_fault_has_its_place_and_what_to_do(place: Path) -> None:
    file = files(place)[0]
    file.write_bytes(file.read_bytes().replace(b"evil.example", b"good.example", 1))
    status, said = run()
    assert status == 1
    fault, hint, total = said.splitlines()
    assert fault.startswith("audit-000001.jsonl:1: this line, number 1, ")
    assert hint.startswith("  hint: keep the folder as it is")
    assert total == f"1 fault in {place}: 2 lines in 1 file"


def test_a_killed_proxy_is_no_fault(place: Path) -> None:
    sink = opened(place.parent)
    sink.refusal(NAME)
    sink._writer._head.announce(sink._writer._end(400))
    abandon(sink)
    status, said = run()
    assert status == 0
    assert said.startswith("1 line announced and not there")


def test_the_folder_and_the_key_can_be_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGRESS_STATE_DIR", "/nowhere")
    status, _ = run("--dir", str(place), "--key", str(place.parent / "audit.key"))
    assert status == 0


def test_json_names_every_fault(place: Path) -> None:
    (place / FILE_NAME).unlink()
    status, said = run("--json")
    told = json.loads(said)
    assert status == 1
    assert (told["ok"], told["lines"], told["files"], told["newest"]) == (False, 3, 1, 3)
    assert [(fault["file"], fault["kind"]) for fault in told["faults"]] == [("head", "head")]
    assert told["faults"][0]["hint"]


def test_without_a_log_or_a_key_it_cannot_tell(place: Path, tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="key not found") as error:
        run("--key", str(tmp_path / "none"))
    assert error.value.exit_status == 3
    with pytest.raises(UnreadableError, match="cannot be read: no such file"):
        run("--dir", str(tmp_path / "none"))


def test_what_is_in_a_log_cannot_command_a_terminal(place: Path) -> None:
    (place / "audit-000002.jsonl").write_bytes(b"\x1b[2Jhello\x07\n")
    status, said = run()
    assert status == 1
    assert all(line.isprintable() for line in said.splitlines())


def test_the_state_folder_says_where_both_are(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGRESS_STATE_DIR", "/nowhere")
    assert run("--state-dir", str(place.parent))[0] == 0


def test_with_another_key_both_keys_are_named(place: Path, tmp_path: Path) -> None:
    other = tmp_path / "other/audit.key"
    keys.read_or_create(other, place)
    with pytest.raises(UnreadableError, match="was not written with this key") as error:
        run("--dir", str(place), "--key", str(other))
    assert (
        f"the key taken was {other}; a key exists beside the log: {place.parent / 'audit.key'}"
        in error.value.hint
    )
    with pytest.raises(UnreadableError, match=f"key not found: {tmp_path / 'none'}") as error:
        run("--dir", str(place), "--key", str(tmp_path / "none"))
    assert f"a key exists beside the log: {place.parent / 'audit.key'}" in error.value.hint
