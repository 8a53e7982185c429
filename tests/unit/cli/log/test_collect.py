"""`egress log collect`: several logs become one."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.errors import UnreadableError, UsageError
from tests.unit.audit.chained_log import sound_log
from tests.unit.audit.sample import KEY
from tests.unit.audit.test_log_collection import write_replica
from tests.unit.cli.log.sample import run


@pytest.fixture
def key(tmp_path: Path) -> Path:
    for number in range(2):
        write_replica(tmp_path / f"log-{number}", f"replica-{number}", 1)
    path = tmp_path / "audit.key"
    path.write_bytes(KEY)
    path.chmod(0o600)
    return path


def test_two_folders_become_one_log(key: Path, tmp_path: Path) -> None:
    out, logs = tmp_path / "out", [str(tmp_path / f"log-{number}") for number in range(2)]
    status, told, _ = run("collect", str(out), *logs, "--key", str(key))
    assert (status, told.count(" bytes of ")) == (0, 2)
    assert sound_log(out).lines == 4
    assert run("verify", "--dir", str(out), "--key", str(key))[0] == 0


def test_either_folders_or_a_cluster_is_named(key: Path, tmp_path: Path) -> None:
    for words in ([], [str(tmp_path / "log-0"), "--kubernetes"]):
        with pytest.raises(UsageError, match="either folders or those of a cluster"):
            run("collect", str(tmp_path / "out"), *words, "--key", str(key))


def test_a_log_that_is_not_there_is_an_error(key: Path, tmp_path: Path) -> None:
    with pytest.raises(UnreadableError):
        run("collect", str(tmp_path / "out"), str(tmp_path / "nothing"), "--key", str(key))
