"""Records of kept sandboxes: private, of their cell, and read only if they are whole."""

from __future__ import annotations

import json
import os
from ipaddress import IPv4Network
from pathlib import Path

import msgspec
import pytest

from egress.errors import UnreadableError
from egress.runtime.docker.kept_record import MAX_RECORD_BYTES, KeptRecord, KeptRecords
from egress.runtime.errors import EngineUnavailableError
from egress.runtime.owner_lock import kept_lease, write_owner
from egress.runtime.proxy_client import Admission, PlantedCanary
from egress.runtime.spec import Spec

CELL, OTHER = "0123abcd", "76543210"
CANARY = PlantedCanary("alone", "cnr_value", file="/tmp/a", content="cnr_value")
RECORD = KeptRecord(
    cell=CELL,
    container="a" * 64,
    image="sha256:" + "b" * 64,
    network="c" * 64,
    subnet=IPv4Network("198.18.0.8/29"),
    spec=Spec(name="one", image="any", env={"A": "b"}),
    admission=Admission("one", "PEM", {"tracker": {"like": "x"}}, (CANARY,), "5eed"),
    files=("/.egress/supervisor.sh", "/etc/resolv.conf"),
    ports=(80, 443),
    note='{"a": 1}',
    deadline=1000.5,
    bar="",
)


def cell(home: Path, name: str = CELL, *, lease: str = "") -> Path:
    folder = home / name
    folder.mkdir()
    write_owner(folder, lease or str(kept_lease(home)))
    return folder / "kept.json"


@pytest.fixture
def records(tmp_path: Path) -> KeptRecords:
    return KeptRecords(tmp_path, kept_lease(tmp_path))


def test_a_record_is_read_as_it_was_written_and_by_its_user_alone(
    records: KeptRecords, tmp_path: Path
) -> None:
    path = cell(tmp_path)
    records.write(RECORD)
    assert records.read(CELL) == RECORD
    assert path.stat().st_mode & 0o777 == 0o600
    records.write(msgspec.structs.replace(RECORD, bar="canary"))
    assert records.read(CELL).bar == "canary"
    assert list(records.cells()) == [CELL]
    records.remove(CELL)
    records.remove(CELL)
    assert list(records.cells()) == []
    with pytest.raises(UnreadableError, match="is missing"):
        records.read(CELL)


def test_a_record_that_others_can_read_or_that_is_a_link_is_none(
    records: KeptRecords, tmp_path: Path
) -> None:
    path = cell(tmp_path)
    records.write(RECORD)
    path.chmod(0o644)
    with pytest.raises(UnreadableError, match="open to other users"):
        records.read(CELL)
    path.chmod(0o600)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnreadableError, match="cannot be read"):
        records.read(CELL)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_record_of_another_user_is_none(records: KeptRecords, tmp_path: Path) -> None:
    path = cell(tmp_path)
    records.write(RECORD)
    os.chown(path, 12345, -1)
    with pytest.raises(UnreadableError, match="belongs to another user"):
        records.read(CELL)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("version", 2),
        ("version", None),
        ("cell", OTHER),
        ("cell", f"../{CELL}"),
        ("container", "a" * 63),
        ("container", "egress-one"),
        ("network", "A" * 64),
        ("subnet", "198.18.0.9/29"),
        ("subnet", 1),
        ("spec", {"name": "one"}),
        ("admission", {"name": "one"}),
        ("ports", [0]),
        ("ports", "80"),
        ("deadline", "never"),
        ("bar", "perhaps"),
        ("note", 1),
        ("more", 1),
    ],
)
def test_a_record_that_was_changed_is_none(
    records: KeptRecords, tmp_path: Path, field: str, value: object
) -> None:
    path = cell(tmp_path)
    records.write(RECORD)
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    with pytest.raises(UnreadableError) as caught:
        records.read(CELL)
    assert "egress down" in caught.value.hint
    assert CANARY.value not in caught.value.message
    # It is still known that something is kept there.
    assert list(records.cells()) == [CELL]


def test_a_record_is_bounded(records: KeptRecords, tmp_path: Path) -> None:
    path = cell(tmp_path)
    records.write(RECORD)
    with path.open("ab") as file:
        file.truncate(MAX_RECORD_BYTES + 1)
    with pytest.raises(UnreadableError, match="too long"):
        records.read(CELL)


def test_only_cells_of_the_kept_lease_count(records: KeptRecords, tmp_path: Path) -> None:
    for name, lease in ((CELL, ""), (OTHER, "/another.lease"), ("not-a-cell", "")):
        cell(tmp_path, name, lease=lease).touch()
    (tmp_path / "76543211").mkdir()
    (tmp_path / "file").touch()
    assert list(records.cells()) == [CELL]
    assert list(KeptRecords(tmp_path / "nothing", kept_lease(tmp_path)).cells()) == []


def test_a_record_that_cannot_be_written_is_told(records: KeptRecords) -> None:
    with pytest.raises(EngineUnavailableError, match="cannot record a sandbox"):
        records.write(RECORD)


def test_its_time_passes() -> None:
    assert [RECORD.is_over(now) for now in (1000.0, 1000.5)] == [False, True]
    assert not msgspec.structs.replace(RECORD, deadline=None).is_over(10.0**12)
