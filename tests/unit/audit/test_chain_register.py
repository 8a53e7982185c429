"""The register of chains: written as a whole, read strictly, changed by one process at a time."""

from __future__ import annotations

import hmac
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.audit import chain_register
from egress.audit.chain_register import REGISTER, DamagedRegisterError, RegisteredLine
from egress.errors import UnreadableError

KEY = bytes(32)
ENTRIES = {
    ".": RegisteredLine(812, bytes(range(32))),
    "chains/0002": RegisteredLine(),
    "../runs/4f2a9c1e/audit": RegisteredLine(3, b"x" * 32),
}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with chain_register.locked(tmp_path):
        chain_register.write(tmp_path, KEY, ENTRIES)
    return tmp_path


def sealed(value: object) -> bytes:
    body = json.dumps(value).encode()
    return body + hmac.digest(KEY, body, "sha256")


def test_it_is_read_as_it_was_written(log: Path) -> None:
    assert chain_register.read(log, KEY) == ENTRIES
    assert (log / REGISTER).stat().st_mode & 0o007 == 0


def test_a_log_without_one_has_none(tmp_path: Path) -> None:
    assert chain_register.read(tmp_path, KEY) is None
    assert chain_register.read(tmp_path / "missing", KEY) is None


@given(st.data())
def test_no_changed_byte_is_accepted(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    log = tmp_path_factory.mktemp("log")
    with chain_register.locked(log):
        chain_register.write(log, KEY, ENTRIES)
    whole = (log / REGISTER).read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = data.draw(
        st.sampled_from([whole[:at], whole[:at] + whole[at + 1 :], whole[:at] + b"\0" + whole[at:]])
        | st.integers(1, 255).map(lambda byte: whole[:at] + bytes([whole[at] ^ byte]) + whole[at + 1 :])
    )
    (log / REGISTER).write_bytes(changed)
    with pytest.raises(DamagedRegisterError):
        chain_register.read(log, KEY)


def test_another_key_does_not_read_it(log: Path) -> None:
    with pytest.raises(DamagedRegisterError):
        chain_register.read(log, b"x" * 32)


@pytest.mark.parametrize(
    "value",
    [
        *([], {}, {"chains": []}, {"chains": {".": 1}}, {"chains": {".": [1]}}, {"chains": {".": [1, "zz"]}}),
        *({"chains": {".": [-1, "00" * 32]}}, {"chains": {".": [True, "00" * 32]}}),
        *({"chains": {".": ["1", "00" * 32]}}, {"chains": {".": [1, "00" * 31]}}),
        *({"chains": {"../../etc": [1, "00" * 32]}}, {"chains": {".": [1, "00" * 32, 2]}}),
    ],
)
def test_a_form_that_no_version_wrote_is_damage_even_with_the_key(log: Path, value: object) -> None:
    (log / REGISTER).write_bytes(sealed(value))
    with pytest.raises(DamagedRegisterError):
        chain_register.read(log, KEY)


def test_one_that_is_too_long_is_not_read(log: Path) -> None:
    with (log / REGISTER).open("ab") as file:
        file.truncate(1 << 30)
    with pytest.raises(DamagedRegisterError):
        chain_register.read(log, KEY)


def test_a_link_in_its_place_is_not_followed(log: Path, tmp_path: Path) -> None:
    (log / REGISTER).rename(tmp_path / "other")
    (log / REGISTER).symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic links"):
        chain_register.read(log, KEY)


def test_processes_change_it_one_after_the_other(tmp_path: Path) -> None:
    """Each adds an entry to those that it read, so an entry that gets lost would be missing."""
    program = (
        "import sys; from pathlib import Path; from egress.audit import chain_register as r\n"
        "log = Path(sys.argv[1])\n"
        "for number in range(20):\n"
        "    with r.locked(log):\n"
        "        place = f'chains/{int(sys.argv[2]) * 100 + number:04d}'\n"
        "        r.write(log, bytes(32), {**(r.read(log, bytes(32)) or {}), place: r.RegisteredLine()})\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path), str(n)]) for n in range(4)]
    assert [process.wait() for process in running] == [0] * 4
    assert len(chain_register.read(tmp_path, KEY) or {}) == 80


def test_a_stopped_process_holds_the_others_up_for_a_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain_register, "_LOCK_TIMEOUT", 0.05)
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    with (
        chain_register.locked(tmp_path),
        pytest.raises(UnreadableError, match="another process holds the register"),
        chain_register.locked(tmp_path),
    ):
        pass
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    with chain_register.locked(tmp_path):
        pass
